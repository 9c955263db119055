"""What the server has done so far: a record of every finished answer, and the sums that `/metrics` shows.

The engine's thread tells of each job as it ends, before the client sees its last step; anyone may read at any time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from engine.timings import Timings
from registry.catalog import Entry
from slots.slot import Task

KEEP: Final = 256
"""Records kept, the newest ones."""


@dataclass(frozen=True, slots=True)
class Record:
    """One finished answer. Times are in milliseconds.

    Attributes:
        at: when it ended, Unix time in seconds.
        model: the model file's stem.
        prompt_tokens: tokens of the prompt, cached ones included.
        cached_tokens: those of them that needed no evaluation.
        completion_tokens: tokens sampled, the end token included.
        prompt_ms: evaluating the prompt, to the first token.
        ttft_ms: from the request to the first token; None when there is none.
        eval_ms: from the first token to the last.
        finish: "stop" or "length".
        grammar_ms: spent on the grammar.
        resampled: tokens drawn again because the grammar did not take the first draw.
        energy_j: joules, None where nothing measures them.
    """

    at: float
    model: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prompt_ms: float
    ttft_ms: float | None
    eval_ms: float
    finish: str
    grammar_ms: float
    resampled: int
    energy_j: float | None = None


@dataclass(slots=True)
class Rate:
    """Tokens and what they took, summed.

    Attributes:
        n_tokens: tokens.
        n_steps: evaluations that gave them; an answer's first token comes with the prompt and costs none.
        seconds: the time of these.
    """

    n_tokens: int = 0
    n_steps: int = 0
    seconds: float = 0.0

    def add(self, n_tokens: int, n_steps: int, nanoseconds: int) -> None:
        """Count some more."""
        self.n_tokens += n_tokens
        self.n_steps += n_steps
        self.seconds += nanoseconds / 1e9

    @property
    def per_second(self) -> float:
        """Evaluated tokens a second; 0 when there is nothing to divide by."""
        return self.n_steps / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Series:
    """One line of `/metrics`: `kind` is counter or gauge."""

    name: str
    kind: str
    help: str
    value: float


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number that somebody else keeps and `/metrics` shows: `read` gives it, from any thread."""

    name: str
    help: str
    read: Callable[[], float]


