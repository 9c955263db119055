"""Our server answers every recorded request as the reference did: status, keys in order, types, stable values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.pins import DEFAULT_MODEL
from testing.oracles.http_shapes import EXCHANGES, Exchange, as_text, clients_fault, reduce
from testing.oracles.record_http import FLAGS, RECORD
from testing.server_process import BankmlServer

RECORDED = json.loads(RECORD.read_text("utf-8"))
PARSE_ERROR = "[json.exception.parse_error.101] parse error at line"
# The message of these is ours, beside that of every body that is not JSON: the reference shows its library's complaint.
OWN_WORDS = {"chat: role number"}


@pytest.fixture(scope="module")
def client(model_path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(model_path, *FLAGS) as server:
        yield server.client


def expected(exchange: Exchange) -> dict[str, Any]:
    """What the reference answered, but for what docs/differences.md says: the client's fault is a 400, not a 500."""
    return clients_fault(RECORDED["answers"][exchange.name])


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_an_answer_has_the_recorded_shape(client: httpx.Client, exchange: Exchange) -> None:
    found, wanted = reduce(exchange.send(client)), expected(exchange)
    for answer in (found, wanted):
        error = answer["body"].get("error", {}) if isinstance(answer.get("body"), dict) else {}
        if error.get("message", "").startswith(PARSE_ERROR) or exchange.name in OWN_WORDS:
            error["message"] = PARSE_ERROR
    assert as_text(found) == as_text(wanted)


def test_the_record_was_made_with_the_pinned_model_and_the_reference_build() -> None:
    header = RECORDED["header"]
    assert header["model"]["sha256"] == DEFAULT_MODEL.sha256
    assert header["reference"]["build"] == "b11192"
    assert header["reference"]["flags"][:5] == ["-t", "2", "-np", "1", "--jinja"]


def test_every_exchange_is_recorded_once() -> None:
    names = [exchange.name for exchange in EXCHANGES]
    assert list(RECORDED["answers"]) == names
    assert len(set(names)) == len(names)
