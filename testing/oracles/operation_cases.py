"""What single operations are compared on: weights in any type, activations, and the shapes they meet in.

Every byte comes from PCG64's raw output by integer arithmetic, so the same case is the same bytes on any machine and
any numpy. Blocks are written as bytes, not quantized from floats: no rounding of ours or of the reference is in them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.gguf import GGMLType
from testing.oracles.blocks import FLOAT_TYPES, scale_offsets
from testing.oracles.draws import Bytes, Draws, Floats

KINDS = ("ordinary", "zeros", "denormals", "lowest", "highest", "infinite", "nan")
"""Weights: ordinary scales and random quants; or blocks at one edge, all of them, or every fourth for the last two."""

ROW_KINDS = ("ordinary", "edges")

N_ROWS = (1, 2, 3, 4, 5, 7, 8, 63, 64, 100)
"""Rows of activations: alone, both sides of each tile, whole and broken panels."""
RECORDED_N = (1, 2, 3, 4, 5, 7, 8, 63)
WEIGHT_ROWS = (1, 4, 6, 8, 12, 16, 23, 40)
"""Rows of weights: eights (repacked where the type is), fours, neither."""
BLOCKS = (1, 2, 3, 5)
"""Columns, in super-blocks of the type, or 32 weights where its blocks are smaller."""

_BYTE_EDGES: Mapping[str, Sequence[int]] = {"lowest": (0x00, 0x80), "highest": (0xFF, 0x7F)}
_HALF_EDGES: Mapping[str, Sequence[int]] = {
    "zeros": (0x0000, 0x8000),
    "denormals": (0x0001, 0x8001, 0x03FF, 0x0200),
    "infinite": (0x7C00, 0xFC00),
    "nan": (0x7E00, 0xFE00, 0x7C01, 0x7FFF),
}
_FLOAT_EDGES: Mapping[str, Sequence[int]] = {
    "zeros": (0x00000000, 0x80000000),
    "denormals": (0x00000001, 0x80000001, 0x007FFFFF, 0x00400000),
    "lowest": (0xFF7FFFFF, 0xFF000000),
    "highest": (0x7F7FFFFF, 0x7F000000),
    "infinite": (0x7F800000, 0xFF800000),
    "nan": (0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF),
}


@functools.lru_cache(maxsize=256)
def weights(kind: GGMLType, rows: int, cols: int, values: str = "ordinary", seed: int = 0) -> Bytes:
    """A matrix in a type, as read-only bytes of a file.

    Raises:
        KeyError: nobody has said where the type's scales lie.
    """
    draws = Draws("weights", kind.name, rows, cols, values, seed)
    fill = _floats if kind in FLOAT_TYPES else _blocks
    data = fill(draws, kind, rows * cols, values)
    data.flags.writeable = False
    return data


def _blocks(draws: Draws, kind: GGMLType, n_weights: int, values: str) -> Bytes:
    n = n_weights // kind.block_size
    flat = draws.bytes(n * kind.block_bytes)
    blocks = flat.reshape(n, kind.block_bytes)
    edge = np.ones(n, bool) if values not in ("infinite", "nan") else draws.words(n) % 4 == 0
    if values in _BYTE_EDGES:
        blocks[:] = draws.pick(_BYTE_EDGES[values], blocks.size).reshape(blocks.shape)
    if values == "zeros":
        blocks[draws.words(n) % 2 == 0] = 0
    for at in scale_offsets(kind):
        halves = _scales(draws, n)
        if values in _HALF_EDGES:
            halves = np.where(edge, draws.pick(_HALF_EDGES[values], n), halves)
        elif values == "highest":
            halves = np.where(draws.words(n) % 2 == 0, np.uint32(0x7BFF), halves)
        blocks[:, at : at + 2] = halves.astype("<u2").view(np.uint8).reshape(n, 2)
    return flat


def _scales(draws: Draws, n: int) -> npt.NDArray[np.uint32]:
    """Halves of either sign between 2^-12 and 2^-4, as real files' scales are."""
    words = draws.words(n)
    return np.asarray((words & 0x83FF) | ((words >> 16) % 8 + 3) << 10, np.uint32)


def _floats(draws: Draws, kind: GGMLType, n: int, values: str) -> Bytes:
    words = draws.words(n)
    bits = (words & 0x807FFFFF) | ((words >> 23) % 8 + 119) << 23  # 2^-8 to 2^-1
    if values in _FLOAT_EDGES:
        every = 1 if values in ("zeros", "denormals") else 16
        bits = np.where(draws.words(n) % every == 0, draws.pick(_FLOAT_EDGES[values], n), bits)
    if kind is GGMLType.F32:
        return bits.astype("<u4").view(np.uint8)
    if kind is GGMLType.BF16:
        return (bits >> 16 | (bits & 1)).astype("<u2").view(np.uint8)
    sign, exponent = bits >> 16 & 0x8000, (bits >> 23 & 0xFF).astype(np.int64)
    half = np.where(exponent == 0xFF, 31, np.where(exponent == 0, 0, np.clip(exponent - 112, 1, 30)))
    payload = np.maximum(bits >> 13 & 0x3FF, bits & 1)
    halves = np.asarray(sign | half.astype(np.uint32) << 10 | payload, "<u2")
    return halves.view(np.uint8)


