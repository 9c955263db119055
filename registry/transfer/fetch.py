"""The one downloader: a file in parallel ranges, gone on with after a cut or a kill, given up when nothing comes.

What is fetched is checked by whoever asked for it; here it is only made whole.
"""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, Protocol

import httpx

from registry.transfer.connection import FINAL, reason
from registry.transfer.errors import TransferError
from registry.transfer.partial import N_PARTS, SMALLEST_PART, Part, PartialFile

RETRY_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that another try may change."""
_PIECE: Final = 1 << 20  # bytes written at a time
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,20})-[0-9]{1,20}/([0-9]{1,20}|\*)")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a peer is waited for.

    Args:
        stall: seconds without a byte after which a connection counts as dead.
        attempts: requests in a row, for one part, that bring nothing.
        backoff: seconds before the second of them; each further wait is twice as long, 8 seconds at the most.
        smallest_part: bytes of a part at the least.
        longest_wait: seconds that a peer may ask for before it is asked again.
    """

    stall: float = 30.0
    attempts: int = 6
    backoff: float = 0.25
    smallest_part: int = SMALLEST_PART
    longest_wait: float = 60.0

    def wait(self, failures: int, asked: float = 0.0) -> float:
        """Seconds to wait after so many failures in a row, and not less than the peer asked for."""
        return max(min(self.backoff * 2.0 ** (failures - 1), 8.0), min(asked, self.longest_wait))


def asked_wait(response: httpx.Response) -> float:
    """Seconds after which an answer says to come again (`Retry-After`, RFC 9110 section 10.2.3); 0 for none."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        when = parsedate_to_datetime(text)
        return max((when.astimezone(UTC) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


class Source(Protocol):
    """Where a file comes from."""

    @property
    def host(self) -> str:
        """Who has it, for people."""

    def open(self, headers: Mapping[str, str]) -> AbstractAsyncContextManager[httpx.Response]:
        """A request for the file with these headers (`Range`); redirects are followed.

        Raises:
            httpx.HTTPError: no answer, for now.
            TransferError: an answer that another try does not change.
        """

    async def refusal(self, response: httpx.Response) -> str:
        """What an answer without the file says, where another try may change it.

        Raises:
            TransferError: another try does not change it.
        """


class _Problem(NamedTuple):
    """What is wrong with an answer, and seconds after which it may be another."""

    text: str
    wait: float = 0.0


class _NoRanges(Exception):
    """The peer sends whole files only."""


async def fetch(source: Source, file: PartialFile, patience: Patience) -> None:
    """Fetches what is missing of a file.

    When it fails or is cancelled, what came stays, and another call goes on with it.

    Raises:
        TransferError: it does not come, or has another size than it should.
        OSError: it cannot be written.
    """
    _require_space(file)
    try:
        await _Fetch(source, file, patience).run()
    except _NoRanges:
        file.restart(whole=True)
        await _Fetch(source, file, patience).run()


def _require_space(file: PartialFile) -> None:
    """Says so before the download when the disk cannot hold the file.

    Raises:
        OSError: it cannot.
    """
    need = file.size - file.completed
    if shutil.disk_usage(file.path.parent).free < need:
        raise OSError(errno.ENOSPC, f"{need} bytes are needed")


class _Fetch:
    """One file on its way; arguments as `fetch`."""

    def __init__(self, source: Source, file: PartialFile, patience: Patience) -> None:
        self._source = source
        self._file = file
        self._patience = patience
        self._open = asyncio.Semaphore(N_PARTS)
        self._answered = asyncio.Event()  # the first answer says whether there are ranges, and how long the file is

    async def run(self) -> None:
        """All parts that are not there; the first problem that stays one ends them all."""
        missing = [part for part in self._file.parts if part.done < part.size]
        await all_of(*(self._part(part, first=part is missing[0]) for part in missing))

    async def _part(self, part: Part, *, first: bool) -> None:
        if not first:
            await self._answered.wait()
        async with self._open:
            failures, best = 0, part.done
            while part.done < part.size:
                try:
                    problem = await self._request(part)
                except FINAL as error:
                    raise TransferError(f"{self._source.host} cannot be followed: {reason(error)}") from error
                except httpx.HTTPError as error:
                    problem = _Problem(reason(error))
                # A peer without ranges starts over: what counts is what it never brought before.
                failures, best = (0, part.done) if part.done > best else (failures + 1, best)
                if failures == self._patience.attempts:
                    raise TransferError(f"max retries exceeded: {problem.text}")
                if failures:
                    await asyncio.sleep(self._patience.wait(failures, problem.wait))

    async def _request(self, part: Part) -> _Problem:
        """One request for what a part misses.

        Returns:
            what was wrong with the answer, if the part is not whole now.
        """
        headers = {"Range": f"bytes={part.start}-{part.end - 1}"}
        async with self._source.open(headers) as response:
            match response.status_code:
                case 206:
                    self._check_range(response, part)
                case 200:
                    self._check_whole(response, part)
                case 416:
                    part.done = 0
                    return _Problem("the range that was asked for is refused")
                case _:
                    return _Problem(await self._source.refusal(response), asked_wait(response))
            self._answered.set()
            await self._receive(response, part)
        return _Problem("the connection was closed early")

    async def _receive(self, response: httpx.Response, part: Part) -> None:
        """Writes the answer's bytes into the part as they come; what was received before a cut is kept."""
        writer = _Writer(self._file, part)
        try:
            async for chunk in response.aiter_raw():
                if await writer.take(chunk):
                    break
        finally:
            await writer.end()

    def _check_range(self, response: httpx.Response, part: Part) -> None:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", "").strip().lower())
        if found is None or int(found[1]) != part.start:
            raise TransferError(f"{self._source.host} sent another part of the file than was asked for")
        if found[2] != "*":
            self._check_size(int(found[2]))

    def _check_whole(self, response: httpx.Response, part: Part) -> None:
        length = response.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and "content-encoding" not in response.headers:
            self._check_size(int(length))
        if len(self._file.parts) > 1:
            raise _NoRanges
        part.done = 0

    def _check_size(self, size: int) -> None:
        if size != self._file.size:
            kind = "larger" if size > self._file.size else "smaller"
            raise TransferError(
                f"the file at {self._source.host} is {kind} than it should be: {size} bytes, not {self._file.size}"
            )


