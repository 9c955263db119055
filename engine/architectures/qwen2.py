"""Qwen2 (https://arxiv.org/abs/2407.10671): Llama's blocks, with biases on queries, keys and values."""

from __future__ import annotations

from engine.architectures.transformer import QKV_BIASES, Output, Transformer, TransformerConfig
from engine.errors import UnplayableModel
from engine.graph import Forward
from engine.hparams import Header
from engine.weights import Weights

NAME = "qwen2"
classifier = None  # llama.cpp reads none here
BIASES = QKV_BIASES | {"output"}


def read_config(header: Header) -> TransformerConfig:
    """Reads the header's keys.

    Raises:
        UnplayableModel: as of any decoder, and if the heads are not as wide together as the rows: llama.cpp wants it.
    """
    config = TransformerConfig.from_header(header)
    if config.n_head * config.head_size != config.n_embd:
        raise UnplayableModel(f"{config.n_head} heads of {config.head_size} do not make rows of {config.n_embd}")
    return config


def forward(config: TransformerConfig, weights: Weights, output: Output = "logits") -> Forward:
    """The pass from tokens to the last row's logits, or to all rows."""
    t = Transformer(config, weights, neox=True, biases=BIASES, output=output)
    x = t.embedding()
    for i in range(config.n_layer):
        q, k, v = t.queries_keys_values(x, i)
        x = t.attend(x, q, k, v, i)
        x = t.feed_forward(x, i)
    return t.result(x)
