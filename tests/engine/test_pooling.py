"""The norms an embedding is divided by."""

from __future__ import annotations

import numpy as np
import pytest

from engine.pooling import FloatArray, Pooling, normalized

VECTOR = np.array([3.0, -4.0, 0.0, 0.5], np.float32)


def divided(vector: FloatArray, length: float) -> bytes:
    return (vector * np.float32(1.0 / length)).tobytes()


@pytest.mark.parametrize(
    ("norm", "length"),
    [(-1, 1.0), (0, 4.0 / 32760.0), (1, 7.5), (2, 25.25**0.5), (3, (27.0 + 64.0 + 0.125) ** (1.0 / 3))],
)
def test_each_norm_divides_by_its_own_length(norm: int, length: float) -> None:
    assert normalized(VECTOR, norm).tobytes() == divided(VECTOR, length)


@pytest.mark.parametrize("norm", [0, 1, 2, 3])
def test_a_vector_of_zeros_stays_so(norm: int) -> None:
    assert not normalized(np.zeros(8, np.float32), norm).any()


@pytest.mark.parametrize("norm", [1000, 2**31 - 1, -2, -(2**31)])
def test_a_norm_past_every_number_has_an_answer(norm: int) -> None:
    assert np.isfinite(normalized(VECTOR, norm)).all()


def test_the_sum_of_squares_is_taken_one_by_one() -> None:
    vector = np.random.default_rng(0).normal(0, 1, 576).astype(np.float32)
    length = 0.0
    for value in vector:
        length += float(value * value)
    assert normalized(vector, 2).tobytes() == divided(vector, length**0.5)


def test_only_the_last_rows_pooling_reads_a_text_in_pieces() -> None:
    assert [pooling for pooling in Pooling if pooling.splits] == [Pooling.LAST]
