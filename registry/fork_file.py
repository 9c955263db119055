"""FORK.json: which bytes a model file must have.

What decides is `files[].path`, a plain file name, and `files[].sha256`, 64 hex digits in either case. The rest is for
people and other programs: where the file comes from (`source_repo` or `source`), its licence (`licence_tag`), its size
(`bytes`). A file without such a record is not pinned, and a record that is malformed is none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from registry.atomic import write_whole
from registry.errors import ForkFileError, NotPinned, RegistryError
from registry.pins import open_to_read

SUFFIX: Final = ".FORK.json"
"""How the names of these files end: `model.gguf.FORK.json` pins `model.gguf`."""

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_MAX_BYTES: Final = 4 << 20  # far above any real one


def default_folder() -> Path:
    """Where pins and models are kept: `$BANKML_FORKS`, else `$XDG_DATA_HOME/bankml/forks` (`~/.local/share`).

    A relative `$XDG_DATA_HOME` is ignored, as the XDG base directory rules say.
    """
    if own := os.environ.get("BANKML_FORKS", ""):
        return Path(os.path.expanduser(own)).absolute()
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local/share") / "bankml" / "forks"


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """One entry of `files`.

    Args:
        path: the file's plain name.
        sha256: 64 hex digits, lower case.
        size: bytes, if recorded; nothing is decided by it.
    """

    path: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ForkFile:
    """What a FORK.json says.

    Args:
        files: the entries that pin something, in order.
        problems: file name -> why its entry pins nothing.
        record: every other key.
    """

    files: tuple[PinnedFile, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> ForkFile:
        """What the file at `path` says.

        Raises:
            ForkFileError: it is missing, unreadable, or no JSON object.
        """
        try:
            with open(open_to_read(path), "rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            raise ForkFileError(path, getattr(error, "strerror", None) or str(error)) from error
        if len(data) > _MAX_BYTES:
            raise ForkFileError(path, f"it is larger than {_MAX_BYTES} bytes")
        try:
            return cls.of_json(orjson.loads(data))
        except orjson.JSONDecodeError as error:
            raise ForkFileError(path, f"no JSON: {error}") from error
        except ValueError as error:
            raise ForkFileError(path, str(error)) from error

    @classmethod
    def of_json(cls, value: object) -> ForkFile:
        """What a parsed FORK.json says.

        Raises:
            ValueError: it is no object.
        """
        if not isinstance(value, dict):
            raise ValueError("no JSON object")
        found: dict[str, PinnedFile] = {}
        problems: dict[str, str] = {}
        entries = value.get("files")
        for name, entry in _named(entries if isinstance(entries, list) else []):
            try:
                pinned = _pinned(name, entry)
                if found.setdefault(name, pinned).sha256 != pinned.sha256:
                    raise ValueError("two different sha256 are recorded for it")
            except ValueError as error:
                problems.setdefault(name, str(error))
        files = tuple(pinned for name, pinned in found.items() if name not in problems)
        return cls(files, problems, {key: part for key, part in value.items() if key != "files"})

    def sha256_of(self, file_name: str) -> str:
        """The recorded sha256 of the file with exactly this name.

        Raises:
            NotPinned: there is none.
        """
        for pinned in self.files:
            if pinned.path == file_name:
                return pinned.sha256
        raise NotPinned(file_name, self.problems.get(file_name, "the FORK.json has no sha256 for this name"))

    def as_json(self) -> dict[str, Any]:
        """The object that the file holds: `files` last, as other programs write it."""
        return {
            **self.record,
            "files": [
                {
                    "path": pinned.path,
                    **({} if pinned.size is None else {"bytes": pinned.size}),
                    "sha256": pinned.sha256,
                }
                for pinned in self.files
            ],
        }

    def write(self, path: Path) -> None:
        """Puts the file in place, whole or not at all.

        Raises:
            ForkFileError: it cannot be written.
        """
        try:
            write_whole(path, orjson.dumps(self.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise ForkFileError(path, error.strerror or str(error), verb="write") from error


def _named(entries: list[object]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries that name a file; any other entry says nothing of any."""
    for entry in entries:
        if isinstance(entry, dict) and isinstance(name := entry.get("path"), str):
            yield name, entry


def _pinned(name: str, entry: Mapping[str, Any]) -> PinnedFile:
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise ValueError("its path is no plain file name")
    sha256, size = entry.get("sha256"), entry.get("bytes")
    if sha256 is None:
        raise ValueError("no sha256 is recorded for it")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError("the sha256 recorded for it is not 64 hex digits")
    return PinnedFile(name, sha256.lower(), size if type(size) is int and size >= 0 else None)


@dataclass(frozen=True, slots=True)
class FilePin:
    """A model file that a folder's FORK.json files pin, wherever the file lies.

    Args:
        file_name: the model's plain file name.
        sha256: what it must have, 64 hex digits in lower case; None when there is a `problem`.
        fork: the FORK.json.
        problem: why the file is not pinned after all; None when it is.
    """

    file_name: str
    sha256: str | None
    fork: Path
    problem: str | None = None


def pins_in(folder: Path) -> list[FilePin]:
    """Every GGUF file that a `*.FORK.json` in the folder names, in the order of the files' names.

    A name pinned twice keeps its first pin; a pin beats an entry that pins nothing. A FORK.json that cannot be read
    gives one entry with the reason, under the name its own name ends in. A folder that is not there has no pins.

    Raises:
        ForkFileError: the folder cannot be read.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ForkFileError(folder, error.strerror or str(error)) from error
    found: dict[str, FilePin] = {}
    for pin in (pin for name in names for pin in _pins_of(folder / name)):
        known = found.get(pin.file_name.lower())
        if known is None or (known.problem and not pin.problem):
            found[pin.file_name.lower()] = pin
    return list(found.values())


def _pins_of(fork: Path) -> Iterator[FilePin]:
    try:
        said = ForkFile.read(fork)
    except RegistryError as error:
        yield FilePin(fork.name.removesuffix(SUFFIX), None, fork, problem=str(error))
        return
    for file in said.files:
        if file.path.lower().endswith(".gguf"):
            yield FilePin(file.path, file.sha256, fork)
    for name, problem in said.problems.items():
        if name.lower().endswith(".gguf"):
            yield FilePin(name, None, fork, f"{problem} in {fork.name}")
