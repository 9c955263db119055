"""A comparison finds a single bit, takes every NaN for the same, and hides nothing that was not compared."""

from __future__ import annotations

import numpy as np
import pytest

from engine.gguf import GGMLType
from testing.oracles.blocks import WANTED
from testing.oracles.comparison import Group, Report, same_bits
from testing.oracles.operation_cases import activations, digest, weights


def floats(*bits: int) -> np.ndarray:
    return np.asarray(bits, np.uint32).view(np.float32)


def test_one_bit_is_a_difference() -> None:
    assert same_bits(floats(0x3F800000), floats(0x3F800000))
    assert not same_bits(floats(0x3F800000), floats(0x3F800001))
    assert digest(floats(0x3F800000)) != digest(floats(0x3F800001))


def test_the_sign_of_zero_is_a_difference() -> None:
    assert not same_bits(floats(0x00000000), floats(0x80000000))
    assert digest(floats(0x00000000)) != digest(floats(0x80000000))


def test_every_nan_is_the_same_and_no_number_is_a_nan() -> None:
    assert same_bits(floats(0x7FC00000), floats(0xFFC00001))
    assert digest(floats(0x7FC00000)) == digest(floats(0xFFC00001))
    assert not same_bits(floats(0x7FC00000), floats(0x7F800000))
    assert not same_bits(floats(0x7F800000), floats(0xFF800000))


def test_another_shape_or_type_is_a_difference() -> None:
    assert not same_bits(np.zeros((1, 2), np.float32), np.zeros((2, 1), np.float32))
    assert not same_bits(np.zeros(2, np.float32), np.zeros(2, np.int32))


def test_the_first_difference_is_told() -> None:
    group = Group("products", "Q8_0", "portable")
    group.compare("same", floats(0), floats(0))
    group.compare("case", floats(0, 0x3F800000), floats(0, 0x3F800001))
    group.compare("later", floats(0), floats(1))
    assert (group.identical, group.different) == (1, 2)
    assert group.first == "case: 1 of 2 differ, first at [1]: 1.0 for 1.0000001 (3f800000 for 3f800001)"


def test_what_is_not_played_is_told_and_a_run_that_compared_nothing_has_not_passed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report()
    report.not_played("products", "Q9_9", "nobody plays it")
    assert not report.passed
    assert "not played: products Q9_9" in report.summary()
    assert "nobody plays it" in capsys.readouterr().out
    with report.group("products", "Q8_0", "portable") as group:
        group.compare("case", floats(0), floats(0))
    assert report.passed
    with report.group("products", "Q4_0", "portable") as group:
        group.fail("case", "no kernel")
    assert not report.passed
    assert "different: products Q4_0 portable" in report.summary()


@pytest.mark.parametrize("kind", WANTED, ids=lambda kind: kind.name)
def test_a_case_is_the_same_bytes_each_time_and_others_with_another_seed(kind: GGMLType) -> None:
    first = weights(kind, 8, 256, "nan").tobytes()
    weights.cache_clear()
    assert weights(kind, 8, 256, "nan").tobytes() == first
    assert weights(kind, 8, 256, "nan", 1).tobytes() != first


def test_activations_reach_the_edges_and_stay_finite() -> None:
    rows = activations(18, 96, "edges")
    assert np.isfinite(rows).all()
    assert np.signbit(rows[2]).all()
    assert not rows[2].any()
    assert np.abs(rows[3]).max() > 2e38
    assert 0 < np.abs(rows[8]).max() < 1e-38
