"""Files that are whole or not there: written under a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PART_PREFIX = ".part-"
"""How the temporary names begin. One that is found was left by a process that was killed, or is being written."""


def write_whole(path: Path, data: bytes) -> None:
    """Puts a file with this content in the place of whatever has the name; its folder is made if need be.

    A crash at any point leaves what was there before, or the new file. The file is readable for everyone the umask
    allows.

    Raises:
        OSError: it cannot be written; what was there is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing_whole(path) as file:
        file.write(data)


@contextlib.contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of whatever has the name when the block ends without an error, as `write_whole`.

    Raises:
        OSError: it cannot be made, synced or put in place.
    """
    descriptor, part = tempfile.mkstemp(prefix=f"{PART_PREFIX}{os.getpid()}-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())  # mkstemp makes files for the user alone
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes a rename in the folder outlive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    """The process's umask, read where that needs no change of it (another thread may be making a file)."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o077
