"""server/wire/bankml.py: sums and rates of the records, and what an operator is told first."""

from __future__ import annotations

from dataclasses import replace

from server.metrics import Record
from server.wire.bankml import checks, metrics_body, record_body

RECORD = Record(
    at=1.0,
    model="m",
    prompt_tokens=10,
    cached_tokens=4,
    completion_tokens=5,
    prompt_ms=3.0,
    ttft_ms=3.5,
    eval_ms=8.0,
    finish="stop",
    grammar_ms=0.0,
    resampled=0,
)


def test_a_record_s_rates_count_computed_prompt_tokens_and_tokens_after_the_first() -> None:
    body = record_body(RECORD)
    assert (body["prompt_tps"], body["eval_tps"], body["joules_per_token"]) == (2000.0, 500.0, None)
    assert list(body) == [
        *("at", "model", "prompt_tokens", "cached_tokens", "completion_tokens", "prompt_ms", "ttft_ms", "eval_ms"),
        *("finish", "grammar_ms", "resampled", "energy_j", "prompt_tps", "eval_tps", "joules_per_token"),
    ]


def test_a_rate_of_nothing_is_null() -> None:
    body = record_body(replace(RECORD, cached_tokens=10, completion_tokens=1))
    assert (body["prompt_tps"], body["eval_tps"]) == (None, None)


def test_sums_are_over_the_kept_records_those_of_energy_over_the_measured_ones() -> None:
    empty = metrics_body([])
    assert (empty["kept"], empty["keep"], empty["prompt_tokens"], empty["energy_j"]) == (0, 256, 0, None)
    body = metrics_body([RECORD, replace(RECORD, energy_j=2.0), replace(RECORD, energy_j=3.0)])
    assert (body["kept"], body["prompt_tokens"], body["completion_tokens"]) == (3, 30, 15)
    assert (body["energy_j"], body["joules_per_token"]) == (5.0, 0.5)


def test_checks() -> None:
    usage = {"mem_available_bytes": 1, "mem_total_bytes": 100}
    worried = checks(False, usage, {"available_bytes": 5}, 7)
    assert [(one["check"], one["level"]) for one in worried] == [
        *(("model", "other"), ("memory", "warn"), ("swap", "warn"), ("disk", "warn"))
    ]
    fine = checks(True, {**usage, "mem_available_bytes": 50}, {"available_bytes": 1 << 40}, 0)
    assert [one["level"] for one in fine] == ["ok"] * 4
    assert [one["level"] for one in checks(True, usage, {"available_bytes": None}, None)] == [
        "ok",
        "warn",
        "ok",
        "other",
    ]
