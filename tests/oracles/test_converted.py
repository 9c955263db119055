"""Anthropic's Messages, OpenAI's Responses and token counts, whole and streamed, as the reference answered them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.pins import DEFAULT_MODEL
from testing.oracles.chat_exchanges import THINKING_TEMPLATE, write_model
from testing.oracles.converted_exchanges import CALLING, CALLING_TEMPLATE, EXCHANGES, THINKING
from testing.oracles.http_shapes import Exchange, as_text, clients_fault, reduce
from testing.oracles.record_converted import RECORD
from testing.server_process import BankmlServer

RECORDED: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
WITHOUT_PARKING = ("--cache-ram", "0")  # as the record was made
HELD_BACK = {f"{api}: characters of several tokens, streamed" for api in ("message", "response")}
"""Streams whose first character takes several tokens: the reference begins them never, or with every event."""
BEGINNINGS = ("message_start", "response.created", "response.in_progress")
PARSE_ERROR = "[json.exception.parse_error.101] parse error at line"
"""The message of what is no JSON is ours."""


@pytest.fixture(scope="module")
def client(model_path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(model_path, *WITHOUT_PARKING) as server:
        yield server.client


@pytest.fixture(scope="module")
def thinking_client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose model's template opens reasoning."""
    model = write_model(model_path, THINKING_TEMPLATE, tmp_path_factory.mktemp("thinking") / "model.gguf")
    with BankmlServer(model, *WITHOUT_PARKING) as server:
        yield server.client


@pytest.fixture(scope="module")
def calling_client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose model's template has tools."""
    model = write_model(model_path, CALLING_TEMPLATE, tmp_path_factory.mktemp("calling") / "model.gguf")
    with BankmlServer(model, *WITHOUT_PARKING) as server:
        yield server.client


def compared(answer: dict[str, Any]) -> str:
    """An answer as text, without its own words about what is no JSON."""
    error = answer.get("body", {}).get("error", {})
    if error.get("message", "").startswith(PARSE_ERROR):
        answer = {**answer, "body": {"error": {**error, "message": PARSE_ERROR}}}
    return as_text(answer)


def unbegun(answer: dict[str, Any]) -> dict[str, Any]:
    """A stream without the events that begin it."""
    return {**answer, "events": [event for event in answer["events"] if event["event"] not in BEGINNINGS]}


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_a_converted_request_is_answered_as_recorded(client: httpx.Client, exchange: Exchange) -> None:
    found, wanted = reduce(exchange.send(client)), clients_fault(RECORDED["answers"][exchange.name])
    if exchange.name in HELD_BACK:
        found, wanted = unbegun(found), unbegun(wanted)
    assert compared(found) == compared(wanted)


@pytest.mark.parametrize("exchange", [one for one in EXCHANGES if one.name in HELD_BACK], ids=lambda one: one.name)
def test_a_stream_begins_once_where_the_references_does_not(client: httpx.Client, exchange: Exchange) -> None:
    wanted = BEGINNINGS[:1] if exchange.path == "/v1/messages" else BEGINNINGS[1:]
    names = [event["event"] for event in reduce(exchange.send(client))["events"]]
    assert [name for name in names if name in BEGINNINGS] == list(wanted)
    assert names[: len(wanted)] == list(wanted)


@pytest.mark.parametrize("exchange", THINKING, ids=[exchange.name for exchange in THINKING])
def test_reasoning_is_a_part_of_its_own_as_recorded(thinking_client: httpx.Client, exchange: Exchange) -> None:
    wanted = clients_fault(RECORDED["thinking"][exchange.name])
    assert compared(reduce(exchange.send(thinking_client))) == compared(wanted)


@pytest.mark.parametrize("exchange", CALLING, ids=[exchange.name for exchange in CALLING])
def test_calls_are_blocks_and_items_as_recorded(calling_client: httpx.Client, exchange: Exchange) -> None:
    wanted = clients_fault(RECORDED["calling"][exchange.name])
    assert compared(reduce(exchange.send(calling_client))) == compared(wanted)


def test_every_exchange_is_recorded_once() -> None:
    assert list(RECORDED["calling"]) == [exchange.name for exchange in CALLING]
    assert list(RECORDED["answers"]) == [exchange.name for exchange in EXCHANGES]
    assert list(RECORDED["thinking"]) == [exchange.name for exchange in THINKING]


def test_the_record_was_made_with_the_pinned_model_and_the_reference_build() -> None:
    header = RECORDED["header"]
    assert header["model"]["sha256"] == DEFAULT_MODEL.sha256
    assert header["reference"]["build"] == "b11192"
