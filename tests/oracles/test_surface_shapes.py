"""Our server answers every request about the rest of the surface as the reference did, but for what
docs/differences.md says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.pins import DEFAULT_MODEL
from testing.oracles.http_shapes import Exchange, as_text, clients_fault, reduce
from testing.oracles.record_http import FLAGS as COMMON_FLAGS
from testing.oracles.record_http import SURFACE_RECORD
from testing.oracles.surface_shapes import EXCHANGES, FLAGS
from testing.server_process import BankmlServer

RECORDED = json.loads(SURFACE_RECORD.read_text("utf-8"))
PARSE_ERROR = "[json.exception.parse_error.101] parse error at line"
# The usage of several prompts is theirs together.
SUMMED = {"completion_tokens": 6, "prompt_tokens": 2, "total_tokens": 8}
SUMS = {"/v1/completions: two prompts", "/v1/completions: verbose, two prompts"}


@pytest.fixture(scope="module")
def client(model_path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(model_path, *COMMON_FLAGS, *FLAGS) as server:
        yield server.client


def expected(exchange: Exchange) -> dict[str, Any]:
    """What the reference answered, with the differences that are meant."""
    answer = clients_fault(RECORDED["answers"][exchange.name])
    if "events" in answer:  # where a further prompt begins the reference says null
        answer = {**answer, "events": [event for event in answer["events"] if event is not None]}
    if exchange.name in SUMS:
        usage = {**answer["body"]["usage"], **SUMMED}
        answer = {**answer, "body": {**answer["body"], "usage": usage}}
    return answer


def shown(answer: dict[str, Any]) -> str:
    """An answer as text. That of a parse error is each one's own."""
    body = answer.get("body")
    error = body.get("error", {}) if isinstance(body, dict) else {}
    if error.get("message", "").startswith(PARSE_ERROR):
        error["message"] = PARSE_ERROR
    return as_text(answer)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_the_answer_is_the_recorded_one(client: httpx.Client, exchange: Exchange) -> None:
    wanted = shown(expected(exchange))
    if exchange.name == "/completion: n is 0":  # our limit is not the number of slots
        wanted = wanted.replace("<= 1,", "<= 16,")
    assert shown(reduce(exchange.send(client))) == wanted


def test_the_record_is_of_these_exchanges_the_pinned_model_and_the_reference_build() -> None:
    assert list(RECORDED["answers"]) == [exchange.name for exchange in EXCHANGES]
    assert RECORDED["header"]["model"]["sha256"] == DEFAULT_MODEL.sha256
    assert RECORDED["header"]["reference"]["build"] == "b11192"
