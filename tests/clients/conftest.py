"""Servers that the clients' tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing.oracles.chat_exchanges import write_model
from testing.oracles.converted_exchanges import CALLING_TEMPLATE
from testing.server_process import BankmlServer


@pytest.fixture(scope="session")
def calling_server(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BankmlServer]:
    """A server whose model's template has tools."""
    model = write_model(model_path, CALLING_TEMPLATE, tmp_path_factory.mktemp("calling") / "model.gguf")
    with BankmlServer(model) as process:
        yield process


@pytest.fixture(scope="session")
def embedding_server(start_server: Callable[..., BankmlServer]) -> Iterator[BankmlServer]:
    """A server that gives vectors."""
    with start_server("--embeddings", "--pooling", "mean") as process:
        yield process
