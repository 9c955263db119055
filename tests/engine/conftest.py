"""What the engine's tests share; being here, it also lets those in the folders below import `tiny_model`."""

from __future__ import annotations

import pytest
from tiny_model import tiny_llama

from testing.gguf_writer import ModelFile


@pytest.fixture
def tiny() -> ModelFile:
    """A small Llama to change and write."""
    return tiny_llama()
