"""Servers that the clients' tests share, and how clients for Node are run against them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.server_process import BankmlServer

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def run_node() -> Callable[..., dict[str, Any]]:
    """Runs a script of `node/` with servers' addresses and other words; what it wrote. `make` installs the clients if
    they are not there."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    subprocess.run(["make", "--silent", ".venv/.node"], cwd=PROJECT, env=environment, check=True)

    def run(script: str, *given: BankmlServer | str) -> dict[str, Any]:
        arguments = [each if isinstance(each, str) else each.url for each in given]
        command = ["node", Path(__file__).parent / "node" / script, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


@pytest.fixture(scope="session")
def embedding_server(start_server: Callable[..., BankmlServer]) -> Iterator[BankmlServer]:
    """A server that gives vectors."""
    with start_server("--embeddings", "--pooling", "mean") as process:
        yield process
