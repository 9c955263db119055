"""What the planner joins, and that a planned pass is the same bits from both builds of the kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.gguf import GGMLType
from engine.graph import Forward, build, plan
from engine.kernels import Graph, Matrix, Rope, isa

N_EMBD, N_FF, N_VOCAB, N_CTX, N_ROWS = 128, 192, 64, 1024, 80


def weight(rng: np.random.Generator, rows: int, cols: int) -> Matrix:
    values = rng.normal(0, 0.1, (rows, cols)).astype(np.float32)
    return Matrix(int(GGMLType.F32), values.view(np.uint8).reshape(-1), rows, cols)


def small_model(n_layer: int, head_size: int) -> Forward:
    """A seeded model of the usual shape: grouped-query attention, two query heads to a key/value head."""
    rng = np.random.default_rng(head_size)
    f = Forward(Rope(n_rot=32))
    n_head = N_EMBD // head_size
    ones = np.ones(N_EMBD, np.float32)
    x = f.embedding(weight(rng, N_VOCAB, N_EMBD))
    for i in range(n_layer):
        h = f.rms_norm(x, ones, 1e-5)
        q = f.linear(h, weight(rng, N_EMBD, N_EMBD))
        k, v = (f.linear(h, weight(rng, N_EMBD // 2, N_EMBD)) for _ in range(2))
        h = f.attention(i, q, k, v, n_head=n_head, scale=0.125)
        x = f.add(f.linear(h, weight(rng, N_EMBD, N_EMBD)), x)
        if i == n_layer - 1:
            x = f.last_row(x)
        h = f.rms_norm(x, ones, 1e-5)
        gate, up = (f.linear(h, weight(rng, N_FF, N_EMBD)) for _ in range(2))
        x = f.add(f.linear(f.swiglu(gate, up), weight(rng, N_EMBD, N_FF)), x)
    f.linear(f.rms_norm(x, ones, 1e-5), weight(rng, N_VOCAB, N_EMBD))
    return f


class Runner:
    """A small model in a graph of its own."""

    def __init__(
        self,
        name: str,
        head_size: int = 64,
        n_threads: int = 2,
        neox: bool = False,
        types: tuple[GGMLType, GGMLType] = (GGMLType.F16, GGMLType.F16),
    ) -> None:
        n_head_kv = N_EMBD // head_size // 2 or 1
        k_type, v_type = types
        self.graph = Graph(
            name,
            n_threads,
            N_ROWS,
            N_CTX,
            2,
            n_head_kv,
            N_EMBD // 2 // n_head_kv,
            Rope(n_rot=32, neox=neox),
            k_type=k_type,
            v_type=v_type,
        )
        [self.output] = build(self.graph, plan(small_model(2, head_size)))

    def logits(self, tokens: list[int], position: int) -> bytes:
        self.graph.evaluate(np.array(tokens, np.int32), position, True)
        return self.graph.row(self.output, 0).tobytes()


def test_norms_swiglu_and_residuals_travel_with_their_products() -> None:
    steps = plan(small_model(1, 64))
    assert [s.op for s in steps] == ["embedding", "linear", "attention", "linear", "linear", "linear", "linear"]
    qkv, out, gate_up, down, logits = (steps[i] for i in (1, 3, 4, 5, 6))
    assert len(qkv.nodes) == 3
    assert qkv.norm is not None
    assert out.residual is not None
    assert out.norm is None
    assert len(gate_up.nodes) == 2
    assert down.up is not None
    assert down.residual is not None
    assert logits.norm is not None


def test_steps_after_the_last_attention_take_one_row() -> None:
    steps = plan(small_model(2, 64))
    assert [s.nodes[0].single for s in steps] == [False] * 9 + [True] * 3


def test_a_norm_no_product_takes_along_is_refused() -> None:
    f = Forward(Rope(n_rot=32))
    x = f.embedding(weight(np.random.default_rng(0), 4, 32))
    f.add(f.rms_norm(x, np.ones(32, np.float32), 1e-5), x)
    with pytest.raises(ValueError, match="no step takes this rms_norm along"):
        plan(f)


def test_a_norm_at_the_end_gives_every_row(rows_of: Callable[[Forward], NDArray[np.float32]]) -> None:
    signs = np.random.default_rng(0).choice([-4, 4], (4, 32)).astype(np.float32)  # their mean square is exact
    table = Matrix(int(GGMLType.F32), signs.view(np.uint8).reshape(-1), 4, 32)
    plain, normed = Forward(Rope(n_rot=32)), Forward(Rope(n_rot=32))
    plain.embedding(table)
    normed.rms_norm(normed.embedding(table), np.full(32, 2.0, np.float32), 0.0)
    rows = rows_of(plain)
    assert rows_of(normed).tobytes() == (rows / 2).tobytes()


def test_passes_share_buffers_and_give_what_they_give_alone() -> None:
    first, second = plan(small_model(2, 64)), plan(small_model(2, 64))
    graph = Graph("", 2, N_ROWS, N_CTX, 2, 1, 64, Rope(n_rot=32))
    results = build(graph, first, second)
    tokens = np.arange(9, dtype=np.int32)
    found = []
    for number, result in enumerate(results):
        graph.evaluate(tokens, 0, True, pass_number=number)
        found.append(graph.row(result, 0).tobytes())
    assert found == [Runner("").logits(tokens.tolist(), 0)] * 2


@pytest.fixture
def rows_of() -> Callable[[Forward], NDArray[np.float32]]:
    """The rows a pass over the tokens 0 to 3 ends in."""

    def evaluate(f: Forward) -> NDArray[np.float32]:
        graph = Graph("", 2, 4, 256, 1, 1, 32, Rope(n_rot=32))
        [result] = build(graph, plan(f))
        graph.evaluate(np.arange(4, dtype=np.int32), 0, True)
        return graph.rows(result, 4).copy()

    return evaluate


def normed_heads(weights: int, eps: float = 1e-5) -> Forward:
    """Attention over queries normed by stretches of so many values."""
    rng = np.random.default_rng(0)
    f = Forward(Rope(n_rot=32))
    x = f.embedding(weight(rng, 4, 64))
    q, k, v = (f.linear(x, weight(rng, 64, 64)) for _ in range(3))
    q = f.rms_norm(q, np.ones(weights, np.float32), 1e-5)
    k = f.rms_norm(k, np.ones(32, np.float32), eps)
    f.attention(0, q, k, v, n_head=2, scale=0.125)
    return f


def test_norms_of_queries_and_keys_travel_with_attention() -> None:
    step = plan(normed_heads(32))[-1]
    assert (step.op, step.q_norm is not None, step.k_norm is not None) == ("attention", True, True)
    assert {value.op for value in step.reads} == {"linear"}


@pytest.mark.parametrize(("weights", "eps"), [(64, 1e-5), (16, 1e-5), (32, 1e-6)])
def test_attention_norms_whole_heads_and_queries_as_keys(weights: int, eps: float) -> None:
    with pytest.raises(ValueError, match="attention norms heads, queries as keys"):
        plan(normed_heads(weights, eps))


def test_a_product_norms_whole_rows() -> None:
    rng = np.random.default_rng(0)
    f = Forward(Rope(n_rot=32))
    f.linear(f.rms_norm(f.embedding(weight(rng, 4, 64)), np.ones(32, np.float32), 1e-5), weight(rng, 4, 64))
    with pytest.raises(ValueError, match="a product norms rows, not heads"):
        plan(f)


def test_a_bias_of_another_length_than_its_product_is_refused() -> None:
    rng = np.random.default_rng(0)
    f = Forward(Rope(n_rot=32))
    f.linear(f.embedding(weight(rng, 4, 32)), weight(rng, 4, 32), np.ones(5, np.float32))
    with pytest.raises(ValueError, match="a bias has a value a row of its weight"):
        build(Graph("", 1, 2, 256, 1, 1, 32, Rope(n_rot=32)), plan(f))


@pytest.mark.parametrize("n", [1, 3])
def test_a_bias_is_added_to_the_product_and_then_the_residual(n: int) -> None:
    rng = np.random.default_rng(0)
    table, w, bias = weight(rng, 8, 32), weight(rng, 32, 32), rng.normal(0, 1, 32).astype(np.float32)
    found = []
    for with_bias in (False, True):
        f = Forward(Rope(n_rot=32))
        x = f.embedding(table)
        y = f.linear(x, w, bias if with_bias else None)
        if with_bias:
            f.add(y, x)
        graph = Graph("", 2, n, 256, 1, 1, 32, Rope(n_rot=32))
        [output] = build(graph, plan(f))
        graph.evaluate(np.arange(n, dtype=np.int32), 0, True)
        found.append(np.stack([graph.row(output, i).copy() for i in range(n)]))
    rows = np.stack([embedded(table, i) for i in range(n)])
    assert found[1].tobytes() == ((found[0] + bias) + rows).tobytes()


def embedded(table: Matrix, token: int) -> NDArray[np.float32]:
    graph = Graph("", 1, 1, 256, 1, 1, 32, Rope(n_rot=32))
    output = graph.buffer(table.cols, False)
    graph.embed(table, output)
    graph.evaluate(np.array([token], np.int32), 0, True)
    return graph.row(output, 0).copy()


@pytest.mark.parametrize(
    ("head_size", "k_type", "v_type"), [(48, 8, 1), (48, 1, 8), (32, 0, 1), (32, 1, 2), (36, 1, 1)]
)
def test_a_cache_type_that_cannot_hold_the_heads_is_refused(head_size: int, k_type: int, v_type: int) -> None:
    with pytest.raises(ValueError, match="cache"):
        Graph("", 1, 1, 256, 1, 1, head_size, Rope(n_rot=32), k_type=k_type, v_type=v_type)


@pytest.mark.parametrize("head_size", [32, 64])
@pytest.mark.parametrize("neox", [False, True])
@pytest.mark.parametrize("n", [1, 5, 64, 71])
def test_plain_c_gives_the_bits_of_the_fast_path(n: int, neox: bool, head_size: int) -> None:
    tokens = [(7 * i) % N_VOCAB for i in range(n)]
    fast, plain = (Runner(name, head_size, neox=neox) for name in (isa(), "portable"))
    assert fast.logits(tokens, 0) == plain.logits(tokens, 0)
    assert fast.logits([3], n) == plain.logits([3], n)
    assert fast.logits(tokens, n + 1) == plain.logits(tokens, n + 1)


def test_plain_c_gives_the_bits_of_the_fast_path_over_a_long_context() -> None:
    fast, plain = Runner(isa()), Runner("portable")
    for runner in (fast, plain):
        for start in range(0, 560, N_ROWS):
            runner.logits([(start + i) % N_VOCAB for i in range(N_ROWS)], start)
    assert fast.logits([9], 560) == plain.logits([9], 560)


@pytest.mark.parametrize("n", [1, 5, 71])
def test_the_thread_count_changes_no_bit_of_a_short_context(n: int) -> None:
    tokens = [(5 * i) % N_VOCAB for i in range(n)]
    assert Runner("", n_threads=1).logits(tokens, 0) == Runner("", n_threads=3).logits(tokens, 0)


def test_rows_without_output_leave_the_cache_as_rows_with_it() -> None:
    tokens = list(range(20))
    one, other = Runner(""), Runner("")
    one.graph.evaluate(np.array(tokens, np.int32), 0, False)
    other.graph.evaluate(np.array(tokens, np.int32), 0, True)
    assert one.logits([3], 20) == other.logits([3], 20)


@pytest.mark.parametrize(("n", "position"), [(0, 0), (N_ROWS + 1, 0), (2, N_CTX - 1), (1, -1)])
def test_a_batch_outside_the_context_is_refused(n: int, position: int) -> None:
    with pytest.raises(IndexError, match="context"):
        Runner("").logits([0] * n, position)
