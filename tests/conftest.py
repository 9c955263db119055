"""What every test may use: the real model, fetched by the project's own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.download import ensure


@pytest.fixture(scope="session")
def model_path() -> Path:
    """SmolLM2-135M-Instruct Q4_1, verified; from the user's cache, fetched on first use."""
    path, _ = ensure()
    return path
