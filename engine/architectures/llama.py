"""Llama (https://arxiv.org/abs/2302.13971): pre-norm blocks of grouped-query attention and SwiGLU, rotary positions.

Which tensors, in what order; the arithmetic is in engine/kernels/.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from engine.graph import Forward, Value
from engine.hparams import Header
from engine.weights import Weights

NAME = "llama"


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes of a Llama, in GGUF's terms."""

    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_size: int
    n_rot: int
    norm_eps: float
    rope_freq_base: float
    rope_freq_scale: float
    rope_neox: bool = False  # neighbouring pairs: the file's query and key rows are permuted for it

    @classmethod
    def from_header(cls, header: Header) -> LlamaConfig:
        """Reads the `llama.*` keys.

        Raises:
            UnplayableModel: a key is missing, or asks for something this architecture does not do.
        """
        header.refuse("expert_count", "it is a mixture of experts")
        header.refuse("attention.sliding_window", "it has sliding-window attention")
        header.refuse("attention.scale", "it sets its own attention scale")
        n_embd = header.integer("embedding_length")
        n_head = header.integer("attention.head_count")
        head_size = header.integer("attention.key_length", n_embd // n_head)
        return cls(
            n_vocab=header.n_vocab,
            n_ctx_train=header.integer("context_length"),
            n_embd=n_embd,
            n_layer=header.integer("block_count"),
            n_ff=header.integer("feed_forward_length"),
            n_head=n_head,
            n_head_kv=header.integer("attention.head_count_kv", n_head),
            head_size=head_size,
            n_rot=header.integer("rope.dimension_count", head_size),
            norm_eps=header.number("attention.layer_norm_rms_epsilon"),
            rope_freq_base=header.number("rope.freq_base", 10000.0),
            rope_freq_scale=header.rope_scale(),
        )


def forward(config: LlamaConfig, weights: Weights) -> Forward:
    """The forward pass from tokens to the last row's logits."""
    f = Forward()
    scale = float(np.float32(1.0) / np.float32(sqrt(np.float32(config.head_size))))
    q_width, kv_width = config.n_head * config.head_size, config.n_head_kv * config.head_size
    n_embd, n_ff = config.n_embd, config.n_ff

    def normed(x: Value, name: str) -> Value:
        return f.rms_norm(x, weights.vector(name, n_embd), config.norm_eps)

    x = f.embedding(weights.matrix("token_embd.weight", config.n_vocab, n_embd))
    for i in range(config.n_layer):
        block = f"blk.{i}."
        h = normed(x, block + "attn_norm.weight")
        q = f.linear(h, weights.matrix(block + "attn_q.weight", q_width, n_embd))
        k = f.linear(h, weights.matrix(block + "attn_k.weight", kv_width, n_embd))
        v = f.linear(h, weights.matrix(block + "attn_v.weight", kv_width, n_embd))
        h = f.attention(i, q, k, v, n_head=config.n_head, scale=scale)
        x = f.add(f.linear(h, weights.matrix(block + "attn_output.weight", n_embd, q_width)), x)
        if i == config.n_layer - 1:
            x = f.last_row(x)  # as llama.cpp: past the last attention only rows with output go on
        h = normed(x, block + "ffn_norm.weight")
        gate = f.linear(h, weights.matrix(block + "ffn_gate.weight", n_ff, n_embd))
        up = f.linear(h, weights.matrix(block + "ffn_up.weight", n_ff, n_embd))
        x = f.add(f.linear(f.swiglu(gate, up), weights.matrix(block + "ffn_down.weight", n_embd, n_ff)), x)
    x = normed(x, "output_norm.weight")
    output = "output.weight" if "output.weight" in weights else "token_embd.weight"  # tied embeddings
    f.linear(x, weights.matrix(output, config.n_vocab, n_embd))
    return f
