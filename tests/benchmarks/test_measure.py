"""How the benchmark reads a server's timings."""

from __future__ import annotations

from benchmarks.measure import decode_rate


def test_the_first_token_of_an_answer_takes_no_evaluation_of_its_own() -> None:
    assert decode_rate({"predicted_n": 97, "predicted_ms": 800.0}) == 120.0
