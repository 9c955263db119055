"""Put a record's question to our own engine, in process, and read what the reference answered.

A difference that is known stands by its record's name in `known_differences.json`, with the reason. The tests hold that
list both ways: an unlisted difference fails, and so does a listed one that has come right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from engine.generation import Final, GenerationRequest, generate
from engine.model import Model
from server.wire.fields import parse_fields
from server.wire.llama import Defaults, build_job
from server.wire.openai import CHAT_KNOWN
from server.wire.openai_completions import COMPLETION_KNOWN
from slots.slot import Slot

FOLDER = Path(__file__).parent
RECORDS = FOLDER / "records"
Record = Mapping[str, Any]

COUNTS = ("stop_type", "stopping_word", "truncated", "tokens_cached", "tokens_evaluated", "cache_n", "prompt_n")


@cache
def load(name: str) -> Record:
    """A record file, parsed: `header` and groups of records."""
    record: Record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return record


def sessions(*names: str) -> Iterator[list[Record]]:
    """What some record files hold, as lists of requests that share a slot: one request alone, or a conversation.

    The turns of a conversation are named `NAME/1`, `NAME/2` and so on.
    """
    for name in names:
        for group, entries in load(name).items():
            if group == "conversations":
                for entry in entries:
                    yield [{**turn, "name": f"{entry['name']}/{n}"} for n, turn in enumerate(entry["turns"], 1)]
            elif group != "header":
                yield from ([entry] for entry in entries)


def known_differences() -> Mapping[str, str]:
    """Records we are known not to match yet: name and reason."""
    known: dict[str, str] = json.loads((FOLDER / "known_differences.json").read_text(encoding="utf-8"))
    return known


@dataclass(frozen=True, slots=True)
class Outcome:
    """What our engine answered: the fields a record has too, under the same names."""

    tokens: list[int]
    text: str
    stop_type: str
    stopping_word: str
    truncated: bool
    tokens_cached: int
    tokens_evaluated: int
    cache_n: int
    prompt_n: int
    best: list[list[list[float]]]

    def differences(self, record: Record) -> list[str]:
        """How this differs from the record, one line a difference; tokens first."""
        lines = []
        if self.tokens != record["tokens"]:
            both = zip(self.tokens, record["tokens"], strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
            lines.append(f"tokens part after {same}: {self.tokens[same:][:5]}, recorded {record['tokens'][same:][:5]}")
        # completions were recorded without cache_n and prompt_n
        lines += [
            f"{name} is {getattr(self, name)!r}, recorded {record[name]!r}"
            for name in COUNTS
            if name in record and getattr(self, name) != record[name]
        ]
        if "best" in record and self.best != record["best"]:
            steps = enumerate(zip(self.best, record["best"], strict=False))
            same = next(
                (n for n, (ours, recorded) in steps if ours != recorded), min(len(self.best), len(record["best"]))
            )
            lines.append(f"the most likely tokens part at {same}")
        if self.text != record["content"].removesuffix("\ufffd"):  # /completion shows a cut character so
            lines.append(f"text is {self.text!r}, recorded {record['content']!r}")
        return lines


def generation_request(model: Model, record: Record) -> GenerationRequest:
    """The recorded request as the server hands it to the engine; its prompt is the recorded token ids."""
    fields = parse_fields(record["request"], COMPLETION_KNOWN | CHAT_KNOWN)
    return build_job(record["prompt_ids"], fields, model, Defaults({})).request


def answer(model: Model, slot: Slot, record: Record) -> Outcome:
    """Our engine's answer to a recorded request, from the slot as it is.

    Args:
        model: the loaded model.
        slot: what the model's KV cache holds.
        record: from `sessions`.
    """
    request = generation_request(model, record)
    n_past = slot.reuse(request.prompt, record["request"]["cache_prompt"])
    timings, final = None, None
    for step in generate(model, request, tokens=slot.tokens, n_past=n_past):
        timings, final = step.timings, step.final
    assert isinstance(final, Final)
    assert timings is not None
    return Outcome(
        tokens=final.tokens,
        text=final.text,
        stop_type=final.stop_type,
        stopping_word=final.stopping_word,
        truncated=final.truncated,
        tokens_cached=final.tokens_cached,
        tokens_evaluated=final.tokens_evaluated,
        cache_n=timings.cache_n,
        prompt_n=timings.prompt_n,
        best=[[[best.token, best.logprob] for best in one.best] for one in final.shown],
    )
