"""A running server with the real model, for tests that speak HTTP to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from testing.server_process import BankmlServer


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


@pytest.fixture
def client(server: BankmlServer) -> Iterator[httpx.Client]:
    """A client of `server`."""
    with httpx.Client(base_url=server.url, timeout=600.0, trust_env=False) as client:
        yield client
