"""Answers with calls, whole and streamed, as the reference gave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testing.oracles.chat_exchanges import write_model
from testing.oracles.http_shapes import as_text, clients_fault, reduce
from testing.oracles.record_tool_answers import RECORD
from testing.oracles.tool_exchanges import MODELS_FAULT, SOURCES, TOOL_EXCHANGES
from testing.server_process import BankmlServer

RECORDED: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))


@pytest.mark.parametrize("name", SOURCES)
def test_calls_are_made_and_shown_as_the_reference_does(name: str, model_path: Path, tmp_path: Path) -> None:
    """The exchanges run in order against one server and see the slot of the one before."""
    model = write_model(model_path, SOURCES[name], tmp_path / "model.gguf")
    with BankmlServer(model, "--cache-ram", "0", threads=2) as server:
        for exchange in TOOL_EXCHANGES[name]:
            wanted = RECORDED[name][exchange.name]
            wanted = wanted if exchange.name in MODELS_FAULT else clients_fault(wanted)
            assert as_text(reduce(exchange.send(server.client))) == as_text(wanted), exchange.name


def test_every_exchange_is_recorded() -> None:
    for name, exchanges in TOOL_EXCHANGES.items():
        assert list(RECORDED[name]) == [exchange.name for exchange in exchanges]
