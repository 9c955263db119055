"""What tests of transfers may use: a small model's weights and an empty folder for models."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.folder import ModelFolder
from testing.oracles.small_models import MODELS


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model that is played."""
    return MODELS[0].file().write(tmp_path_factory.mktemp("weights") / "model.gguf").read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    """An empty folder of models."""
    return ModelFolder(tmp_path / "forks")
