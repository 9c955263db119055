"""What the engine's tests share; being here, it also lets those in the folders below import `gguf_writer`."""

from __future__ import annotations

import pytest
from gguf_writer import ModelFile, tiny_llama


@pytest.fixture
def tiny() -> ModelFile:
    """A small Llama to change and write."""
    return tiny_llama()
