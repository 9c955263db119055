"""Chat answers with a wanted form, and answers with reasoning, whole and streamed, as the reference gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.oracles.chat_exchanges import (
    EXCHANGES,
    THINKING,
    THINKING_TEMPLATE,
    WRAPPED,
    WRAPPED_TEMPLATE,
    write_model,
)
from testing.oracles.http_shapes import Exchange, as_text, clients_fault, reduce
from testing.oracles.record_chat_answers import RECORD
from testing.server_process import BankmlServer

RECORDED: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
UNSAID = "Failed to initialize samplers: std::exception"
"""The reference's whole complaint about a grammar that the generation prompt does not follow; ours says more."""


@pytest.fixture(scope="module")
def client(model_path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(model_path, "--cache-ram", "0", threads=2) as server:
        yield server.client


@pytest.fixture(scope="module")
def thinking_client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose model's template opens reasoning."""
    model = write_model(model_path, THINKING_TEMPLATE, tmp_path_factory.mktemp("thinking") / "model.gguf")
    with BankmlServer(model, "--cache-ram", "0", threads=2) as server:
        yield server.client


@pytest.fixture(scope="module")
def wrapping_client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose model's template wraps answers in tags."""
    model = write_model(model_path, WRAPPED_TEMPLATE, tmp_path_factory.mktemp("wrapped") / "model.gguf")
    with BankmlServer(model, "--cache-ram", "0", threads=2) as server:
        yield server.client


def found(response: httpx.Response, wanted: dict[str, Any]) -> dict[str, Any]:
    """Our answer, without the reason that stands beside the reference's complaint about a grammar."""
    answer = reduce(response)
    error = answer.get("body", {}).get("error", {})
    error.pop("reason", None)
    if wanted.get("body", {}).get("error", {}).get("message") == UNSAID:
        error["message"] = UNSAID
    return answer


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_a_wanted_form_is_kept_as_the_reference_keeps_it(client: httpx.Client, exchange: Exchange) -> None:
    wanted = clients_fault(RECORDED["answers"][exchange.name])
    assert as_text(found(exchange.send(client), wanted)) == as_text(wanted)


@pytest.mark.parametrize("exchange", THINKING, ids=[exchange.name for exchange in THINKING])
def test_reasoning_is_cut_out_as_the_reference_cuts_it(thinking_client: httpx.Client, exchange: Exchange) -> None:
    wanted = clients_fault(RECORDED["thinking"][exchange.name])
    assert as_text(found(exchange.send(thinking_client), wanted)) == as_text(wanted)


@pytest.mark.parametrize("exchange", WRAPPED, ids=[exchange.name for exchange in WRAPPED])
def test_an_answer_of_another_form_is_the_references_error(wrapping_client: httpx.Client, exchange: Exchange) -> None:
    wanted = RECORDED["wrapped"][exchange.name]  # a model's fault is a 500 here too
    assert as_text(reduce(exchange.send(wrapping_client))) == as_text(wanted)


def test_every_exchange_is_recorded() -> None:
    assert list(RECORDED["wrapped"]) == [exchange.name for exchange in WRAPPED]
    assert list(RECORDED["answers"]) == [exchange.name for exchange in EXCHANGES]
    assert list(RECORDED["thinking"]) == [exchange.name for exchange in THINKING]
