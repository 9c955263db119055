"""Every product is the same bits from the AVX2 and the plain C build, and whatever batch a row travels in."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gguf import GGMLType
from engine.kernels import Arena, Matrix, isa, multiply, pack

ROWS, COLS = 22, 96  # neither a whole group of weight rows nor a single block


def quantized(kind: GGMLType, rng: np.random.Generator, rows: int = ROWS) -> Matrix:
    """A matrix of random blocks: any bytes as quants, ordinary half-precision scales."""
    count = rows * COLS // kind.block_size
    blocks = rng.integers(0, 256, (count, kind.block_bytes), dtype=np.uint8)
    for at in (0, 2)[: 2 if kind is GGMLType.Q4_1 else 1]:
        scales = rng.normal(0, 0.02, count).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    return Matrix(int(kind), blocks.reshape(-1), rows, COLS)


def floats(kind: GGMLType, rng: np.random.Generator, rows: int = ROWS) -> Matrix:
    """A matrix of random weights in a float type."""
    values = rng.normal(0, 1, (rows, COLS)).astype(np.float32)
    if kind is GGMLType.F16:
        data = values.astype(np.float16).view(np.uint8)
    elif kind is GGMLType.BF16:
        data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    else:
        data = values.view(np.uint8)
    return Matrix(int(kind), data.reshape(-1), rows, COLS)


def matrix(kind: GGMLType, rng: np.random.Generator, rows: int = ROWS) -> Matrix:
    make = quantized if kind in (GGMLType.Q4_1, GGMLType.Q8_0) else floats
    return make(kind, rng, rows)


KINDS = [GGMLType.F32, GGMLType.F16, GGMLType.BF16, GGMLType.Q4_1, GGMLType.Q8_0]


def edge_rows() -> np.ndarray:
    """Activations that quantizers trip over: zeros, denormals, one huge value, ties, signed zeros."""
    rows = np.zeros((6, COLS), np.float32)
    rows[1] = 1e-40
    rows[2, 5] = 3e38
    rows[3] = np.arange(COLS) - 47.5
    rows[4] = -0.0
    rows[5] = 127.0
    rows[5, ::3] = 0.5
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9])
def test_plain_c_gives_the_bits_of_the_fast_path(kind: GGMLType, n: int) -> None:
    rng = np.random.default_rng(n)
    w = matrix(kind, rng)
    x = rng.normal(0, 1, (n, COLS)).astype(np.float32)
    assert multiply("portable", w, x).tobytes() == multiply(isa(), w, x).tobytes()


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_plain_c_gives_the_bits_of_the_fast_path_on_edge_values(kind: GGMLType) -> None:
    w = matrix(kind, np.random.default_rng(0))
    x = edge_rows()
    assert multiply("portable", w, x).tobytes() == multiply(isa(), w, x).tobytes()


@pytest.mark.parametrize("name", ["portable", isa()])
@pytest.mark.parametrize("kind", [GGMLType.Q4_1, GGMLType.Q8_0], ids=lambda k: k.name)
def test_a_quantized_row_does_not_depend_on_its_batch(kind: GGMLType, name: str) -> None:
    rng = np.random.default_rng(7)
    w = matrix(kind, rng)
    x = rng.normal(0, 1, (7, COLS)).astype(np.float32)
    alone = np.concatenate([multiply(name, w, x[i : i + 1]) for i in range(len(x))])
    assert multiply(name, w, x).tobytes() == alone.tobytes()


@pytest.mark.parametrize("kind", [GGMLType.F32, GGMLType.F16, GGMLType.BF16], ids=lambda k: k.name)
def test_weight_rows_not_in_fours_take_the_row_kernel(kind: GGMLType) -> None:
    rng = np.random.default_rng(8)
    w = matrix(kind, rng, rows=23)
    x = rng.normal(0, 1, (3, COLS)).astype(np.float32)
    alone = np.concatenate([multiply("", w, x[i : i + 1]) for i in range(len(x))])
    assert multiply("", w, x).tobytes() == alone.tobytes()


@pytest.mark.parametrize("name", ["portable", isa()])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_packed_weights_give_the_bits_of_the_files(n: int, name: str) -> None:
    rng = np.random.default_rng(10)
    w = matrix(GGMLType.Q4_1, rng, rows=24)
    x = rng.normal(0, 1, (n, COLS)).astype(np.float32)
    plain = multiply(name, w, x).tobytes()
    assert w.packed_bytes == 24 * COLS // 32 * 20
    pack([w], Arena(w.packed_bytes))
    assert multiply(name, w, x).tobytes() == plain


def test_only_q4_1_rows_in_eights_are_packed() -> None:
    rng = np.random.default_rng(11)
    assert [matrix(kind, rng, rows=24).packed_bytes > 0 for kind in KINDS] == [k is GGMLType.Q4_1 for k in KINDS]
    assert matrix(GGMLType.Q4_1, rng, rows=22).packed_bytes == 0


def test_a_full_arena_takes_no_more() -> None:
    w = matrix(GGMLType.Q4_1, np.random.default_rng(12), rows=24)
    with pytest.raises(ValueError, match="full"):
        pack([w], Arena(w.packed_bytes - 1))


def test_a_product_is_the_sum_it_stands_for() -> None:
    """Small whole numbers are exact in every order of adding, so the product must be exact too."""
    rng = np.random.default_rng(9)
    weights = rng.integers(-8, 8, (ROWS, COLS)).astype(np.float32)
    x = rng.integers(-8, 8, (5, COLS)).astype(np.float32)
    w = Matrix(int(GGMLType.F32), weights.view(np.uint8).reshape(-1), ROWS, COLS)
    np.testing.assert_array_equal(multiply("", w, x), x @ weights.T)
    np.testing.assert_array_equal(multiply("", w, x[:1]), x[:1] @ weights.T)


def test_data_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        Matrix(int(GGMLType.Q8_0), np.zeros(33, np.uint8), 1, 32)


def test_a_type_without_a_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="type"):
        Matrix(int(GGMLType.Q6_K), np.zeros(210, np.uint8), 1, 256)


def test_kernels_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="processor"):
        isa("avx1024")
