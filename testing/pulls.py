"""Pulls from a registry on loopback, as tests ask for them."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path

import pytest

from registry.errors import RegistryError
from registry.folder import ModelFolder
from registry.names import ModelName
from registry.transfer.errors import TransferError
from registry.transfer.fetch import Patience
from registry.transfer.pull import Puller
from registry.transfer.ticks import Progress
from testing.registry_server import RegistryServer

WHOLE = Patience(stall=5.0, attempts=4, backoff=0.001)
IN_PARTS = Patience(stall=5.0, attempts=4, backoff=0.001, smallest_part=50_000)
NAME = "me/tiny:latest"


def is_locked(path: Path) -> bool:
    """Whether somebody writes the file."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def pulled(puller: Puller, registry: RegistryServer, model: str = NAME) -> list[Progress]:
    """Every line of a pull."""
    return [line async for line in puller.pull(ModelName.parse(registry.name(model)), insecure=True)]


def pull(
    folder: ModelFolder, registry: RegistryServer, patience: Patience = WHOLE, model: str = NAME
) -> list[Progress]:
    """Every line of a pull into the folder, which ends well."""
    return asyncio.run(pulled(Puller(folder, patience=patience), registry, model))


def refused(
    folder: ModelFolder,
    registry: RegistryServer,
    error: type[RegistryError] = TransferError,
    patience: Patience = WHOLE,
) -> str:
    """What a pull is refused with; nothing of it is a model, and what is left is in `partial/`."""
    with pytest.raises(error) as caught:
        pull(folder, registry, patience)
    assert folder.derived() == ([], [])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def left(folder: ModelFolder) -> list[str]:
    """What lies in `partial/`."""
    return sorted(path.name for path in folder.partial.iterdir()) if folder.partial.exists() else []


def statuses(lines: list[Progress]) -> list[str]:
    """The lines' statuses, each once."""
    return list(dict.fromkeys(line.status for line in lines))
