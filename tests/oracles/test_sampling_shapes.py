"""Our server answers what is asked about sampling as the reference did: refusals, bent values, exact probabilities."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.pins import DEFAULT_MODEL
from testing.oracles.http_shapes import Exchange, reduce
from testing.oracles.record_http import FLAGS, SAMPLING_RECORD
from testing.oracles.sampling_shapes import EXCHANGES
from testing.server_process import BankmlServer

RECORDED = json.loads(SAMPLING_RECORD.read_text("utf-8"))
ANSWERS: dict[str, dict[str, Any]] = RECORDED["answers"]


@pytest.fixture(scope="module")
def client(model_path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(model_path, *FLAGS, threads=2) as server:
        yield server.client


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_an_answer_is_the_recorded_one_to_the_last_bit(client: httpx.Client, exchange: Exchange) -> None:
    found = reduce(exchange.send(client))
    assert json.dumps(found, indent=1) == json.dumps(ANSWERS[exchange.name], indent=1)


def test_the_record_was_made_with_the_pinned_model_and_the_reference_build() -> None:
    header = RECORDED["header"]
    assert header["model"]["sha256"] == DEFAULT_MODEL.sha256
    assert header["reference"]["build"] == "b11192"
    assert list(ANSWERS) == [exchange.name for exchange in EXCHANGES]


def test_the_record_holds_refusals_and_probabilities() -> None:
    refused = [name for name, answer in ANSWERS.items() if answer["status"] == 400]
    shown = [name for name, answer in ANSWERS.items() if re.search(r'"(logprob|prob)": -?\d+\.\d', json.dumps(answer))]
    assert len(refused) >= 40
    assert len(shown) >= 60
