"""What the architectures here share: a header's sizes, and the parts of a pre-norm decoder, each by its GGUF tensors.

The parts are grouped-query attention (https://arxiv.org/abs/2305.13245) with rotary positions, and SwiGLU
(https://arxiv.org/abs/2002.05202). Which tensors, in what order; the arithmetic is in engine/kernels/.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Literal

import numpy as np

from engine.graph import FloatArray, Forward, Value
from engine.hparams import Header, RopeScaling
from engine.kernels import Rope
from engine.pooling import Pooling
from engine.weights import Weights

QKV_BIASES = frozenset({"attn_q", "attn_k", "attn_v"})

Output = Literal["logits", "rows"]
"""What a pass ends in: the logits of the last row, or every row after the last norm."""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Sizes of a decoder, in GGUF's terms; how its rows are pooled, and the labels that a classifier has."""

    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_size: int
    norm_eps: float
    rope: RopeScaling
    pooling: Pooling = Pooling.NONE
    n_labels: int = 1

    @classmethod
    def from_header(cls, header: Header) -> TransformerConfig:
        """Reads the architecture's keys; those that llama.cpp does not read for it are not looked at.

        Raises:
            UnplayableModel: a key is missing, or asks for something that is not done here.
        """
        for name in ("expert_count", "expert_used_count", "expert_group_count"):
            header.refuse(name, "it is a mixture of experts")
        header.refuse("nextn_predict_layers", "it predicts several tokens at once")
        header.require("attention.causal", True, "its attention sees what comes later")
        n_embd = header.integer("embedding_length")
        n_layer = header.integer("block_count")
        n_head = header.integer_of_layers("attention.head_count", n_layer)
        head_size = header.integer("attention.key_length", n_embd // n_head)
        header.require("attention.value_length", head_size, "values are as wide as keys", n_embd // n_head)
        header.require("rope.dimension_count", head_size, "all dimensions of a head turn")
        return cls(
            n_vocab=header.n_vocab,
            n_ctx_train=header.integer("context_length"),
            n_embd=n_embd,
            n_layer=n_layer,
            n_ff=header.integer_of_layers("feed_forward_length", n_layer),
            n_head=n_head,
            n_head_kv=header.integer_of_layers("attention.head_count_kv", n_layer, n_head),
            head_size=head_size,
            norm_eps=header.positive("attention.layer_norm_rms_epsilon", or_zero=True),
            rope=header.rope_scaling(),
            pooling=header.pooling(),
            n_labels=header.n_labels(),
        )


class Transformer:
    """A forward pass in the writing.

    Args:
        config: the sizes.
        weights: the file's tensors.
        neox: a rotated pair is half a head apart; else the file's query and key rows are permuted for neighbours.
        biases: names of the tensors, without block and suffix, that may have a bias.
        rope_factors: divisors of the rotary angles, a pair each, or none.
        output: what it ends in.
    """

    def __init__(
        self,
        config: TransformerConfig,
        weights: Weights,
        *,
        neox: bool,
        biases: Collection[str] = (),
        rope_factors: FloatArray | None = None,
        output: Output = "logits",
    ) -> None:
        self.output = output
        self.config = config
        self.weights = weights
        self.biases = biases
        factors = [] if rope_factors is None else rope_factors.tolist()
        self.f = Forward(Rope(n_rot=config.head_size, neox=neox, freq_factors=factors, **asdict(config.rope)))

    def norm(self, x: Value, name: str) -> Value:
        """RMS norm of every row by the vector `name`."""
        return self.f.rms_norm(x, self.weights.vector(name + ".weight", x.width), self.config.norm_eps)

    def head_norm(self, x: Value, name: str) -> Value:
        """RMS norm of every head of every row by the vector `name`."""
        return self.f.rms_norm(x, self.weights.vector(name + ".weight", self.config.head_size), self.config.norm_eps)

    def linear(self, x: Value, name: str, rows: int) -> Value:
        """The product with the matrix `name`, and its bias if it may have one and the file holds it."""
        return self.f.linear(x, self.weights.matrix(name + ".weight", rows, x.width), self._bias(name, rows))

    def _bias(self, name: str, rows: int) -> FloatArray | None:
        may_have_one = name.rpartition(".")[2] in self.biases
        return self.weights.optional_vector(name + ".bias", rows) if may_have_one else None

    def embedding(self) -> Value:
        """The tokens' rows of the embedding."""
        c = self.config
        return self.f.embedding(self.weights.matrix("token_embd.weight", c.n_vocab, c.n_embd))

    def queries_keys_values(self, x: Value, i: int) -> tuple[Value, Value, Value]:
        """What block i asks, is asked for and answers with: of a norm of its input."""
        c, block = self.config, f"blk.{i}."
        h = self.norm(x, block + "attn_norm")
        q = self.linear(h, block + "attn_q", c.n_head * c.head_size)
        k = self.linear(h, block + "attn_k", c.n_head_kv * c.head_size)
        v = self.linear(h, block + "attn_v", c.n_head_kv * c.head_size)
        return q, k, v

    def attend(self, x: Value, q: Value, k: Value, v: Value, i: int) -> Value:
        """Adds block i's attention to its input."""
        c = self.config
        scale = float(np.float32(1.0) / np.float32(sqrt(np.float32(c.head_size))))
        h = self.f.attention(i, q, k, v, n_head=c.n_head, scale=scale)
        x = self.f.add(self.linear(h, f"blk.{i}.attn_output", c.n_embd), x)
        # As llama.cpp: past the last attention only rows with output go on.
        return self.f.last_row(x) if i == c.n_layer - 1 and self.output == "logits" else x

    def feed_forward(self, x: Value, i: int) -> Value:
        """Adds block i's SwiGLU to its input."""
        c, block = self.config, f"blk.{i}."
        h = self.norm(x, block + "ffn_norm")
        gate = self.linear(h, block + "ffn_gate", c.n_ff)
        up = self.linear(h, block + "ffn_up", c.n_ff)
        return self.f.add(self.linear(self.f.swiglu(gate, up), block + "ffn_down", c.n_embd), x)

    def result(self, x: Value) -> Forward:
        """The whole pass, to what it ends in; the output matrix is the embedding if the file has none."""
        h = self.norm(x, "output_norm")
        if self.output == "rows":
            return self.f
        matrix = "output.weight" if "output.weight" in self.weights else "token_embd.weight"
        n_vocab = self.config.n_vocab
        self.f.linear(h, self.weights.matrix(matrix, n_vocab, h.width), self._bias("output", n_vocab))
        return self.f
