"""registry/transfer/blobs.py and partial.py: who waits for whom where a blob's fetching is stopped and begun again."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from registry.folder import ModelFolder
from registry.names import ModelName
from registry.transfer.blobs import Arrivals
from registry.transfer.client import BlobSource, Registry, open_client
from registry.transfer.manifest import SYSTEM, Blob
from registry.transfer.partial import PartialFile
from registry.transfer.pull import judged
from testing.pulls import WHOLE, is_locked
from testing.registry_server import RegistryServer, digest_of, serving

TEXT = b"You are brief."
BLOB = Blob(SYSTEM, digest_of(TEXT), len(TEXT))


class SlowToStop(BlobSource):
    """A source whose answers are let go of when they are allowed to."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry, BLOB)
        self.begun, self.stopping, self.may_stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def open(self, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        async with super().open(headers):
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopping.set()
                await self.may_stop.wait()
            yield httpx.Response(500)


def test_who_wants_a_blob_that_is_just_being_stopped_gets_it(folder: ModelFolder) -> None:
    async def stopped_and_wanted(registry: RegistryServer) -> bytes:
        arrivals = Arrivals(folder, judged, WHOLE)
        async with await open_client(WHOLE) as client:
            here = Registry(client, ModelName.parse(registry.name()), insecure=True)
            slow = SlowToStop(here)

            async def give_up() -> None:
                async with arrivals.of(BLOB, slow):
                    await slow.begun.wait()

            given_up = asyncio.create_task(give_up())
            await slow.stopping.wait()
            async with arrivals.of(BLOB, here.blob(BLOB)) as arriving:
                slow.may_stop.set()
                await given_up
                return await arriving.task

    with serving(RegistryServer(blobs={BLOB.digest: TEXT})) as registry:
        assert asyncio.run(stopped_and_wanted(registry)) == TEXT


def test_a_file_that_waits_for_the_disk_is_let_go_of_at_once_and_nobody_has_it_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing, closed = threading.Event(), threading.Event()
    let_go: list[bool] = []

    def fsync(descriptor: int) -> None:
        syncing.set()
        let_go.append(closed.wait(10.0))

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "part"
    file = PartialFile.open(path, len(TEXT))
    assert file is not None
    file.write(file.parts[0], TEXT)
    finishing = threading.Thread(target=file.finish)
    finishing.start()
    syncing.wait()
    file.close()
    assert is_locked(path)
    closed.set()
    finishing.join()
    assert let_go == [True]
    assert not is_locked(path)
