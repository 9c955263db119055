"""The gate in front of a pinned file: the header guard, then the sha256 of the whole file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from registry.errors import GuardRefused, PinMismatch
from registry.fork_file import ForkFile, PinnedFile
from registry.gguf_guard import Engine, Report, judge
from registry.pins import Digest, sha256_file


def check_pin(path: Path, fork: ForkFile) -> Digest:
    """That a file has the bytes that are pinned for its name; reads it all.

    Raises:
        NotPinned: nothing is pinned for its name; it is not read then.
        PinMismatch: it has other bytes.
        ModelFileError, ModelFileChanged: it cannot be read, or was written to meanwhile.
    """
    pinned = fork.sha256_of(path.name)
    digest = sha256_file(path)
    if digest.sha256 != pinned:
        raise PinMismatch(path.name, digest.sha256, pinned)
    return digest


@dataclass(frozen=True, slots=True)
class Verified:
    """A file that passed the gate.

    Args:
        digest: its sha256 and identity.
        report: what the guard said: `play`.
    """

    digest: Digest
    report: Report


def verify(path: Path, fork: ForkFile, engine: Engine = "mainline") -> Verified:
    """The gate: the header is judged, then the file's bytes are compared with those pinned.

    Raises:
        GuardRefused: the header is not played, or not all there.
        NotPinned, PinMismatch, ModelFileError, ModelFileChanged: as `check_pin`.
    """
    report = _let_through(path, engine)
    return Verified(check_pin(path, fork), report)


def pin_file(path: Path, fork: Path) -> Digest:
    """Writes a FORK.json that pins a file as it is; what the FORK.json says of other files stays.

    Raises:
        GuardRefused: the file is not played, or is cut short.
        ForkFileError: the FORK.json is there and unreadable, or cannot be written.
        ModelFileError, ModelFileChanged: the file cannot be read, or was written to meanwhile.
    """
    _let_through(path, "mainline")
    said = ForkFile.read(fork) if os.path.lexists(fork) else ForkFile(())
    digest = sha256_file(path)
    others = tuple(pinned for pinned in said.files if pinned.path != path.name)
    record = dict(said.record) or {
        "kind": "bankml pin (the file as it was found)",
        "source": os.path.realpath(path),
        "pinned_at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    ForkFile((*others, PinnedFile(path.name, digest.sha256, digest.identity.size)), record=record).write(fork)
    return digest


def _let_through(path: Path, engine: Engine) -> Report:
    report = judge(path, engine=engine)
    if report.verdict != "play":
        raise GuardRefused(report.reasons, report.bytes_needed if report.verdict == "need_more" else None)
    return report
