"""What tests of transfers may use: an empty folder for models."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.folder import ModelFolder


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    """An empty folder of models."""
    return ModelFolder(tmp_path / "forks")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a key."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path
