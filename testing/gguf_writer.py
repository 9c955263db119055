"""GGUF files written byte by byte: the parts of any file, true or lying, and whole models."""

from __future__ import annotations

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
    """A string as it lies in the file."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value_of(kind: int, value: Any) -> bytes:
    """A value without its type."""
    data: bytes = text(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)
    return data


def key(name: str | bytes, kind: int, value: Any) -> bytes:
    """A key and its value."""
    return text(name) + struct.pack("<I", kind) + value_of(kind, value)


def array_key(name: str, kind: int, values: Sequence[Any], count: int | None = None) -> bytes:
    """A key and its array, which claims `count` values."""
    head = text(name) + struct.pack("<IIQ", ARRAY, kind, len(values) if count is None else count)
    return head + b"".join(value_of(kind, value) for value in values)


def tensor(name: str | bytes, shape: Sequence[int], kind: int, offset: int) -> bytes:
    """What the header says of a tensor; `offset` counts from the start of the data."""
    extents = struct.pack(f"<{len(shape)}Q", *shape)
    return text(name) + struct.pack("<I", len(shape)) + extents + struct.pack("<IQ", kind, offset)


def gguf(keys: Sequence[bytes] = (), tensors: Sequence[bytes] = (), data: bytes = b"", **head: Any) -> bytes:
    """A file of these parts; `head` overrides magic, version, n_tensors, n_keys or alignment."""
    header: bytes = head.get("magic", b"GGUF") + struct.pack(
        "<IQQ", head.get("version", 3), head.get("n_tensors", len(tensors)), head.get("n_keys", len(keys))
    )
    whole = header + b"".join(keys) + b"".join(tensors)
    padding: int = -len(whole) % head.get("alignment", 32)
    return whole + b"\0" * padding + data


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


def key_of(name: str, value: Any) -> bytes:
    """A key of a Python value in the type converters write: U32 or I32, F32, arrays of texts, of I32 and of F32."""
    if isinstance(value, np.ndarray):
        return array_key(name, F32 if value.dtype == np.float32 else I32, value.tolist())
    if isinstance(value, list):
        return array_key(name, I32 if value and isinstance(value[0], int) else STRING, value)
    kinds = {bool: BOOL, str: STRING, float: F32, int: U32 if isinstance(value, int) and value >= 0 else I32}
    return key(name, kinds[type(value)], value)


@dataclass(slots=True)
class ModelFile:
    """A model file to be written: its keys and tensors, in the file's order."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorData]

    def write(self, path: Path) -> Path:
        """Writes the file and returns its path."""
        infos, data = [], b""
        for name, part in self.tensors.items():
            data += b"\0" * (-len(data) % 32)
            assert prod(part.shape) * part.type.block_bytes == len(part.data) * part.type.block_size
            infos.append(tensor(name, part.shape, part.type, len(data)))
            data += part.data
        path.write_bytes(gguf([key_of(*pair) for pair in self.metadata.items()], infos, data))
        return path
