"""Single operations of our engine, on the same bytes and arrays as `reference_ops`."""

from __future__ import annotations

import numpy as np

from engine.gguf import GGMLType
from engine.kernels import Arena, Graph, Matrix, Rope, isa, multiply, pack
from testing.oracles.draws import Bytes, Floats
from testing.oracles.operation_cases import Case

CODE_PATHS = tuple(dict.fromkeys((isa(), "portable")))
"""The kernels that run on this machine: the fastest, and plain C."""


def matrix(kind: GGMLType, data: Bytes, rows: int, cols: int) -> Matrix:
    """Weights as the kernels take them."""
    return Matrix(int(kind), data, rows, cols)


def products(isa: str, case: Case) -> dict[str, Floats]:
    """A case's product by each layout the engine may hold the weights in: as in the file, and packed where it packs."""
    x = case.activations()
    weights = matrix(case.type, case.weights(), case.rows, case.cols)
    found = {case.name: multiply(isa, weights, x)}
    if weights.packed_bytes:
        pack([weights], Arena(weights.packed_bytes))
        found[f"{case.name}-packed"] = multiply(isa, weights, x)
    return found


def dequantize(isa: str, kind: GGMLType, data: Bytes, rows: int, cols: int) -> Floats:
    """The weights as floats, (rows, cols), as the engine looks up an embedding."""
    graph = Graph(isa, 1, rows, 256, 1, 1, 32, Rope(n_rot=32))
    table = matrix(kind, data, rows, cols)
    output = graph.buffer(cols, False)
    graph.embed(table, output)
    graph.evaluate(np.arange(rows, dtype=np.int32), 0, False)
    return np.stack([graph.row(output, i).copy() for i in range(rows)])
