"""What tests of models that come and go may use: a folder for models, and a server of that folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from registry.folder import ModelFolder
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
