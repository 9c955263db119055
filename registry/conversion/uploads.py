"""A set of safetensors and their JSON files that came as blobs, made into one GGUF file."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from registry.conversion.conversion import ConversionReport, convert
from registry.errors import ConversionFailed, ConversionRefused, ModelFileError
from registry.folder import CONVERSION, ModelFolder
from registry.progress import Silent

_NO_PLACE: Final = (errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG)


@asynccontextmanager
async def converted(folder: ModelFolder, blobs: Mapping[str, Path], name: str) -> AsyncIterator[ConversionReport]:
    """The files converted under the names they were uploaded with, for as long as the context is open.

    Whoever wants to keep the report's `output` makes it a blob meanwhile. Cancelled, it stops the conversion and ends
    when nothing is left of it.

    Args:
        folder: where the blobs are.
        blobs: path within the model's directory -> its blob.
        name: what the directory counts as being called; the model's metadata has it.

    Raises:
        ConversionRefused: a path leads elsewhere or is another's folder, a file is missing, or what `convert` refuses.
        RegistryError: what else `convert` raises; the folder cannot be written.
    """
    stop, workspace = threading.Event(), ExitStack()
    work = asyncio.ensure_future(asyncio.to_thread(_convert, workspace, folder, blobs, name, _Stoppable(stop)))
    try:
        yield await asyncio.shield(work)
    finally:
        stop.set()
        await asyncio.gather(work, return_exceptions=True)
        await asyncio.to_thread(workspace.close)


def is_valid_path(path: str) -> bool:
    """Whether a path is relative, clean and stays where it is: Go's `fs.ValidPath`."""
    if path == ".":
        return True
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


class _Stopped(Exception):
    """Nobody waits for the conversion any more."""


class _Stoppable(Silent):
    """Progress that ends its work when it is told to."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def update(self, done: int) -> None:
        if self._stop.is_set():
            raise _Stopped


def _convert(
    workspace: ExitStack, folder: ModelFolder, blobs: Mapping[str, Path], name: str, progress: _Stoppable
) -> ConversionReport:
    """What `converted` does in a thread; all that is there when it ends lies in `workspace`."""
    work = workspace.enter_context(_workspace(folder))
    directory = work / name
    directory.mkdir()
    for file, blob in blobs.items():
        _link(folder, directory, file, blob)
    try:
        return convert(directory, work / "converted.gguf", progress=progress)
    except (ConversionRefused, ModelFileError) as error:  # in words that mean something to whoever sent the files
        raise ConversionRefused(str(error).replace(str(directory), name)) from error
    except ConversionFailed as error:
        raise folder.error(error.reason) from error


def _link(folder: ModelFolder, directory: Path, file: str, blob: Path) -> None:
    """Makes a blob a file of the directory."""
    if not is_valid_path(file):
        raise ConversionRefused(f"{file!r} is no path of a file within the model's directory")
    path = directory / file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(blob.absolute())
    except OSError as error:
        if error.errno in _NO_PLACE:
            raise ConversionRefused(f"{file!r} cannot be a file beside the others: {error.strerror}") from error
        raise folder.error(error) from error


@contextmanager
def _workspace(folder: ModelFolder) -> Iterator[Path]:
    """A directory for what is under way; the lock on it tells a sweep that somebody is at work."""
    path = folder.partial_path(f"{CONVERSION}{secrets.token_hex(8)}")
    with folder.locked():  # so that no sweep comes between the lines
        try:
            path.mkdir()
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise folder.error(error) from error
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
