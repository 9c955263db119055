"""Qwen3 (https://arxiv.org/abs/2505.09388): Llama's blocks, with every query and key head normed before it turns."""

from __future__ import annotations

from engine.architectures.transformer import QKV_BIASES, Output, Transformer, TransformerConfig
from engine.graph import Forward
from engine.kernels import Matrix
from engine.weights import Weights

NAME = "qwen3"
read_config = TransformerConfig.from_header


def forward(config: TransformerConfig, weights: Weights, output: Output = "logits") -> Forward:
    """The pass from tokens to the last row's logits, or to all rows."""
    t = Transformer(config, weights, neox=True, biases=QKV_BIASES, output=output)
    x = t.embedding()
    for i in range(config.n_layer):
        q, k, v = t.queries_keys_values(x, i)
        q = t.head_norm(q, f"blk.{i}.attn_q_norm")
        k = t.head_norm(k, f"blk.{i}.attn_k_norm")
        x = t.attend(x, q, k, v, i)
        x = t.feed_forward(x, i)
    return t.result(x)


def classifier(config: TransformerConfig, weights: Weights) -> Matrix | None:
    """What makes a reranker's scores of its last row, if the file has it: a row a label."""
    name = "cls.output.weight"
    return weights.matrix(name, config.n_labels, config.n_embd) if name in weights else None
