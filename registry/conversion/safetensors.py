"""The safetensors format: a header of names, types, shapes and places, then the tensors' bytes.

The layout is that of the format's own description (github.com/huggingface/safetensors): eight bytes of length, that
much JSON, and the data, in which `data_offsets` count. Every place is checked before a byte of it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Final

from registry.conversion.source import SourceDirectory, read_at
from registry.errors import ConversionRefused, ModelFileChanged

MAX_HEADER: Final = 16 << 20
"""Bytes of a header: a thousand times what a model of a hundred layers needs."""
MAX_DIMS: Final = 4
"""What a GGUF file can hold."""

ITEM_BYTES: Final[Mapping[str, int]] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}
"""Bytes of a value of each type."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as it lies in a file.

    Args:
        name: what the file calls it.
        dtype: the format's name of its type, such as `BF16`.
        shape: extents, the contiguous one last.
        path: the file.
        descriptor: the file, open.
        offset, nbytes: where in the file it lies.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    descriptor: int
    offset: int
    nbytes: int

    def read(self, start: int, size: int) -> bytes:
        """Some of its bytes.

        Raises:
            ModelFileChanged: the file has become shorter.
        """
        data = read_at(self.descriptor, self.offset + start, size)
        if len(data) != size:
            raise ModelFileChanged(self.path)
        return data


def tensors_in(source: SourceDirectory, name: str) -> list[StoredTensor]:
    """The tensors of one file, by name.

    Raises:
        ModelFileError: it cannot be read.
        ConversionRefused: it does not hold what its header says; the text names the tensor.
    """
    descriptor, size = source.open(name)
    length = int.from_bytes(read_at(descriptor, 0, 8), "little")
    if size < 8 or length > size - 8:
        raise ConversionRefused(f"{name} is cut short: {size} bytes, and its header alone would take {8 + length}")
    if length > MAX_HEADER:
        raise ConversionRefused(f"{name} has a header of {length} bytes; no more than {MAX_HEADER} are read")
    header = _header(read_at(descriptor, 8, length), name)
    begin, n_data = 8 + length, size - 8 - length
    tensors = []
    for key, entry in sorted(header.items()):
        if key == "__metadata__":
            continue
        dtype, shape, (first, last) = _entry(entry, key, name)
        if last > n_data:
            raise ConversionRefused(f"{name} is cut short: the tensor {key!r} ends at byte {begin + last} of {size}")
        if last - first != prod(shape) * ITEM_BYTES[dtype]:
            raise ConversionRefused(
                f"{name}: the tensor {key!r} has {last - first} bytes, which {shape} {dtype} do not take"
            )
        tensors.append(StoredTensor(key, dtype, shape, source.path / name, descriptor, begin + first, last - first))
    _check_apart(tensors, name)
    return tensors


def _header(data: bytes, name: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ConversionRefused(f"{name}: a name stands twice in the header")
        return found

    try:
        header = json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ConversionRefused(f"{name}: the header is not JSON") from error
    if not isinstance(header, dict):
        raise ConversionRefused(f"{name}: the header is not a JSON object")
    return header


def _entry(entry: Any, key: str, name: str) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """Type, shape and data offsets of a header's entry."""

    found = entry if isinstance(entry, dict) else {}
    dtype = found.get("dtype")
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise ConversionRefused(f"{name}: the tensor {key!r} has the type {dtype!r}")
    shape = _whole_numbers(found.get("shape"))
    if shape is None or len(shape) > MAX_DIMS:
        raise ConversionRefused(f"{name}: the tensor {key!r} has no shape of at most {MAX_DIMS} extents")
    if 0 in shape:
        raise ConversionRefused(f"{name}: the tensor {key!r} is empty")
    offsets = _whole_numbers(found.get("data_offsets"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ConversionRefused(f"{name}: the tensor {key!r} has no place")
    return dtype, shape, (offsets[0], offsets[1])


def _whole_numbers(values: Any) -> tuple[int, ...] | None:
    """A list of counts; None when it is something else."""
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < 1 << 63 for value in values):
        return None
    return tuple(values)


def _check_apart(tensors: list[StoredTensor], name: str) -> None:
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.nbytes > after.offset:
            raise ConversionRefused(f"{name}: the tensors {before.name!r} and {after.name!r} overlap")
