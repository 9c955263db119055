"""The manifests of a folder, each read once in each of its states.

A folder is looked at before every use of a model, so that what somebody wrote or edited meanwhile counts. What is read
again is what is not as it was: another device, inode, size, or time of change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.derived import DerivedModel, ManifestRefused
from registry.names import ModelName
from registry.pins import open_to_read

MANIFEST_ENDING: Final = ".MODEL.json"
LARGEST_MANIFEST: Final = 64 << 20
"""Bytes; a request's body is smaller."""

_SETTLES_NS: Final = 2 * 10**9
"""After so long a file that is written again has another time of change: the clocks of file systems tick, the slowest
(FAT's) every two seconds."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A manifest that is there and is not used.

    Args:
        path: the file.
        reason: why, for people.
    """

    path: Path
    reason: str


def manifest_name(name: ModelName) -> str:
    """What the manifest of a model is called."""
    return f"{name.file_stem}{MANIFEST_ENDING}"


def file_state(stat: os.stat_result) -> tuple[int, ...]:
    """What tells a file's states apart without reading it."""
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class Manifests:
    """Reads manifests and remembers what they say. Any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], DerivedModel | str]] = {}

    def read_all(self, paths: Iterable[Path]) -> tuple[list[DerivedModel], list[Unreadable]]:
        """Every one that can be used, by name, and every one that cannot, with its reason. All others are forgotten."""
        models: list[DerivedModel] = []
        unreadable: list[Unreadable] = []
        known = {}
        for path in paths:
            try:
                models.append(self.read(path))
            except ManifestRefused as error:
                unreadable.append(Unreadable(path, str(error)))
            if (found := self._known.get(path)) is not None:
                known[path] = found
        self._known = known
        return sorted(models, key=lambda model: model.name.key), unreadable

    def read(self, path: Path) -> DerivedModel:
        """The model of one manifest.

        Raises:
            ManifestRefused: it cannot be used.
        """
        try:
            state, said = self._known.get(path, (None, ""))
            if state is None or file_state(path.stat()) != state:
                said = self._read(path)
        except OSError as error:
            raise ManifestRefused(error.strerror or str(error)) from error
        if isinstance(said, str):
            raise ManifestRefused(said)
        return said

    def _read(self, path: Path) -> DerivedModel | str:
        """What the file says now, or why it is not used. Remembered, unless the file is so new that it may change and
        look the same."""
        now = time.time_ns()
        with open(open_to_read(path), "rb") as file:
            stat = os.fstat(file.fileno())
            said = _parsed(path, file.read(LARGEST_MANIFEST + 1))
        self._known.pop(path, None)
        if stat.st_mtime_ns < now - _SETTLES_NS:
            self._known[path] = file_state(stat), said
        return said


def _parsed(path: Path, data: bytes) -> DerivedModel | str:
    if len(data) > LARGEST_MANIFEST:
        return "not a manifest: it is too large"
    try:
        model = DerivedModel.from_json(data)
    except ManifestRefused as error:
        return str(error)
    if path.name.lower() != manifest_name(model.name).lower():
        return f"it is the manifest of '{model.name.shown}', under another file name"
    return model
