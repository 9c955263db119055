"""Tiny seeded models of every architecture: the same bytes on every machine, from integer draws alone.

`python -m testing.oracles.small_models FOLDER` writes them all. Each is a GGUF file that llama-server loads and chats
with: a byte-level vocabulary of 256 bytes, some merges and three special tokens, and a ChatML template.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.gguf import GGMLType
from testing.gguf_writer import ModelFile, TensorData
from testing.oracles.blocks import WANTED, small_weights
from testing.oracles.draws import Draws

# --- weights ------------------------------------------------------------------------------------------------------


def matrix(draws: Draws, kind: GGMLType, rows: int, cols: int) -> TensorData:
    """A weight matrix of a type that is in `blocks.WANTED`."""
    data = small_weights(draws, kind, rows * cols // kind.block_size)
    return TensorData(kind, (cols, rows), data.tobytes())


def vector(draws: Draws, n: int, middle: float, exponent: int) -> TensorData:
    """Floats around `middle`, at most 2^exponent away."""
    values = draws.floats(n, exponent) + np.float32(middle)
    return TensorData(GGMLType.F32, (n,), values.astype("<f4").tobytes())


# --- the vocabulary -----------------------------------------------------------------------------------------------

_WORDS: Final = (
    "Ġthe",
    "Ġand",
    "Ġto",
    "Ġof",
    "Ġin",
    "Ġis",
    "Ġyou",
    "Ġthat",
    "ing",
    "tion",
    "ment",
    "ers",
    "Ġwhat",
    "ello",
)
SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _merges() -> list[tuple[str, str]]:
    pairs = [(word[:i], word[i]) for word in _WORDS for i in range(1, len(word))]
    return list(dict.fromkeys(pairs))


def vocabulary(pre: str, multiple: int = 1) -> dict[str, Any]:
    """The tokenizer's keys: special tokens first, then bytes, merged ones, and unused ones up to a multiple."""
    tokens = [*SPECIAL, *_byte_letters(), *("".join(pair) for pair in _merges())]
    n_unused = -len(tokens) % multiple
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [*tokens, *(f"<|unused-{i}|>" for i in range(n_unused))],
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)) + [3] * n_unused,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in _merges()],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


# --- the models ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SmallModel:
    """What a small model is made of.

    Attributes:
        heads: query heads, key/value heads, and a head's dimensions.
        n_ff: width of the feed-forward layer; no power of two by default.
        types: type of the matrices; of several, each takes the next one in turn.
        embedding: type of the embedding.
        output: type of the output matrix; None where it is the embedding.
        keys: further keys of the header, without the architecture's prefix.
        biases: tensors, without block and suffix, that have a bias.
        rope_factors: whether the file divides the rotary angles.
        vocab_multiple: what the number of tokens is filled up to a multiple of.
    """

    name: str
    architecture: str
    heads: tuple[int, int, int]
    types: tuple[GGMLType, ...]
    n_embd: int = 64
    n_layer: int = 2
    n_ff: int = 96
    n_ctx_train: int = 1024
    embedding: GGMLType = GGMLType.F16
    output: GGMLType | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)
    biases: tuple[str, ...] = ()
    rope_factors: bool = False
    vocab_multiple: int = 1

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of a layer's matrices."""
        n_head, n_head_kv, size = self.heads
        return {
            "attn_q": (n_head * size, self.n_embd),
            "attn_k": (n_head_kv * size, self.n_embd),
            "attn_v": (n_head_kv * size, self.n_embd),
            "attn_output": (self.n_embd, n_head * size),
            "ffn_gate": (self.n_ff, self.n_embd),
            "ffn_up": (self.n_ff, self.n_embd),
            "ffn_down": (self.n_embd, self.n_ff),
        }

    def header(self) -> dict[str, Any]:
        """The keys that describe the model."""
        n_head, n_head_kv, size = self.heads
        keys = {
            "context_length": self.n_ctx_train,
            "embedding_length": self.n_embd,
            "block_count": self.n_layer,
            "feed_forward_length": self.n_ff,
            "attention.head_count": n_head,
            "attention.head_count_kv": n_head_kv,
            "attention.layer_norm_rms_epsilon": 2.0**-17,
        }
        if n_head * size != self.n_embd:
            keys |= {"attention.key_length": size, "attention.value_length": size}
        keys |= self.keys
        return {f"{self.architecture}.{name}": value for name, value in keys.items()}

    def file(self, words: Mapping[str, Any] | None = None) -> ModelFile:
        """The whole model; its seed is its name, `words` the tokenizer's keys instead of its own."""
        draws = Draws(self.name)
        words = words or vocabulary("smollm" if self.architecture == "llama" else "qwen2", self.vocab_multiple)
        n_vocab = len(words["tokenizer.ggml.tokens"])
        tensors = {"token_embd.weight": matrix(draws, self.embedding, n_vocab, self.n_embd)}
        if self.rope_factors:
            tensors["rope_freqs.weight"] = vector(draws, self.heads[2] // 2, 2.5, 0)
        for i in range(self.n_layer):
            self._add_layer(tensors, draws, i)
        tensors["output_norm.weight"] = vector(draws, self.n_embd, 1.0, -3)
        if self.output is not None:
            tensors["output.weight"] = matrix(draws, self.output, n_vocab, self.n_embd)
        if "output" in self.biases:
            tensors["output.bias"] = vector(draws, n_vocab, 0.0, -1)
        general = {"general.architecture": self.architecture, "general.name": self.name}
        return ModelFile({**general, **self.header(), **words}, tensors)

    def _add_layer(self, tensors: dict[str, TensorData], draws: Draws, i: int) -> None:
        block = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"{block}{name}.weight"] = vector(draws, self.n_embd, 1.0, -3)
        if self.architecture == "qwen3":
            for name in ("attn_q_norm", "attn_k_norm"):
                tensors[f"{block}{name}.weight"] = vector(draws, self.heads[2], 1.25, -2)
        for at, (name, (rows, cols)) in enumerate(self.shapes().items()):
            kind = self.types[(i * len(self.shapes()) + at) % len(self.types)]
            tensors[f"{block}{name}.weight"] = matrix(draws, kind, rows, cols)
            if name in self.biases:
                tensors[f"{block}{name}.bias"] = vector(draws, rows, 0.0, -2)


