"""Llama (https://arxiv.org/abs/2302.13971) and what has its shape, as Mistral (https://arxiv.org/abs/2310.06825)."""

from __future__ import annotations

from engine.architectures.transformer import QKV_BIASES, Output, Transformer, TransformerConfig
from engine.graph import Forward
from engine.weights import Weights

NAME = "llama"
read_config = TransformerConfig.from_header
classifier = None  # llama.cpp reads none here
BIASES = QKV_BIASES | {"attn_output", "ffn_gate", "ffn_up", "ffn_down"}


def forward(config: TransformerConfig, weights: Weights, output: Output = "logits") -> Forward:
    """The pass from tokens to the last row's logits, or to all rows."""
    factors = weights.optional_vector("rope_freqs.weight", config.head_size // 2)  # Llama 3's long context
    t = Transformer(config, weights, neox=False, biases=BIASES, rope_factors=factors, output=output)
    x = t.embedding()
    for i in range(config.n_layer):
        q, k, v = t.queries_keys_values(x, i)
        x = t.attend(x, q, k, v, i)
        x = t.feed_forward(x, i)
    return t.result(x)
