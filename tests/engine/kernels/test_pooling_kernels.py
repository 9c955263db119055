"""Means, softmaxes and orders: the same from both builds of the kernels."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import descending, mean_rows, soft_max

BUILDS = ("", "portable")


def rows(n: int, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(n).normal(0, 1, (n, width)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 100, 512])
def test_both_builds_take_the_same_mean(n: int) -> None:
    x = rows(n, 40)
    first, second = (mean_rows(isa, x) for isa in BUILDS)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("n", [1, 2, 32, 64, 512])
def test_a_mean_that_has_no_rest_is_exact(n: int) -> None:
    x = np.random.default_rng(n).integers(-9, 9, (n, 40)).astype(np.float32)
    assert all(mean_rows(isa, x).tobytes() == x.mean(axis=0).tobytes() for isa in BUILDS)


def test_the_mean_of_one_row_is_that_row() -> None:
    x = rows(1, 64)
    assert mean_rows("", x).tobytes() == x.tobytes()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 20])
def test_both_builds_take_the_same_softmax(n: int) -> None:
    x = rows(1, n)[0] * 5
    first, second = (soft_max(isa, x) for isa in BUILDS)
    assert first.tobytes() == second.tobytes()
    assert np.argsort(first).tolist() == np.argsort(x).tolist()


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_equal_scores_have_equal_shares(n: int) -> None:
    x = np.full(n, 3.5, np.float32)
    assert all(soft_max(isa, x).tolist() == [1 / n] * n for isa in BUILDS)


def test_the_highest_score_comes_first() -> None:
    assert descending([0.1, 0.5, -2.0, 0.3]) == [1, 3, 0, 2]


def test_few_equal_scores_stay_in_their_order() -> None:
    assert descending([1.0] * 16) == list(range(16))


def test_scores_that_are_no_numbers_stay_where_they_are() -> None:
    assert descending([0.1, float("nan"), 0.5]) == [0, 1, 2]


def test_there_is_no_mean_of_nothing() -> None:
    with pytest.raises(ValueError, match="rows of a multiple of eight"):
        mean_rows("", np.empty((0, 8), np.float32))