_F32, _F16, _BF16 = (GGMLType.F32,), (GGMLType.F16,), (GGMLType.BF16,)
_Q8_0, _Q4_1 = (GGMLType.Q8_0,), (GGMLType.Q4_1,)
_Q3_K_M, _Q4_K_M = (GGMLType.Q3_K, GGMLType.Q4_K, GGMLType.Q5_K), (GGMLType.Q4_K, GGMLType.Q4_K, GGMLType.Q6_K)
_QKV = ("attn_q", "attn_k", "attn_v")
_AND_OUTPUT = (*_QKV, "output")
_ALL = (*_QKV, "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def _yarn(factor: float, n_ctx_orig: int, **keys: Any) -> dict[str, Any]:
    scaling = {"type": "yarn", "factor": factor, "original_context_length": n_ctx_orig, **keys}
    return {f"rope.scaling.{name}": value for name, value in scaling.items()}


def _all_of(kind: GGMLType) -> SmallModel:
    """All matrices of one type, in rows that each type can hold; an output whose rows do not come in eights."""
    name = f"llama-all-{kind.name.lower()}"
    return SmallModel(name, "llama", (4, 2, 64), (kind,), n_embd=256, n_ff=256, n_layer=1, embedding=kind, output=kind)


def _tied(kind: GGMLType) -> SmallModel:
    """An embedding of one type that is the output too, its rows in eights."""
    name = f"llama-tied-{kind.name.lower()}"
    return SmallModel(name, "llama", (4, 2, 64), _F16, n_embd=256, n_layer=1, embedding=kind, vocab_multiple=8)


_UNSCALED: Final = {"rope.scaling.type": "none", "rope.scaling.factor": 4.0, "attention.head_count_kv": [2, 2]}
_LINEAR: Final = {"rope.scaling.type": "linear", "rope.scaling.factor": 3.0, "rope.freq_base": 500000.0}
_LONG: Final = {"rope.freq_base": 1000000.0}

ARCHITECTURES: Final[Sequence[SmallModel]] = (
    SmallModel("llama-f32", "llama", (2, 2, 32), _F32, embedding=GGMLType.F32),
    SmallModel("llama-f16-untied", "llama", (4, 2, 32), _F16, n_embd=128, output=GGMLType.F16, rope_factors=True),
    SmallModel("llama-bf16", "llama", (6, 1, 32), _BF16, n_embd=96, embedding=GGMLType.BF16, n_ctx_train=1000),
    SmallModel("llama-q8_0-linear", "llama", (4, 1, 64), _Q8_0, n_embd=128, embedding=GGMLType.Q8_0, keys=_LINEAR),
    SmallModel("llama-f16-unscaled", "llama", (2, 2, 64), _F16, keys=_UNSCALED),
    SmallModel("llama-f16-grown", "llama", (2, 1, 64), _F16, keys={**_LINEAR, "rope.scaling.attn_factor": 1.5}),
    SmallModel(
        "llama-q4_1-untied", "llama", (3, 3, 96), _Q4_1, embedding=GGMLType.Q8_0, output=GGMLType.Q4_1, n_layer=3
    ),
    SmallModel("llama-mixed", "llama", (9, 3, 32), _Q4_1 + _Q8_0 + _F16, n_embd=288, embedding=GGMLType.Q8_0),
    SmallModel("llama-biases", "llama", (4, 2, 128), _Q8_0 + _F16 + _Q4_1 + _F32, biases=_ALL),
    SmallModel("llama-yarn", "llama", (2, 1, 64), _Q4_1, n_embd=128, keys=_yarn(8.0, 128), rope_factors=True),
    SmallModel("llama-heads-8", "llama", (8, 2, 8), _F16),
    SmallModel("llama-heads-40", "llama", (4, 1, 40), _Q8_0),
    SmallModel("llama-heads-80", "llama", (2, 2, 80), _F16, n_embd=160),
    SmallModel("llama-heads-112", "llama", (4, 2, 112), _Q4_1),
    SmallModel("llama-heads-192", "llama", (2, 1, 192), _Q8_0),
    SmallModel("llama-heads-256", "llama", (2, 1, 256), _Q4_1),
    SmallModel("llama-heads-512", "llama", (2, 1, 512), _F16),
    SmallModel("qwen2-f16", "qwen2", (2, 1, 64), _F16, n_embd=128, biases=_QKV),
    SmallModel(
        "qwen2-q4_1-untied", "qwen2", (6, 2, 32), _Q4_1, 192, output=GGMLType.Q8_0, biases=_AND_OUTPUT, keys=_LONG
    ),
    SmallModel("qwen2-yarn", "qwen2", (2, 2, 128), _Q8_0, n_embd=256, biases=_QKV, keys=_yarn(4.0, 256)),
    SmallModel("qwen3-f32", "qwen3", (4, 2, 32), _F32, embedding=GGMLType.F32, output=GGMLType.F32),
    SmallModel("qwen3-q8_0", "qwen3", (4, 2, 128), _Q8_0, embedding=GGMLType.Q8_0),
    SmallModel("qwen3-q4_1-biases", "qwen3", (8, 2, 64), _Q4_1, n_embd=256, biases=_QKV),
    SmallModel("qwen3-yarn", "qwen3", (4, 1, 64), _Q4_1 + _F16, keys=_yarn(4.0, 256, attn_factor=1.25) | _LONG),
    SmallModel("qwen3-yarn-odd", "qwen3", (4, 4, 80), _Q8_0, keys=_yarn(2.7, 300)),
)
"""Every architecture, and what a header may ask of each."""

TYPES: Final[Sequence[SmallModel]] = (
    *map(_all_of, WANTED),
    *map(_tied, (GGMLType.Q4_0, GGMLType.Q4_K, GGMLType.IQ4_NL, GGMLType.Q8_0)),
    SmallModel("qwen2-q3_k_m", "qwen2", (4, 2, 64), _Q3_K_M, n_embd=256, n_ff=256, biases=_QKV),
    SmallModel("qwen3-q4_k_m", "qwen3", (4, 2, 64), _Q4_K_M, n_embd=256, n_ff=256, embedding=GGMLType.Q6_K),
)
"""Every weight type as matrix, embedding and output; embeddings that are outputs of the types that are repacked for
them; mixtures as real files have them."""

MODELS: Final = (*ARCHITECTURES, *TYPES)

BY_NAME: Final[Mapping[str, SmallModel]] = {model.name: model for model in MODELS}


def main(folder: Path) -> None:
    """Writes every model."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        print(model.file().write(folder / f"{model.name}.gguf"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