class _Writer:
    """Writes a part in another thread, what comes meanwhile in one piece behind it: the disk may be slow, the loop not.

    Args:
        file: where to.
        part: of it.
    """

    def __init__(self, file: PartialFile, part: Part) -> None:
        self._file = file
        self._part = part
        self._missing = part.size - part.done
        self._piece = bytearray()
        self._writing: asyncio.Future[None] | None = None

    async def take(self, chunk: bytes) -> bool:
        """Takes bytes.

        Returns:
            whether the part is whole with them.

        Raises:
            OSError: earlier ones could not be written.
        """
        self._piece += chunk
        self._missing -= len(chunk)
        if len(self._piece) >= _PIECE and self._writing is not None:
            await asyncio.wait({self._writing})
        self._write()
        return self._missing <= 0

    async def end(self) -> None:
        """Writes what was taken and is not written.

        Raises:
            OSError: it cannot be.
        """
        while self._writing is not None or self._piece:
            self._write()
            if self._writing is not None:
                await asyncio.wait({self._writing})

    def _write(self, written: asyncio.Future[None] | None = None) -> None:
        """Begins to write what there is, unless something is being written; that calls here again when it is done.

        Raises:
            OSError: what was written before could not be.
        """
        if self._writing is not None:
            if not self._writing.done():
                return
            if written is not None and self._writing.exception() is not None:
                return  # for whoever takes or ends next
            self._writing.result()
            self._writing = None
        if self._piece:
            whole, self._piece = self._piece, bytearray()
            self._writing = asyncio.get_running_loop().run_in_executor(None, self._file.write, self._part, whole)
            self._writing.add_done_callback(self._write)


async def all_of(*work: Coroutine[Any, Any, None]) -> None:
    """Does all of it at once; what the first one raises ends the others, and is raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
