"""Rows of activations as the products take them: how both sides lay them out, read into the same arrays.

A block whose scale is zero counts as zeros, whatever its quants: numbers so small that one over them is infinite leave
something else in every code path of the reference too, and it meets nothing but that zero.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.gguf import GGMLType
from engine.kernels import quantize
from testing.oracles.draws import Floats
from testing.oracles.operation_cases import activations
from testing.oracles.reference_ops import Operations

KINDS = ("Q8_0", "Q8_1", "Q8_K", "Q8_Kx4", "F32", "F16", "BF16")
"""In the order of `Activation` in types.h. Q8_Kx4 is what the repacked layouts quantize four rows at a time into."""

Parts = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ActivationCase:
    """20 rows of `cols` values, ordinary or at every edge in turn."""

    cols: int
    values: str
    seed: int

    @property
    def name(self) -> str:
        """How a report and a record call it."""
        return f"{self.cols}-{self.values}-{self.seed}"

    def rows(self) -> Floats:
        """Its rows; a multiple of four."""
        return activations(20, self.cols, self.values, self.seed)


def cases() -> Iterator[ActivationCase]:
    """Every case."""
    for cols in (256, 768):
        for seed in range(6):
            for values in ("ordinary", "edges"):
                yield ActivationCase(cols, values, seed)


def ours(isa: str, kind: str, case: ActivationCase) -> Parts:
    """The rows as the engine quantizes them: quants (n, cols), scales and sums (n, blocks); floats for a float type."""
    panels = quantize(isa, KINDS.index(kind), case.rows())
    n = len(panels)
    if kind in ("F32", "F16", "BF16"):
        return {"values": panels.view(np.float32)}
    if kind in ("Q8_0", "Q8_1"):
        sums = ("sums", "<i4") if kind == "Q8_0" else ("scaled_sums", "<f4")
        layout = np.dtype([("d", "<f4"), sums, ("quants", "i1", 32)])
    else:
        layout = np.dtype([("d", "<f4"), ("sums32", "<i2", 8), ("sums", "<i2", 16), ("quants", "i1", 256)])
    blocks = panels.view(layout)
    parts = {name: blocks[name].reshape(n, -1) for name in layout.names or ()}
    if "sums32" in parts:
        sums32 = parts.pop("sums32")
        assert np.array_equal(sums32, parts["sums"].reshape(n, -1, 2).sum(axis=2)), "sums of 32 are those of 16"
    return _scaled(parts)


def references(operations: Operations, kind: str, case: ActivationCase) -> Parts:
    """The rows as the reference quantizes them, in the same arrays."""
    rows = case.rows()
    n = len(rows)
    if kind == "F32":
        return {"values": rows}
    if kind == "Q8_Kx4":
        return _four_rows(operations, rows)
    data = np.frombuffer(operations.quantize_activations(GGMLType[kind], rows), np.uint8).reshape(n, -1)
    if kind == "F16":
        return {"values": data.view("<f2").astype(np.float32)}
    if kind == "BF16":
        return {"values": (data.view("<u2").astype(np.uint32) << 16).view(np.float32)}
    layout = {
        "Q8_0": np.dtype([("d", "<f2"), ("quants", "i1", 32)]),
        "Q8_1": np.dtype([("d", "<f2"), ("scaled_sums", "<f2"), ("quants", "i1", 32)]),
        "Q8_K": np.dtype([("d", "<f4"), ("quants", "i1", 256), ("sums", "<i2", 16)]),
    }[kind]
    blocks = data.view(layout)
    parts = {name: blocks[name].reshape(n, -1) for name in layout.names or ()}
    for name in ("d", "scaled_sums"):
        if name in parts:
            parts[name] = parts[name].astype(np.float32)
    if kind == "Q8_0":
        parts["sums"] = blocks["quants"].sum(axis=2, dtype=np.int32)
    return _scaled(parts)


def _four_rows(operations: Operations, rows: Floats) -> Parts:
    """By the conversion of the repacked layouts, which interleaves four rows in steps of eight quants."""
    layout = np.dtype([("d", "<f4", 4), ("quants", "i1", (32, 4, 8)), ("sums", "<i2", (4, 4, 4))])
    n, cols = rows.shape
    convert = operations.lib.ggml_quantize_mat_q8_K_4x8
    convert.argtypes, convert.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    blocks = np.zeros((n // 4, cols // 256), layout)
    for i in range(n // 4):
        convert(rows[4 * i :].ctypes.data, blocks[i].ctypes.data, cols)
    quants = blocks["quants"].transpose(0, 3, 1, 2, 4).reshape(n, cols)
    parts = {
        "d": blocks["d"].transpose(0, 2, 1).reshape(n, -1),
        "sums": blocks["sums"].transpose(0, 3, 1, 2, 4).reshape(n, -1),
        "quants": quants,
    }
    return _scaled(parts)


def _scaled(parts: Parts) -> Parts:
    """The parts with whatever is in a block of scale zero set to zero."""
    unscaled = parts["d"] == 0
    scaled = {}
    for name, values in parts.items():
        blocks = values.reshape(*unscaled.shape, -1).copy()
        if name != "d":
            blocks[unscaled] = 0
        scaled[name] = blocks.reshape(values.shape)
    return scaled
