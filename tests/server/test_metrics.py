"""What the server counts: sums over everything that ran, a record for every answer that came to its end."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from engine.generation import Final, GenerationRequest, Step
from engine.timings import Timings
from registry.catalog import Entry
from server.metrics import KEEP, Gauge, Metrics, exposition
from slots.slot import Job, Task

ENTRY = cast(Entry, SimpleNamespace(path=Path("/models/small.gguf")))
MS = 1_000_000


def step(final: Final | None, n: int = 3) -> Step:
    return Step(
        "", 1, True, n, Timings(cache_n=4, prompt_n=5, prompt_ns=10 * MS, predicted_n=n, predicted_ns=MS), final
    )


def task(n_cached: int, n_processed: int, step: Step | None = None, waited_ns: int = 0) -> Task:
    job = Job(GenerationRequest([]))
    return Task(0, job, False, n_cached, waited_ns, n_processed, step, begun=True, running=False)


def finished(**more: Any) -> Task:
    final = Final("eos", tokens_evaluated=9, **more)
    return task(4, 5, step(final), waited_ns=2 * MS)


def shown(metrics: Metrics, *, n_processing: int = 0, n_deferred: int = 0) -> dict[str, float]:
    text = exposition(metrics.scrape(n_processing=n_processing, n_deferred=n_deferred))
    values = (line.split(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in values}


def test_a_finished_answer_leaves_a_record_of_what_it_took() -> None:
    metrics = Metrics(2048)
    metrics.count(ENTRY, finished(n_resampled=2, grammar_ns=3 * MS))
    (record,) = metrics.records
    assert abs(record.at - time.time()) < 60
    assert (record.model, record.prompt_tokens, record.cached_tokens, record.completion_tokens) == ("small", 9, 4, 3)
    assert (record.prompt_ms, record.ttft_ms, record.eval_ms) == (10.0, 12.0, 1.0)
    assert (record.finish, record.grammar_ms, record.resampled, record.energy_j) == ("stop", 3.0, 2, None)


def test_the_oldest_records_go() -> None:
    metrics = Metrics(2048)
    for number in range(KEEP + 1):
        metrics.count(ENTRY, finished(n_resampled=number))
    assert [record.resampled for record in metrics.records] == list(range(1, KEEP + 1))


def test_an_answer_that_was_stopped_counts_but_leaves_no_record() -> None:
    metrics = Metrics(2048)
    metrics.count(ENTRY, task(4, 5, step(None)))
    metrics.count(ENTRY, task(1, 7))
    assert metrics.records == []
    found = shown(metrics)
    assert found["llamacpp:prompt_tokens_total"] == 12
    assert found["llamacpp:prompt_tokens_cached_total"] == 5
    assert found["llamacpp:tokens_predicted_total"] == 3
    assert (found["bankml_answers_total"], found["bankml_answers_aborted_total"]) == (0, 2)


def test_batches_and_the_longest_sequence_are_counted_as_the_reference_counts_them() -> None:
    metrics = Metrics(2)
    metrics.count(ENTRY, finished())  # five prompt tokens in batches of two, then two tokens after the first
    found = shown(metrics)
    assert (found["llamacpp:n_decode_total"], found["llamacpp:n_tokens_max"]) == (5, 11)
    assert found["llamacpp:n_busy_slots_per_decode"] == 1


def test_rates_are_those_since_the_last_look() -> None:
    metrics = Metrics(2048)
    metrics.count(ENTRY, finished())
    found = shown(metrics, n_processing=1, n_deferred=2)
    assert found["llamacpp:prompt_tokens_seconds"] == 500
    assert found["llamacpp:predicted_tokens_seconds"] == 2000  # the first of the three came with the prompt
    assert (found["llamacpp:requests_processing"], found["llamacpp:requests_deferred"]) == (1, 2)
    assert shown(metrics)["llamacpp:prompt_tokens_seconds"] == 0
    assert shown(metrics)["llamacpp:prompt_tokens_total"] == 5


def test_whoever_has_a_number_may_show_it() -> None:
    metrics = Metrics(2048)
    metrics.gauges.append(Gauge("bankml_things", "how many there are", lambda: 7))
    assert shown(metrics)["bankml_things"] == 7


def test_a_request_that_the_engine_refuses_counts_for_nothing() -> None:
    metrics = Metrics(2048)
    metrics.count(ENTRY, Task(0, Job(GenerationRequest([])), n_cached=4))
    assert not any(value for name, value in shown(metrics).items() if name != "bankml_start_time_seconds")
