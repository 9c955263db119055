"""Small model directories as Hugging Face's libraries save them: seeded, the same bytes anywhere."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from testing.oracles.draws import Draws

Files = dict[str, Any]
"""File name -> text, bytes, or what becomes JSON."""

_DTYPES: Final = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}


def stored(values: np.ndarray[Any, Any], dtype: str) -> bytes:
    """F32 values in a safetensors type; BF16 by leaving out the lower half."""
    if dtype == "BF16":
        return (np.ascontiguousarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    with np.errstate(over="ignore"):
        return values.astype(_DTYPES[dtype]).tobytes()


def safetensors(tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """A file of tensors: name -> type, shape, bytes. They lie in the order given."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    return with_header(json.dumps(header).encode(), b"".join(data for _, _, data in tensors.values()))


def with_header(header: bytes, data: bytes, length: int | None = None) -> bytes:
    """A file with this header, which claims `length` bytes for it."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


@dataclass(frozen=True, slots=True)
class Shapes:
    """The extents of a small model."""

    n_vocab: int
    n_embd: int = 16
    n_head: int = 4
    n_head_kv: int = 2
    head_dim: int = 4
    n_ff: int = 24
    n_layer: int = 1
    tied: bool = True
    biases: bool = False
    norms: bool = False
    prefix: str = "model."


def weights(shapes: Shapes, seed: str) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a model by Hugging Face's names, F32."""
    draws = Draws("hf_models", seed)

    def matrix(*shape: int) -> np.ndarray[Any, Any]:
        return draws.floats(int(np.prod(shape)), -2).reshape(shape)

    found: dict[str, np.ndarray[Any, Any]] = {
        f"{shapes.prefix}embed_tokens.weight": matrix(shapes.n_vocab, shapes.n_embd)
    }
    for layer in range(shapes.n_layer):
        at = f"{shapes.prefix}layers.{layer}."
        for name, heads in (("q", shapes.n_head), ("k", shapes.n_head_kv), ("v", shapes.n_head_kv)):
            found[f"{at}self_attn.{name}_proj.weight"] = matrix(heads * shapes.head_dim, shapes.n_embd)
            if shapes.biases:
                found[f"{at}self_attn.{name}_proj.bias"] = matrix(heads * shapes.head_dim)
        found[f"{at}self_attn.o_proj.weight"] = matrix(shapes.n_embd, shapes.n_head * shapes.head_dim)
        if shapes.norms:
            for name in ("q_norm", "k_norm"):
                found[f"{at}self_attn.{name}.weight"] = matrix(shapes.head_dim) + np.float32(1)
        for name, rows, columns in (
            ("gate", shapes.n_ff, shapes.n_embd),
            ("up", shapes.n_ff, shapes.n_embd),
            ("down", shapes.n_embd, shapes.n_ff),
        ):
            found[f"{at}mlp.{name}_proj.weight"] = matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{at}{name}.weight"] = matrix(shapes.n_embd) + np.float32(1)
    found[f"{shapes.prefix}norm.weight"] = matrix(shapes.n_embd) + np.float32(1)
    if not shapes.tied:
        found["lm_head.weight"] = matrix(shapes.n_vocab, shapes.n_embd)
    return found


_CLASSES: Final = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def config(kind: str, shapes: Shapes, **more: Any) -> dict[str, Any]:
    """A config.json; `more` comes on top, a value of `...` takes a key out."""
    found = {
        "architectures": [_CLASSES[kind]],
        "model_type": kind,
        "hidden_size": shapes.n_embd,
        "intermediate_size": shapes.n_ff,
        "num_hidden_layers": shapes.n_layer,
        "num_attention_heads": shapes.n_head,
        "num_key_value_heads": shapes.n_head_kv,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "tie_word_embeddings": shapes.tied,
        "vocab_size": shapes.n_vocab,
        **more,
    }
    return {key: value for key, value in found.items() if value is not ...}


@dataclass(frozen=True, slots=True)
class HFModel:
    """A directory to be written.

    Args:
        name: the directory's name; it is part of what is converted.
        kind: `llama`, `qwen2` or `qwen3`.
        shapes: the model's extents.
        files: its vocabulary and whatever else, by name; made when the directory is written.
        config: what is in config.json beside the extents.
        dtype: how the tensors are stored.
        n_parts: into how many files they go, with an index when there are several.
        changed: a last change to the tensors: name -> values.
    """

    name: str
    kind: str
    shapes: Shapes
    files: Callable[[], Files]
    config: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "BF16"
    n_parts: int = 1
    changed: Callable[[dict[str, np.ndarray[Any, Any]]], None] = lambda _: None

    def write(self, folder: Path) -> Path:
        """Writes the directory into `folder` and returns its path."""
        path = folder / self.name
        path.mkdir(parents=True)
        tensors = weights(self.shapes, self.name)
        self.changed(tensors)
        packed = {name: (self.dtype, values.shape, stored(values, self.dtype)) for name, values in tensors.items()}
        files = {
            **self.files(),
            "config.json": config(self.kind, self.shapes, **self.config),
            **in_parts(packed, self.n_parts),
        }
        for name, content in files.items():
            target = path / name
            target.parent.mkdir(exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            elif isinstance(content, str):
                target.write_text(content, encoding="utf-8", newline="")
            else:
                target.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        return path


def in_parts(tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]], n_parts: int) -> Files:
    """The files of the weights: `model.safetensors`, or parts dealt out in turn and their index."""
    if n_parts == 1:
        return {"model.safetensors": safetensors(tensors)}
    names = [f"model-{part + 1:05d}-of-{n_parts:05d}.safetensors" for part in range(n_parts)]
    dealt = {name: names[number % n_parts] for number, name in enumerate(tensors)}
    files: Files = {
        name: safetensors({key: tensors[key] for key, part in dealt.items() if part == name}) for name in names
    }
    total = sum(len(data) for _, _, data in tensors.values())
    files["model.safetensors.index.json"] = {"metadata": {"total_size": total}, "weight_map": dealt}
    return files


# --- vocabularies ---------------------------------------------------------------------------------------------------


def tokenizer_json(vocabulary: Mapping[str, int], merges: list[Any], added: list[dict[str, Any]], **steps: Any) -> Any:
    """A tokenizer.json of byte pairs; `steps` are its normalizer, pre_tokenizer, post_processor and the like."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": steps.pop("ignore_merges", False),
        "vocab": dict(vocabulary),
        "merges": merges,
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "add_prefix_space": False},
        "post_processor": None,
        "decoder": byte_level,
        **steps,
        "model": model,
    }


def added_token(number: int, content: str, *, special: bool = True, normalized: bool = False) -> dict[str, Any]:
    """An entry of `added_tokens`."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": special}
    return {"id": number, "content": content, **flags}


def sentencepiece_model(pieces: list[tuple[str, float, int]]) -> bytes:
    """A tokenizer.model of these texts, scores and types."""
    data = b""
    for text, score, kind in pieces:
        spelt = text.encode()
        piece = b"\x0a" + _varint(len(spelt)) + spelt + b"\x15" + struct.pack("<f", score) + b"\x18" + _varint(kind)
        data += b"\x0a" + _varint(len(piece)) + piece
    training = b"\x18\x02" + _varint(35 << 3) + b"\x01"  # of byte pairs, with byte_fallback
    return data + b"\x12" + _varint(len(training)) + training


def _varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])
