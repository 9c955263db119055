"""Single operations of our engine, on the same bytes and arrays as `reference_ops`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.gguf import GGMLType
from engine.kernels import Arena, Graph, Matrix, Rope, isa, multiply, pack
from testing.oracles.cache_cases import Session
from testing.oracles.draws import Bytes, Floats
from testing.oracles.operation_cases import Case
from testing.oracles.step_cases import AttentionCase, RopeCase, RowCase

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
    graph = _graph(isa, rows)
    output = graph.buffer(cols, False)
    graph.embed(matrix(kind, data, rows, cols), output)
    return _evaluate(graph, output, 0, rows)


def rope_table(case: RopeCase) -> Floats:
    """Cosine, sine, cosine, ... of every pair at the case's positions, (positions, n_rot)."""
    divisors = case.divisors()
    rope = Rope(
        n_rot=case.n_rot,
        neox=case.neox,
        freq_base=case.freq_base,
        freq_scale=case.freq_scale,
        freq_factors=() if divisors is None else divisors.tolist(),
    )
    return rope.table(case.N_POSITIONS)[:: case.STRIDE].copy()


def attention(isa: str, case: AttentionCase) -> Floats:
    """The last n rows' attention, (n, n_head, head_size); the rows before them are one micro-batch of their own."""
    n_total = case.n_past + case.n
    rope = Rope(n_rot=case.head_size, neox=case.neox)
    graph = Graph(isa, case.n_threads, n_total, 1024, 1, case.n_head_kv, case.head_size, rope)
    q, k, v = (_table(graph, rows.reshape(n_total, -1)) for rows in case.rows())
    output = graph.buffer(case.n_head * case.head_size, False)
    graph.attention(0, q, k, v, output, case.n_head, case.scale)
    if case.n_past:
        _evaluate(graph, output, 0, case.n_past)
    return _evaluate(graph, output, case.n_past, case.n).reshape(case.n, case.n_head, case.head_size)


def attention_session(isa: str, session: Session) -> Iterator[Floats]:
    """What attention gives for each step of a session, (rows, heads * size): a layer of nothing else.

    The angles of the rotary embedding are zero.
    """
    n_head, n_head_kv, size = session.heads
    n_rows = max(n for _, n in session.steps)
    still = Rope(n_rot=2, freq_scale=0.0)
    k_type, v_type = session.types
    graph = Graph(
        isa, session.n_threads, n_rows, session.n_ctx, 1, n_head_kv, size, still, k_type=k_type, v_type=v_type
    )
    q, k, v = (_table(graph, rows) for rows in session.rows())
    output = graph.buffer(n_head * size, False)
    graph.attention(0, q, k, v, output, n_head, session.scale)
    start = 0
    for position, n in session.steps:
        graph.evaluate(np.arange(start, start + n, dtype=np.int32), position, False)
        yield np.stack([graph.row(output, i).copy() for i in range(n)])
        start += n


def rms_norm(isa: str, case: RowCase) -> Floats:
    """The rows after the norm that a product begins with, (n, cols): the product is with a unit matrix."""
    graph = _graph(isa, case.n)
    rows, output = _table(graph, case.rows()), graph.buffer(case.cols, False)
    graph.linear(rows, [_unit(case.cols)], [output], norm_weight=case.weight(), norm_eps=case.eps)
    return _evaluate(graph, output, 0, case.n)


def swiglu(isa: str, case: RowCase) -> Floats:
    """The rows through the gate that a product begins with, (n, cols)."""
    graph = _graph(isa, case.n)
    gate, up, output = _table(graph, case.rows()), _table(graph, case.others()), graph.buffer(case.cols, False)
    graph.linear(gate, [_unit(case.cols)], [output], up=up)
    return _evaluate(graph, output, 0, case.n)


def _graph(isa: str, n_rows: int) -> Graph:
    return Graph(isa, 1, n_rows, 256, 1, 1, 32, Rope(n_rot=32))


def _table(graph: Graph, rows: Floats) -> int:
    """A buffer that token i fills with row i."""
    buffer = graph.buffer(rows.shape[1], False)
    graph.embed(matrix(GGMLType.F32, rows.reshape(-1).view(np.uint8), *rows.shape), buffer)
    return buffer


def _unit(cols: int) -> Matrix:
    return matrix(GGMLType.F32, np.eye(cols, dtype=np.float32).reshape(-1).view(np.uint8), cols, cols)


def _evaluate(graph: Graph, output: int, first: int, n: int) -> Floats:
    graph.evaluate(np.arange(first, first + n, dtype=np.int32), first, False)
    return np.stack([graph.row(output, i).copy() for i in range(n)])
