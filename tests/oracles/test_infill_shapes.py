"""A gap is filled as the reference fills it: the same prompt, the same answer, the same complaints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.oracles.http_shapes import as_text, clients_fault, reduce
from testing.oracles.infill_shapes import EXCHANGES, SETUPS, Setup
from testing.oracles.record_http import FLAGS
from testing.oracles.record_infill import RECORD
from testing.server_process import BankmlServer

RECORDED = json.loads(RECORD.read_text("utf-8"))
PARSE_ERROR = "[json.exception.parse_error.101] parse error at line"


@pytest.fixture(params=SETUPS, ids=[setup.name for setup in SETUPS], scope="module")
def setup(request: pytest.FixtureRequest) -> Setup:
    """One of the servers."""
    chosen: Setup = request.param
    return chosen


@pytest.fixture(scope="module")
def path(setup: Setup, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, as the recorder wrote it."""
    return setup.model().write(tmp_path_factory.mktemp("infill") / "model.gguf")


@pytest.fixture(scope="module")
def client(setup: Setup, path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(path, *FLAGS, *setup.flags) as server:
        yield server.client


def shown(answer: dict[str, Any]) -> str:
    """An answer as text. That of a parse error is each one's own."""
    body = answer.get("body")
    error = body.get("error", {}) if isinstance(body, dict) else {}
    if error.get("message", "").startswith(PARSE_ERROR):
        error["message"] = PARSE_ERROR
    return as_text(answer)


def test_every_answer_is_the_recorded_one(setup: Setup, client: httpx.Client) -> None:
    recorded = RECORDED[setup.name]
    assert list(recorded) == [exchange.name for exchange in EXCHANGES]
    for exchange in EXCHANGES:
        assert shown(reduce(exchange.send(client))) == shown(clients_fault(recorded[exchange.name])), exchange.name


def test_the_record_is_of_this_model(setup: Setup, path: Path) -> None:
    assert RECORDED["header"][setup.name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
