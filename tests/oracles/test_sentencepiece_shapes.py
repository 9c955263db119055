"""A server with a SentencePiece model answers as the reference did: spaces, bytes, special tokens, streamed or not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from testing.oracles.http_shapes import Exchange, reduce
from testing.oracles.record_http import FLAGS, SENTENCEPIECE_RECORD
from testing.oracles.sentencepiece_shapes import EXCHANGES, model
from testing.server_process import BankmlServer

RECORDED = json.loads(SENTENCEPIECE_RECORD.read_text("utf-8"))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, as the recorder wrote it."""
    return model().write(tmp_path_factory.mktemp("sentencepiece") / "model.gguf")


@pytest.fixture(scope="module")
def client(path: Path) -> Iterator[httpx.Client]:
    """A client of a fresh server: the exchanges run in order and see the slot of the one before."""
    with BankmlServer(path, *FLAGS, threads=2) as server:
        yield server.client


def test_the_record_is_of_this_model(path: Path) -> None:
    assert RECORDED["header"]["model"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
def test_an_answer_is_the_recorded_one(client: httpx.Client, exchange: Exchange) -> None:
    wanted = RECORDED["answers"][exchange.name]
    found = reduce(exchange.send(client))
    assert json.dumps(found, indent=1) == json.dumps(wanted, indent=1)
