"""What is measured on one running server, ours or the reference, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import psutil

from testing.oracles import prompts
from testing.server_process import ServerProcess

MIB = 2**20
IDLE_PERCENT = 10.0
"""More than this share of the machine in use while our server waits, and the round says so."""
CLOCK_SLACK_MS = 60.0


@dataclass(slots=True)
class Round:
    """What one round found.

    Attributes:
        values: by metric key (see `report.METRICS`).
        answers: greedy token ids by request, to be held against the other server's.
        warnings: what makes a figure doubtful, in words.
    """

    values: dict[str, float] = field(default_factory=dict)
    answers: dict[str, list[int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def measure(server: ServerProcess, *, quick: bool) -> Round:
    """Start the server, measure it and stop it, so that no other one runs meanwhile.

    Args:
        server: not yet started.
        quick: the short prompt and the short context only.
    """
    found = Round()
    started = time.perf_counter()
    with server:
        found.values["startup"] = server.startup * 1e3
        complete(server, [1, 2, 3], n_predict=1)
        found.values["first_answer"] = (time.perf_counter() - started) * 1e3
        process = psutil.Process(server.pid)
        found.values["memory_loaded"] = process.memory_info().rss / MIB
        busy = psutil.cpu_percent(interval=0.5)
        if busy > IDLE_PERCENT:
            found.warnings.append(f"the machine was {busy:.0f}% busy while the server was idle")
        ids = passage(server, 128 if quick else 2000)
        _decode(server, found, "decode_128", ids[:128], 32 if quick else 96)
        ids = ids if len(ids) >= 512 else passage(server, 512)
        _prompt(server, found, "prompt_512", ids[:512])
        _first_token(server, found, ids[:512])
        if not quick:
            _prompt(server, found, "prompt_1500", ids[:1500])
            _decode(server, found, "decode_1000", ids[:1000], 96)
            complete(server, ids[:2000], n_predict=1)
        found.values["memory_prompt"] = process.memory_info().rss / MIB
    if quick:
        del found.values["memory_prompt"]
    return found


def passage(server: ServerProcess, n_tokens: int) -> list[int]:
    """The first `n_tokens` token ids of the recorders' text, by the server's own tokenizer."""
    text = " ".join(islice(prompts.passage(), n_tokens // 6))
    ids: list[int] = server.post("/tokenize", {"content": text})["tokens"]
    return ids[:n_tokens]


def _request(prompt: list[int], n_predict: int, cache_prompt: bool) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "n_predict": n_predict,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": cache_prompt,
        "return_tokens": True,
    }


def complete(server: ServerProcess, prompt: list[int], *, n_predict: int) -> Mapping[str, Any]:
    """One greedy completion from an empty slot; adds `wall_ms`, the whole request by our clock."""
    started = time.perf_counter()
    answer = server.post("/completion", _request(prompt, n_predict, cache_prompt=False))
    return {**answer, "wall_ms": (time.perf_counter() - started) * 1e3}


def _prompt(server: ServerProcess, found: Round, key: str, prompt: list[int]) -> None:
    answer = complete(server, prompt, n_predict=1)
    found.values[key] = answer["timings"]["prompt_per_second"]
    _check_clock(found, key, answer)


def _decode(server: ServerProcess, found: Round, key: str, prompt: list[int], n_predict: int) -> None:
    answer = complete(server, prompt, n_predict=n_predict)
    found.values[key] = decode_rate(answer["timings"])
    found.answers[key] = answer["tokens"]
    _check_clock(found, key, answer)


def decode_rate(timings: Mapping[str, float]) -> float:
    """Tokens evaluated a second while generating.

    The first token comes with the prompt, so n tokens take n - 1 evaluations; `predicted_per_second` of the reference
    and of ours says the same, and is computed here so that both are read alike.
    """
    return (timings["predicted_n"] - 1) / timings["predicted_ms"] * 1e3


def _check_clock(found: Round, key: str, answer: Mapping[str, Any]) -> None:
    said = answer["timings"]["prompt_ms"] + answer["timings"]["predicted_ms"]
    if not -1.0 <= answer["wall_ms"] - said <= CLOCK_SLACK_MS + 0.02 * said:
        found.warnings.append(f"{key}: the server says {said:.0f} ms, the clock {answer['wall_ms']:.0f} ms")


def _first_token(server: ServerProcess, found: Round, prompt: list[int]) -> None:
    found.values["first_token_512"] = _time_to_first_token(server, prompt, cache_prompt=False)
    found.values["first_token_cached"] = _time_to_first_token(server, prompt, cache_prompt=True)


def _time_to_first_token(server: ServerProcess, prompt: list[int], *, cache_prompt: bool) -> float:
    """Milliseconds from sending a streamed request to the first event that carries a token."""
    request = {**_request(prompt, 4, cache_prompt), "stream": True}
    started = time.perf_counter()
    first = 0.0
    with _events(server, request) as events:
        for event in events:
            if event.get("tokens") and not first:
                first = (time.perf_counter() - started) * 1e3
    return first


@contextmanager
def _events(server: ServerProcess, request: Mapping[str, Any]) -> Iterator[Iterator[Mapping[str, Any]]]:
    with server.client.stream("POST", "/completion", json=request) as response:
        response.raise_for_status()
        lines = (line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: {"))
        yield (json.loads(line) for line in lines)
