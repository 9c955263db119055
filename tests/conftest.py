"""What every test may use: the real model, fetched by the project's own code, a running server with it, and the bytes
of a small model."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from registry.download import ensure
from testing.oracles.chat_exchanges import write_model
from testing.oracles.converted_exchanges import CALLING_TEMPLATE
from testing.oracles.small_models import MODELS
from testing.server_process import BankmlServer

# A runner in the background may ignore SIGINT, and children inherit that; the tests that send one need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What the tests serve is not written down among the user's own files; servers started by them inherit this.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="bankml-data-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)


@pytest.fixture(scope="session")
def model_path() -> Path:
    """SmolLM2-135M-Instruct Q4_1, verified; from the user's cache, fetched on first use."""
    path, _ = ensure()
    return path


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model that is played."""
    return MODELS[0].file().write(tmp_path_factory.mktemp("weights") / "model.gguf").read_bytes()


@pytest.fixture(scope="session")
def start_server(model_path: Path) -> Callable[..., BankmlServer]:
    """Starts `bankml serve` on the real model, two threads, with the flags given; a context manager."""

    def start(*flags: str) -> BankmlServer:
        return BankmlServer(model_path, *flags)

    return start


@pytest.fixture(scope="session")
def server(start_server: Callable[..., BankmlServer]) -> Iterator[BankmlServer]:
    """One server for all tests that leave it as they found it."""
    with start_server() as process:
        yield process


@pytest.fixture(scope="session")
def calling_server(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BankmlServer]:
    """A server whose model's template has tools."""
    model = write_model(model_path, CALLING_TEMPLATE, tmp_path_factory.mktemp("calling") / "model.gguf")
    with BankmlServer(model) as process:
        yield process


@pytest.fixture
def client(server: BankmlServer) -> Iterator[httpx.Client]:
    """A client of `server`."""
    with httpx.Client(base_url=server.url, timeout=600.0, trust_env=False) as client:
        yield client