class Metrics:
    """The sums and the records.

    Args:
        n_batch: tokens of a prompt that one evaluation takes.

    Attributes:
        started: Unix time in seconds.
        gauges: what more to show; whoever has a number adds it here.
    """

    def __init__(self, n_batch: int) -> None:
        self._n_batch = n_batch
        self.started = time.time()
        self.gauges: list[Gauge] = []
        self._lock = threading.Lock()
        self._records: deque[Record] = deque(maxlen=KEEP)
        self._prompt, self._predicted = Rate(), Rate()
        self._recent_prompt, self._recent_predicted = Rate(), Rate()  # since `/metrics` was last read
        self._n_cached = self._n_decodes = self._n_tokens_max = 0
        self._n_answers = self._n_aborted = self._n_resampled = 0
        self._grammar_ns = 0

    @property
    def records(self) -> list[Record]:
        """The kept records, the newest last."""
        with self._lock:
            return list(self._records)

    def count(self, entry: Entry, task: Task) -> None:
        """Count a task that has ended. One that was stopped before its end adds to the sums, but no record."""
        if not task.begun:
            return  # refused
        step = task.step
        timings = Timings(cache_n=task.n_cached, prompt_n=task.n_processed) if step is None else step.timings
        final = None if step is None else step.final
        n_steps = max(0, timings.predicted_n - 1)
        prompt_ns = timings.prompt_ns if task.n_processed else 0  # another answer to the prompt has read it
        with self._lock:
            for rate in (self._prompt, self._recent_prompt):
                rate.add(task.n_processed, task.n_processed, prompt_ns)
            for rate in (self._predicted, self._recent_predicted):
                rate.add(timings.predicted_n, n_steps, timings.predicted_ns)
            self._n_cached += task.n_cached
            self._n_decodes += -(-task.n_processed // self._n_batch) + n_steps
            self._n_tokens_max = max(self._n_tokens_max, timings.cache_n + timings.prompt_n + n_steps)
            if final is None:
                self._n_aborted += 1
                return
            self._n_answers += 1
            self._n_resampled += final.n_resampled
            self._grammar_ns += final.grammar_ns
            self._records.append(
                Record(
                    at=time.time(),
                    model=entry.path.stem,
                    prompt_tokens=final.tokens_evaluated,
                    cached_tokens=final.tokens_evaluated - task.n_processed,
                    completion_tokens=timings.predicted_n,
                    prompt_ms=prompt_ns // 1000 / 1000,
                    ttft_ms=(task.waited_ns + prompt_ns) // 1000 / 1000 if timings.predicted_n else None,
                    eval_ms=timings.predicted_ms,
                    finish="stop" if final.stop_type in ("eos", "word") else "length",
                    grammar_ms=final.grammar_ns // 1000 / 1000,
                    resampled=final.n_resampled,
                )
            )

    def scrape(self, *, n_processing: int, n_deferred: int) -> list[Series]:
        """Everything `/metrics` shows. Its rates are those since the last call, as llama-server has them.

        Args:
            n_processing: requests that have the engine.
            n_deferred: requests that wait for it.
        """
        with self._lock:
            series = [*self._totals(), *self._rates(n_processing, n_deferred), *self._own_totals()]
            self._recent_prompt, self._recent_predicted = Rate(), Rate()
        return series + [Series(gauge.name, "gauge", gauge.help, gauge.read()) for gauge in self.gauges]

    def _totals(self) -> Iterator[Series]:
        """llama-server's counters, in its order."""
        drafts = "always 0: there is no draft model"
        for name, text, value in (
            ("prompt_tokens_total", "prompt tokens evaluated", self._prompt.n_tokens),
            ("prompt_tokens_cached_total", "prompt tokens that were in the slot already", self._n_cached),
            ("prompt_seconds_total", "seconds spent on prompts", self._prompt.seconds),
            ("tokens_predicted_total", "tokens sampled", self._predicted.n_tokens),
            ("tokens_predicted_seconds_total", "seconds spent on sampled tokens", self._predicted.seconds),
            ("n_decode_total", "batches evaluated", self._n_decodes),
            ("n_tokens_max", "most tokens a prompt and its answer had so far", self._n_tokens_max),
            ("spec_decode_num_draft_tokens_total", f"drafted tokens, {drafts}", 0),
            ("spec_decode_num_accepted_tokens_total", f"drafted tokens that were accepted, {drafts}", 0),
            ("spec_decode_num_drafts_total", f"drafts that were checked, {drafts}", 0),
        ):
            yield Series(f"llamacpp:{name}", "counter", text, value)

    def _rates(self, n_processing: int, n_deferred: int) -> Iterator[Series]:
        """llama-server's gauges, in its order."""
        recently = "since these metrics were last read"
        for name, text, value in (
            ("prompt_tokens_seconds", f"prompt tokens a second {recently}", self._recent_prompt.per_second),
            ("predicted_tokens_seconds", f"sampled tokens a second {recently}", self._recent_predicted.per_second),
            ("requests_processing", "requests that have the engine", n_processing),
            ("requests_deferred", "requests that wait for the engine", n_deferred),
            ("n_busy_slots_per_decode", "slots that took part in a batch, on average", min(1, self._n_decodes)),
        ):
            yield Series(f"llamacpp:{name}", "gauge", text, value)

    def _own_totals(self) -> Iterator[Series]:
        for name, text, value in (
            ("answers_total", "answers that came to their end", self._n_answers),
            ("answers_aborted_total", "answers that were stopped before their end", self._n_aborted),
            ("resampled_tokens_total", "tokens drawn again because of a grammar", self._n_resampled),
            ("grammar_seconds_total", "seconds spent on grammars", self._grammar_ns / 1e9),
        ):
            yield Series(f"bankml_{name}", "counter", text, value)
        yield Series("bankml_start_time_seconds", "gauge", "Unix time of the start", self.started)


def exposition(series: list[Series]) -> str:
    """Prometheus' text format, version 0.0.4.

    Written here, for prometheus-client ends the name of every counter in `_total`, and `n_tokens_max` is one without.
    """
    lines = []
    for one in series:
        lines += [f"# HELP {one.name} {one.help}", f"# TYPE {one.name} {one.kind}", f"{one.name} {one.value!r}"]
    return "\n".join(lines) + "\n"
