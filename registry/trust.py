"""Which bytes a file given by its path must have: those that a FORK.json pins, or those it was first served with.

`--fork`, or a `FILE.FORK.json` beside it, pins a file; any other file given by its path is trusted on first use, which
is recorded, and refused once its bytes are others. Nothing here is slow to import: start-up asks before it hashes.
"""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from registry.errors import FirstUseMismatch, PinMismatch
from registry.fork_file import SUFFIX, ForkFile, PinnedFile
from registry.pins import Digest

FIRST_USES: Final = "first-use"
"""The folder of the records, inside the folder of models."""


class Trust:
    """Which bytes a file given by its path must have.

    Args:
        path: the file.
        fork: the FORK.json that pins it; None: the `FILE.FORK.json` beside it, if there is one.
        folder: where first uses are recorded: the folder of models.

    Attributes:
        fork: the FORK.json that decides; None when there is none.

    Raises (from the constructor):
        ForkFileError: the FORK.json is missing or unreadable.
    """

    def __init__(self, path: Path, fork: Path | None, folder: Path) -> None:
        self._path = path
        beside = path.with_name(path.name + SUFFIX)
        self.fork = fork if fork is not None or not os.path.lexists(beside) else beside
        self._pins = None if self.fork is None else ForkFile.read(self.fork)
        self.record_path = first_use_path(folder, path)

    def check(self, digest: Digest) -> None:
        """That these are the right bytes, as far as that is known.

        Raises:
            NotPinned, PinMismatch: the FORK.json says otherwise.
            FirstUseMismatch: they are not those that the file was first served with.
            ForkFileError: the record of its first use is unreadable.
        """
        if self._pins is not None:
            pinned = self._pins.sha256_of(self._path.name)
            if digest.sha256 != pinned:
                raise PinMismatch(self._path.name, digest.sha256, pinned, f"in {self.fork}")
        elif self._is_recorded():
            pinned = ForkFile.read(self.record_path).sha256_of(self._path.name)
            if digest.sha256 != pinned:
                raise FirstUseMismatch(self._path, digest.sha256, pinned, self.record_path)

    def record(self, digest: Digest) -> bool:
        """Writes down the bytes a file is first used with; says whether this was its first use.

        Raises:
            ForkFileError: the record cannot be written.
        """
        if self._pins is not None or self._is_recorded():
            return False
        record = {
            "kind": "bankml first use (trusted as it was found)",
            "source": os.path.realpath(self._path),
            "first_used_at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        pinned = PinnedFile(self._path.name, digest.sha256, digest.identity.size)
        ForkFile((pinned,), record=record).write(self.record_path)
        return True

    def _is_recorded(self) -> bool:
        return os.path.lexists(self.record_path)


def first_use_path(folder: Path, path: Path) -> Path:
    """Where a file's first use is recorded: under its name, and a hash of where it really lies."""
    where = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    return folder / FIRST_USES / f"{path.name}-{where}{SUFFIX}"
