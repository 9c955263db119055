"""What every test may use: the real model, fetched by the project's own code."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from registry.download import ensure

# A runner in the background may ignore SIGINT, and children inherit that; the tests that send one need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def model_path() -> Path:
    """SmolLM2-135M-Instruct Q4_1, verified; from the user's cache, fetched on first use."""
    path, _ = ensure()
    return path
