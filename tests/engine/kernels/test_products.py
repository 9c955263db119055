"""Every product is the same bits from the AVX2 and the plain C build, and whatever batch a row travels in."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gguf import GGMLType
from engine.kernels import Arena, Matrix, isa, multiply, pack, quantize
from engine.weights import PLAYED_TYPES
from testing.oracles.operation_cases import weights

COLS = 512
KINDS = sorted(PLAYED_TYPES)
FLOATS = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
IN_BATCHES_ALIKE = [k for k in KINDS if k not in (*FLOATS, GGMLType.Q4_K, GGMLType.IQ4_NL, GGMLType.IQ4_XS)]


def matrix(kind: GGMLType, rows: int = 22, seed: int = 0) -> Matrix:
    """Random weights; 22 rows are neither a whole group nor eights, 24 are eights."""
    return Matrix(int(kind), weights(kind, rows, COLS, seed=seed), rows, COLS)


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
@pytest.mark.parametrize("rows", [22, 24])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9])
def test_plain_c_gives_the_bits_of_the_fast_path(kind: GGMLType, n: int, rows: int) -> None:
    w = matrix(kind, rows)
    x = np.random.default_rng(n).normal(0, 1, (n, COLS)).astype(np.float32)
    assert multiply("portable", w, x).tobytes() == multiply(isa(), w, x).tobytes()


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("rows", [22, 24])
def test_plain_c_gives_the_bits_of_the_fast_path_on_edge_values(kind: GGMLType, rows: int) -> None:
    w = matrix(kind, rows)
    x = edge_rows()
    assert multiply("portable", w, x).tobytes() == multiply(isa(), w, x).tobytes()


@pytest.mark.parametrize("name", ["portable", isa()])
@pytest.mark.parametrize("rows", [22, 24])
@pytest.mark.parametrize("kind", IN_BATCHES_ALIKE, ids=lambda k: k.name)
def test_a_quantized_row_does_not_depend_on_its_batch(kind: GGMLType, rows: int, name: str) -> None:
    w = matrix(kind, rows)
    x = np.random.default_rng(7).normal(0, 1, (7, COLS)).astype(np.float32)
    alone = np.concatenate([multiply(name, w, x[i : i + 1]) for i in range(len(x))])
    assert multiply(name, w, x).tobytes() == alone.tobytes()


@pytest.mark.parametrize("kind", [GGMLType.F32, GGMLType.F16, GGMLType.BF16], ids=lambda k: k.name)
def test_weight_rows_not_in_fours_take_the_row_kernel(kind: GGMLType) -> None:
    w = matrix(kind, 23)
    x = np.random.default_rng(8).normal(0, 1, (3, COLS)).astype(np.float32)
    alone = np.concatenate([multiply("", w, x[i : i + 1]) for i in range(len(x))])
    assert multiply("", w, x).tobytes() == alone.tobytes()


@pytest.mark.parametrize("name", ["portable", isa()])
@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("rows", [22, 24])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_packed_weights_give_the_bits_of_the_files(kind: GGMLType, rows: int, n: int, name: str) -> None:
    w = matrix(kind, rows)
    x = np.random.default_rng(10).normal(0, 1, (n, COLS)).astype(np.float32)
    plain = multiply(name, w, x).tobytes()
    pack([w], Arena(w.packed_bytes))
    assert multiply(name, w, x).tobytes() == plain


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_packed_weights_take_the_room_of_the_file_s(kind: GGMLType) -> None:
    in_file = 24 * COLS // kind.block_size * kind.block_bytes
    widened = in_file * 37 // 36 if kind is GGMLType.Q4_K else in_file  # its six-bit scales become bytes
    assert matrix(kind, 24).packed_bytes == -(-widened // 64) * 64


def test_a_full_arena_takes_no_more() -> None:
    w = matrix(GGMLType.Q4_1, 24)
    with pytest.raises(ValueError, match="full"):
        pack([w], Arena(w.packed_bytes - 1))


def test_a_product_is_the_sum_it_stands_for() -> None:
    """Small whole numbers are exact in every order of adding, so the product must be exact too."""
    rng = np.random.default_rng(9)
    whole = rng.integers(-8, 8, (22, COLS)).astype(np.float32)
    x = rng.integers(-8, 8, (5, COLS)).astype(np.float32)
    w = Matrix(int(GGMLType.F32), whole.view(np.uint8).reshape(-1), 22, COLS)
    np.testing.assert_array_equal(multiply("", w, x), x @ whole.T)
    np.testing.assert_array_equal(multiply("", w, x[:1]), x[:1] @ whole.T)


def test_data_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        Matrix(int(GGMLType.Q8_0), np.zeros(33, np.uint8), 1, 32)


def test_a_type_without_a_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="type"):
        Matrix(int(GGMLType.IQ3_S), np.zeros(110, np.uint8), 1, 256)


def test_kernels_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="processor"):
        isa("avx1024")


@pytest.mark.parametrize("name", ["portable", isa()])
def test_the_words_of_q8_0x16_are_the_quants_of_q8_0_the_even_ones_first(name: str) -> None:
    x = np.random.default_rng(3).standard_normal((2, 256), np.float32)
    q8_0, q8_0x16 = 0, 7
    narrow = quantize(name, q8_0, x).reshape(2, 8, 40)
    wide = quantize(name, q8_0x16, x).reshape(2, 8, 72)
    np.testing.assert_array_equal(wide[..., :8], narrow[..., :8])
    words = wide[..., 8:].copy().view(np.int16)
    quants = narrow[..., 8:].view(np.int8)
    np.testing.assert_array_equal(words, np.concatenate([quants[..., 0::2], quants[..., 1::2]], axis=-1))


def test_activations_of_no_kind_or_of_half_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="kind"):
        quantize("", 8, np.zeros((1, 256), np.float32))
    with pytest.raises(ValueError, match="blocks"):
        quantize("", 0, np.zeros((1, 96), np.float32))
