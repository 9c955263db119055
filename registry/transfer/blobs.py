"""Blobs on their way into the folder: each is fetched once, however many want it, and checked before its use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from registry.errors import DownloadError, RegistryError
from registry.folder import ModelFolder
from registry.pins import sha256_file
from registry.transfer import partial_header
from registry.transfer.errors import NotPlayable
from registry.transfer.fetch import Patience, Source, all_of, fetch
from registry.transfer.manifest import Blob
from registry.transfer.partial import PartialFile, arrived
from registry.transfer.partial_header import Check
from registry.transfer.threads import Look, stoppable

_ASK_AGAIN: Final = 0.1  # seconds between looks at a file that another process fetches


class WrongDigest(DownloadError):
    """What came is not what the manifest names; nothing of it is kept. The text is Ollama's."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"digest mismatch, file must be downloaded again: want {expected}, got sha256:{found}")


class Arriving:
    """One blob on its way, for every pull that wants it.

    Args:
        blob: which.

    Attributes:
        arrived: set when all bytes are there, before they are checked.
        task: ends with the blob's bytes (none for weights, which are long) when it is in its place.
    """

    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self.file: PartialFile | None = None
        self.elsewhere = 0  # bytes that another process, which has the file, fetched so far
        self.here = False  # before anything was fetched
        self.arrived = asyncio.Event()
        self.task: asyncio.Task[bytes]
        self.wanted = 0

    @property
    def completed(self) -> int:
        """Bytes that are there."""
        if self.here or self.arrived.is_set():
            return self.blob.size
        return self.file.completed if self.file is not None else min(self.elsewhere, self.blob.size)


class Arrivals:
    """The blobs that are on their way into one folder. Weights and templates stay there; other texts do not.

    Args:
        folder: where they go.
        check: what weights must pass beside their digest; asked as soon as their header may be there, too.
        patience: how long a peer is waited for.
    """

    def __init__(self, folder: ModelFolder, check: Check, patience: Patience) -> None:
        self._folder = folder
        self._check = check
        self._patience = patience
        self._under_way: dict[str, Arriving] = {}

    @asynccontextmanager
    async def of(self, blob: Blob, source: Source) -> AsyncIterator[Arriving]:
        """The blob, on its way while the block runs; it is stopped when nobody wants it any more.

        What came of it until then stays, and the next one goes on with it.
        """
        arriving = self._under_way.get(blob.digest)
        # One that is being stopped, or that another manifest says something else of, has the file: this one waits.
        if arriving is None or arriving.blob != blob or arriving.task.cancelling():
            arriving = self._under_way[blob.digest] = Arriving(blob)
            arriving.task = asyncio.create_task(self._bring(arriving, source))
            arriving.task.add_done_callback(partial(self._ended, arriving))
        arriving.wanted += 1
        try:
            yield arriving
        finally:
            arriving.wanted -= 1
            if arriving.wanted == 0 and not arriving.task.done():
                arriving.task.cancel()
                await asyncio.wait({arriving.task})

    def _ended(self, arriving: Arriving, task: asyncio.Task[bytes]) -> None:
        if self._under_way.get(arriving.blob.digest) is arriving:
            del self._under_way[arriving.blob.digest]
        if not task.cancelled():
            task.exception()  # whoever still waits is told; nobody is no reason for a line in the log

    async def _bring(self, arriving: Arriving, source: Source) -> bytes:
        """Fetches, checks and places one blob.

        Raises:
            TransferError, WrongDigest: it does not come, or is another.
            NotPlayable: weights that are not played here.
            FolderError: the folder does not take it.
        """
        blob, folder = arriving.blob, self._folder
        try:
            with await self._take(arriving) as file:
                arriving.file = file
                try:
                    if not arriving.here:
                        await self._fetch(arriving, file, source)
                    data = await _to_the_end(partial(self._place, arriving, file))
                finally:
                    if not (blob.is_kept and file.completed) or arriving.here:  # nothing to go on with
                        file.remove()
            arriving.arrived.set()
            return data
        except OSError as error:
            raise folder.error(error) from error

    async def _take(self, arriving: Arriving) -> PartialFile:
        """The file to write to; waits while another process has it. Sets `here` when the blob is in its place."""
        blob = arriving.blob
        path = self._folder.partial_path(f"sha256-{blob.digest[7:]}")
        smallest = self._patience.smallest_part
        # No event of ours says when another process lets go of it.
        while (file := PartialFile.open(path, blob.size, smallest_part=smallest)) is None:
            with contextlib.suppress(OSError):  # it was renamed or removed meanwhile
                arriving.elsewhere = await asyncio.to_thread(arrived, path)
            await asyncio.sleep(_ASK_AGAIN)
        try:
            arriving.here = blob.is_kept and self._folder.has_blob(blob.digest)
            if arriving.here and not await stoppable(partial(self._is_right, blob)):
                arriving.here = False  # damaged since: the one that is fetched takes its place
        except BaseException:
            file.close()
            raise
        return file

    def _is_right(self, blob: Blob, look: Look) -> bool:
        try:
            return sha256_file(self._folder.blob_path(blob.digest), look).sha256 == blob.digest[7:]
        except RegistryError:
            return False

    def _place(self, arriving: Arriving, file: PartialFile) -> bytes:
        """Makes a file with the right digest a blob if it is to stay, and reads it if it is a text."""
        blob, folder = arriving.blob, self._folder
        path = folder.blob_path(blob.digest) if arriving.here else file.path
        data = path.read_bytes() if blob.is_text else b""
        if blob.is_weights:
            try:
                self._check(path, True)
            except NotPlayable:
                file.remove()
                raise
        if blob.is_kept and not arriving.here:
            folder.adopt_blob(path, blob.digest)
        return data

    async def _fetch(self, arriving: Arriving, file: PartialFile, source: Source) -> None:
        """All bytes, with the right digest. Those that an earlier run left may be what is wrong: then from nothing."""
        while True:
            try:
                await self._receive(arriving.blob, file, source)
            except NotPlayable:
                if not file.resumed:
                    file.remove()
                    raise
                file.restart()
                continue
            arriving.arrived.set()
            await asyncio.to_thread(file.finish)
            found = (await stoppable(partial(sha256_file, file.path))).sha256
            if f"sha256:{found}" == arriving.blob.digest:
                return
            if not file.resumed:
                file.remove()
                raise WrongDigest(arriving.blob.digest, found)
            arriving.arrived.clear()
            file.restart()

    async def _receive(self, blob: Blob, file: PartialFile, source: Source) -> None:
        """All bytes; weights that are not played are not fetched to their end.

        Raises:
            TransferError: they do not come.
            NotPlayable: what came of the header says so.
        """
        fetched = fetch(source, file, self._patience)
        if blob.is_weights:
            await all_of(fetched, partial_header.judge(file, self._check))
        else:
            await fetched


async def _to_the_end(work: Callable[[], bytes]) -> bytes:
    """What `work` gives in another thread; a cancellation waits for it, since it holds a file that others wait for."""
    placing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(placing)
    finally:
        await asyncio.gather(placing, return_exceptions=True)
