"""GGUF files written byte by byte: the parts of any file, true or lying, and small seeded Llamas."""

from __future__ import annotations

import string
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from engine.gguf import GGMLType

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

# --- the parts ----------------------------------------------------------------------------------------------------


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value_of(kind: int, value: Any) -> bytes:
    return text(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)


def key(name: str | bytes, kind: int, value: Any) -> bytes:
    return text(name) + struct.pack("<I", kind) + value_of(kind, value)


def array_key(name: str, kind: int, values: Sequence[Any], count: int | None = None) -> bytes:
    head = text(name) + struct.pack("<IIQ", ARRAY, kind, len(values) if count is None else count)
    return head + b"".join(value_of(kind, value) for value in values)


def tensor(name: str | bytes, shape: Sequence[int], kind: int, offset: int) -> bytes:
    extents = struct.pack(f"<{len(shape)}Q", *shape)
    return text(name) + struct.pack("<I", len(shape)) + extents + struct.pack("<IQ", kind, offset)


def gguf(keys: Sequence[bytes] = (), tensors: Sequence[bytes] = (), data: bytes = b"", **head: Any) -> bytes:
    """A file of these parts; `head` overrides magic, version, n_tensors, n_keys or alignment."""
    header = head.get("magic", b"GGUF") + struct.pack(
        "<IQQ", head.get("version", 3), head.get("n_tensors", len(tensors)), head.get("n_keys", len(keys))
    )
    whole = header + b"".join(keys) + b"".join(tensors)
    return whole + b"\0" * (-len(whole) % head.get("alignment", 32)) + data


# --- whole models -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorData:
    """A tensor to be written: its extents in ggml's order, the contiguous one first."""

    type: GGMLType
    shape: tuple[int, ...]
    data: bytes


def floats(values: Sequence[float]) -> TensorData:
    """A vector of F32."""
    return TensorData(GGMLType.F32, (len(values),), np.array(values, np.float32).tobytes())


def random_matrix(kind: GGMLType, rows: int, cols: int, rng: np.random.Generator) -> TensorData:
    """Weights around zero; in a quantized type any bytes as quants under ordinary half-precision scales."""
    if kind is GGMLType.F32:
        data = rng.normal(0, 0.1, (rows, cols)).astype(np.float32)
    elif kind is GGMLType.F16:
        data = rng.normal(0, 0.1, (rows, cols)).astype(np.float16)
    elif kind is GGMLType.BF16:
        data = (rng.normal(0, 0.1, (rows, cols)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        count = rows * cols // kind.block_size
        data = rng.integers(0, 256, (count, kind.block_bytes), dtype=np.uint8)
        for at in (0, 2)[: 2 if kind is GGMLType.Q4_1 else 1]:
            data[:, at : at + 2] = rng.normal(0, 0.01, count).astype(np.float16).view(np.uint8).reshape(count, 2)
    return TensorData(kind, (cols, rows), data.tobytes())


def key_of(name: str, value: Any) -> bytes:
    """A key of a Python value in the type converters write: U32 or I32, F32, arrays of texts and of I32."""
    if isinstance(value, list):
        return array_key(name, I32 if value and isinstance(value[0], int) else STRING, value)
    kinds = {bool: BOOL, str: STRING, float: F32, int: U32 if isinstance(value, int) and value >= 0 else I32}
    return key(name, kinds[type(value)], value)


@dataclass(slots=True)
class ModelFile:
    """A model file to be written; tests change its keys and tensors first."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorData]

    def write(self, path: Path) -> Path:
        infos, data = [], b""
        for name, part in self.tensors.items():
            data += b"\0" * (-len(data) % 32)
            assert prod(part.shape) * part.type.block_bytes == len(part.data) * part.type.block_size
            infos.append(tensor(name, part.shape, part.type, len(data)))
            data += part.data
        path.write_bytes(gguf([key_of(*pair) for pair in self.metadata.items()], infos, data))
        return path


N_VOCAB, N_EMBD, N_LAYER, N_HEAD, N_HEAD_KV, HEAD_SIZE, N_FF, N_CTX_TRAIN = 64, 64, 2, 2, 1, 32, 96, 1000
TOKENS = ["<|endoftext|>", "Ġ", *string.ascii_letters, *string.digits[:9], "ab"]

# A layer each, in the order q, k, v, output, gate, up, down: products of one input in one type, and in several.
LAYER_TYPES = (
    (*(GGMLType.Q4_1,) * 2, GGMLType.Q8_0, *(GGMLType.Q4_1,) * 4),
    (GGMLType.F32, GGMLType.F16, GGMLType.Q4_1, GGMLType.F32, GGMLType.F16, GGMLType.Q8_0, GGMLType.F16),
)


def tiny_llama(seed: int = 0) -> ModelFile:
    """A seeded Llama of two layers and every weight type, with a byte-level vocabulary and tied embeddings."""
    rng = np.random.default_rng(seed)
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": N_CTX_TRAIN,
        "llama.embedding_length": N_EMBD,
        "llama.block_count": N_LAYER,
        "llama.feed_forward_length": N_FF,
        "llama.attention.head_count": N_HEAD,
        "llama.attention.head_count_kv": N_HEAD_KV,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3] + [1] * (N_VOCAB - 1),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
    }
    shapes = {
        "attn_q": (N_HEAD * HEAD_SIZE, N_EMBD),
        "attn_k": (N_HEAD_KV * HEAD_SIZE, N_EMBD),
        "attn_v": (N_HEAD_KV * HEAD_SIZE, N_EMBD),
        "attn_output": (N_EMBD, N_HEAD * HEAD_SIZE),
        "ffn_gate": (N_FF, N_EMBD),
        "ffn_up": (N_FF, N_EMBD),
        "ffn_down": (N_EMBD, N_FF),
    }
    tensors = {"token_embd.weight": random_matrix(GGMLType.Q8_0, N_VOCAB, N_EMBD, rng)}
    for i, kinds in enumerate(LAYER_TYPES):
        for (name, shape), kind in zip(shapes.items(), kinds, strict=True):
            tensors[f"blk.{i}.{name}.weight"] = random_matrix(kind, *shape, rng)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{name}.weight"] = floats(rng.normal(1, 0.1, N_EMBD).tolist())
    tensors["output_norm.weight"] = floats(rng.normal(1, 0.1, N_EMBD).tolist())
    return ModelFile(metadata, tensors)
