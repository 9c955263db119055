"""Squared deviations are added up as if one by one, each partial sum a float, whatever takes many at once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.kernels import _kernels
from testing.oracles.sampler_cases import logits

KINDS = ("fine", "wide", "low", "tied", "coins", "equal", "holes", "few", "peaked", "plateau")
MEANS = (0.0, 1.5, -0.30000001192092896, 40.0)


def one_by_one(row: NDArray[np.float32], mean: float) -> np.float32:
    total = np.float32(0)
    deviations = np.where(row == -np.inf, np.float32(0), row - np.float32(mean)).astype(np.float64)
    for square in (deviations * deviations).tolist():
        total = np.float32(float(total) + square)
    return total


@pytest.mark.parametrize("isa", ["portable", ""])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sum_is_that_of_adding_one_by_one(kind: str, isa: str) -> None:
    for mean in MEANS:
        for n, seed in ((49152, 1), (5000, 2), (64, 3), (63, 4), (1, 5)):
            row = logits(kind, n, seed, 0)
            with np.errstate(invalid="ignore"):
                assert np.float32(_kernels.sum_squares(isa, row, mean)) == one_by_one(row, mean), (n, mean)


@pytest.mark.parametrize("isa", ["portable", ""])
@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e-3, 1e6, 1e12, 1e16])
def test_units_of_any_size_are_right(scale: float, isa: str) -> None:
    row = logits("fine", 20000, 6, 0) * np.float32(scale)
    assert np.float32(_kernels.sum_squares(isa, row, 0.0)) == one_by_one(row, 0.0)


@pytest.mark.parametrize("isa", ["portable", ""])
def test_squares_half_way_between_two_floats_go_to_the_even_one(isa: str) -> None:
    """4096 and units of 2**-11 above it: squares of an odd multiple of 2**-6 are multiples of half a unit."""
    halves = (2 * np.arange(6000, dtype=np.float32) % 37 + 1) * np.float32(2**-6)
    row = np.concatenate([np.full(64, 8, np.float32), halves]).astype(np.float32)
    assert np.float32(_kernels.sum_squares(isa, row, 0.0)) == one_by_one(row, 0.0)


@pytest.mark.parametrize("isa", ["portable", ""])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_no_number_stays_none(odd: float, isa: str) -> None:
    row = logits("fine", 1000, 7, 0)
    row[500] = odd
    assert str(_kernels.sum_squares(isa, row, 0.0)) == str(odd)
