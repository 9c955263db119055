"""What tests of models that come and go may use: a folder for models, and a server of that folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from registry.folder import ModelFolder
from testing.oracles.small_models import BY_NAME
from testing.server_process import BankmlServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """An empty folder of models."""
    return ModelFolder(tmp_path_factory.mktemp("forks"))


@pytest.fixture(scope="module")
def served(start_server: Callable[..., BankmlServer], folder: ModelFolder) -> Iterator[BankmlServer]:
    """A server of that folder."""
    with start_server("--registry", str(folder.path)) as process:
        yield process


@pytest.fixture(scope="session")
def start_small(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., BankmlServer]:
    """As `start_server`, of a small model that is there in half the time: for tests that ask other models, or none."""
    path = BY_NAME["llama-mixed"].file().write(tmp_path_factory.mktemp("served") / "small.gguf")

    def start(*flags: str) -> BankmlServer:
        return BankmlServer(path, *flags)

    return start
