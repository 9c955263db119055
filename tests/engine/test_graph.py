"""What the planner joins, and that a planned pass is the same bits from both builds of the kernels."""

from __future__ import annotations

import numpy as np
import pytest

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

    def __init__(self, name: str, head_size: int = 64, n_threads: int = 2, neox: bool = False) -> None:
        n_head_kv = N_EMBD // head_size // 2 or 1
        rope = Rope(n_rot=32, neox=neox)
        self.graph = Graph(name, n_threads, N_ROWS, N_CTX, 2, n_head_kv, N_EMBD // 2 // n_head_kv, rope)
        self.output = build(self.graph, plan(small_model(2, head_size)))

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
    f.rms_norm(f.embedding(weight(np.random.default_rng(0), 4, 32)), np.ones(32, np.float32), 1e-5)
    with pytest.raises(ValueError, match="no step takes this rms_norm along"):
        plan(f)


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