@functools.lru_cache(maxsize=256)
def activations(n: int, cols: int, values: str = "ordinary", seed: int = 0) -> Floats:
    """n read-only rows of activations: bell-shaped with outliers, or rows that quantizers trip over in turn.

    All are finite: what a row with an infinity or a NaN in it gives is not compared.
    """
    draws = Draws("activations", n, cols, values, seed)
    rows = draws.normal(n, cols)
    rows[draws.words(n, cols) % 64 == 0] *= np.float32(16)
    if values == "edges":
        for i in range(n):
            _EDGES[(i + seed) % len(_EDGES)](rows[i])
    rows.flags.writeable = False
    return rows


def _ties(row: Floats) -> None:
    row[:] = np.arange(row.size) % 255 - np.float32(126.5)
    row[::32] = 127.0


def _fill(value: float) -> Any:
    def fill(row: Floats) -> None:
        row[:] = np.float32(value)

    return fill


def _outlier(row: Floats) -> None:
    row[row.size // 3] = 3e38


def _alternating(row: Floats) -> None:
    row[:] = np.where(np.arange(row.size) % 2 == 0, np.float32(1.75), np.float32(-1.75))


def _tiny(row: Floats) -> None:
    row *= np.float32(2.0**-130)


def _half_zero(row: Floats) -> None:
    row[: row.size // 2] = 0.0


def _large(row: Floats) -> None:
    row *= np.float32(2.0**100)


_EDGES = (_fill(0.0), _ties, _fill(-0.0), _outlier, _alternating, _tiny, _half_zero, _large, _fill(1e-40))
"""Changes of a row that leave it finite."""


@dataclass(frozen=True, slots=True)
class Case:
    """One product: weights of (rows, cols) times n rows of activations."""

    type: GGMLType
    rows: int
    cols: int
    n: int
    values: str
    row_values: str

    @property
    def name(self) -> str:
        """How a report and a record call it."""
        return f"{self.rows}x{self.cols}-{self.n}-{self.values}-{self.row_values}"

    def weights(self) -> Bytes:
        """Its matrix."""
        return weights(self.type, self.rows, self.cols, self.values)

    def activations(self) -> Floats:
        """Its rows."""
        return activations(self.n, self.cols, self.row_values)


def shapes(kind: GGMLType, blocks: Iterable[int] = BLOCKS) -> Iterator[tuple[int, int]]:
    """(rows, cols) of the matrices a type is tried in."""
    for rows in WEIGHT_ROWS:
        for count in blocks:
            yield rows, count * max(kind.block_size, 32)


def products(kind: GGMLType) -> Iterator[Case]:
    """Every product a type is compared on: all shapes with ordinary values, all edges with some shapes."""
    for rows, cols in shapes(kind):
        for n in N_ROWS:
            yield Case(kind, rows, cols, n, "ordinary", "ordinary")
    for rows, cols in shapes(kind, (3,)):
        for n in N_ROWS:
            for values in KINDS:
                yield Case(kind, rows, cols, n, values, "edges")
                if values != "ordinary":
                    yield Case(kind, rows, cols, n, values, "ordinary")


def recorded(kind: GGMLType) -> Mapping[str, Sequence[Case]]:
    """The products of a type that are on record, by shape and values; a case for each of `RECORDED_N`."""
    unit = max(kind.block_size, 32)
    combinations = [(rows, count, "ordinary", "ordinary") for rows in WEIGHT_ROWS for count in (1, 3)]
    combinations += [(rows, 2, values, "edges") for rows in (6, 8, 23) for values in KINDS]
    combinations += [(rows, 2, values, "ordinary") for rows in (6, 8, 23) for values in KINDS[1:]]
    return {
        f"{rows}x{count * unit}-{values}-{row_values}": [
            Case(kind, rows, count * unit, n, values, row_values) for n in RECORDED_N
        ]
        for rows, count, values, row_values in combinations
    }


def recorded_rows(kind: GGMLType) -> Iterator[tuple[str, int, int, Bytes]]:
    """The matrices whose dequantized rows are on record: name, rows, columns, data."""
    cols = 3 * max(kind.block_size, 32)
    for values in KINDS:
        yield f"7x{cols}-{values}", 7, cols, weights(kind, 7, cols, values)


def canonical(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats with every NaN made the same one.

    Two results are held equal if they are the same bits but for the sign and payload of a NaN. Which operand's payload
    survives is decided by the order in which a compiler names the operands of an addition, and no answer shows it: a
    row of logits with a NaN in it has no order to sample from. Everything else, infinities and the signs of zeros
    included, is compared to the bit.
    """
    return np.where(np.isnan(values), np.float32(np.nan), values)


def digest(values: npt.NDArray[Any]) -> str:
    """The first 64 bits of the sha256 of an array's bytes, floats made `canonical`."""
    if values.dtype.kind == "f":
        values = canonical(values)
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
