"""Chat answers with a wanted form, and answers with reasoning, whole and streamed, as the reference gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.oracles.chat_exchanges import EXCHANGES, THINKING, write_thinking_model
from testing.oracles.http_shapes import Exchange, reduce
from testing.oracles.record_chat_answers import RECORD
from testing.server_process import BankmlServer

RECORDED: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))


@pytest.fixture(scope="module")
def client(model_path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(model_path, threads=2) as server:
        yield server.client


@pytest.fixture(scope="module")
def thinking_client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose model's template opens reasoning."""
    model = write_thinking_model(model_path, tmp_path_factory.mktemp("thinking") / "model.gguf")
    with BankmlServer(model, threads=2) as server:
        yield server.client


def expected(answers: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
    """What the reference answered, but for what docs/differences.md says: the client's fault is a 400, not a 500."""
    answer: dict[str, Any] = answers[exchange.name]
    if answer["status"] == 500:
        error = {**answer["body"]["error"], "code": 400, "type": "invalid_request_error"}
        answer = {**answer, "status": 400, "body": {"error": error}}
    return answer


def as_text(value: Any) -> str:
    """JSON as text: the order of keys and the types of numbers count."""
    return json.dumps(value, ensure_ascii=False, indent=1)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_a_wanted_form_is_kept_as_the_reference_keeps_it(client: httpx.Client, exchange: Exchange) -> None:
    assert as_text(reduce(exchange.send(client))) == as_text(expected(RECORDED["answers"], exchange))


@pytest.mark.parametrize("exchange", THINKING, ids=[exchange.name for exchange in THINKING])
def test_reasoning_is_cut_out_as_the_reference_cuts_it(thinking_client: httpx.Client, exchange: Exchange) -> None:
    assert as_text(reduce(exchange.send(thinking_client))) == as_text(expected(RECORDED["thinking"], exchange))


def test_every_exchange_is_recorded() -> None:
    assert list(RECORDED["answers"]) == [exchange.name for exchange in EXCHANGES]
    assert list(RECORDED["thinking"]) == [exchange.name for exchange in THINKING]
