"""The files of a directory to be converted: each opened once, checked, and known again when the conversion ends."""

from __future__ import annotations

import json
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from registry.errors import ConversionRefused, ModelDirectoryError, ModelFileChanged, ModelFileError
from registry.json_size import too_much_structure
from registry.pins import FileIdentity, open_to_read, sha256_file
from registry.progress import Progress

MAX_JSON: Final = 64 << 20
"""Bytes of a JSON or text file: twice the largest vocabulary there is."""
MAX_CONTAINERS: Final = 2_000_000
MAX_VALUES: Final = 8_000_000
"""Arrays and objects of a JSON file, and its values: four times what that has."""


class SourceDirectory:
    """A directory of weights, configuration and vocabulary; a context manager that closes what it opened.

    Symbolic links are followed: a model hub's cache is made of them.

    Args:
        path: the directory.

    Raises:
        ModelDirectoryError: it is not here, or no directory.
    """

    def __init__(self, path: Path) -> None:
        try:
            is_directory = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise ModelDirectoryError(path, error.strerror or str(error)) from error
        except ValueError as error:  # a NUL in the path
            raise ModelDirectoryError(path, str(error)) from error
        if not is_directory:
            raise ModelDirectoryError(path, "not a directory")
        self.path = path
        self._used: dict[str, FileIdentity] = {}
        self._open = ExitStack()

    def __enter__(self) -> SourceDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.path / name).is_file()

    def open(self, name: str) -> tuple[int, int]:
        """A file of the directory.

        Args:
            name: its name; one that leads elsewhere is refused.

        Returns:
            its descriptor, which lives as long as this object, and its size in bytes.

        Raises:
            ModelFileError: it is missing, cannot be read or is not a regular file.
            ModelFileChanged: it is not the file that was opened under the name before.
        """
        path = self.path / name
        try:
            descriptor = open_to_read(path)
            self._open.callback(os.close, descriptor)
            identity = FileIdentity.of_stat(path, os.fstat(descriptor))
        except OSError as error:
            raise ModelFileError(path, error.strerror or str(error)) from error
        if self._used.setdefault(name, identity) != identity:
            raise ModelFileChanged(path)
        return descriptor, identity.size

    def bytes_of(self, name: str, limit: int = MAX_JSON) -> bytes:
        """A whole file; errors as `open`, and `ConversionRefused` when it has more than `limit` bytes."""
        descriptor, size = self.open(name)
        if size > limit:
            raise ConversionRefused(f"{name} has {size} bytes; no more than {limit} are read")
        data = read_at(descriptor, 0, size)
        if len(data) != size:
            raise ModelFileChanged(self.path / name)
        return data

    def text_of(self, name: str, limit: int = MAX_JSON) -> str:
        """A whole text, its line ends as `\\n`; errors as `bytes_of`, and `ConversionRefused` when it is not UTF-8."""
        try:
            text = self.bytes_of(name, limit).decode()
        except UnicodeDecodeError as error:
            raise ConversionRefused(f"{name} is not UTF-8") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def json_of(self, name: str) -> dict[str, Any] | None:
        """A file's JSON object; None when there is no such file. Errors as `text_of`, and when it is something else."""
        if not self.has(name):
            return None
        text = self.text_of(name)
        if reason := too_much_structure(text.encode(), name, containers=MAX_CONTAINERS, values=MAX_VALUES):
            raise ConversionRefused(reason)
        return parse_object(text, name)

    def check_unchanged(self) -> None:
        """That every file that was used is still the one under its name.

        Raises:
            ModelFileError: one is gone.
            ModelFileChanged: one is another, or was written to.
        """
        for name, identity in self._used.items():
            if FileIdentity.of(self.path / name) != identity:
                raise ModelFileChanged(self.path / name)

    def check_apart(self, output: Path) -> None:
        """That the output is none of the files that were used.

        Raises:
            ConversionRefused: it is.
        """
        for name in self._used:
            if output.exists() and output.samefile(self.path / name):
                raise ConversionRefused(f"the output would replace {self.path / name}, which is converted")

    def inputs(self, progress: Progress) -> list[tuple[str, int, str]]:
        """Name, bytes and sha256 of every file that was used, by name.

        Args:
            progress: told how many bytes are hashed; what it raises ends it.

        Raises:
            ModelFileError: one cannot be read any more.
            ModelFileChanged: one is not the file that was used.
        """
        progress.start(f"reading {self.path.name}", sum(identity.size for identity in self._used.values()))
        found, before = [], 0
        for name, identity in sorted(self._used.items()):

            def read(done: int, before: int = before) -> None:
                progress.update(before + done)

            digest = sha256_file(self.path / name, read)
            before += identity.size
            if digest.identity != identity:
                raise ModelFileChanged(self.path / name)
            found.append((name, identity.size, digest.sha256))
        return found


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """`size` bytes from `offset` on; fewer where the file ends before."""
    parts = []
    while size > 0:
        part = os.pread(descriptor, min(size, 1 << 30), offset)
        if not part:
            break
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)


def parse_object(text: str, name: str) -> dict[str, Any]:
    """The JSON object in a text.

    Raises:
        ConversionRefused: it is not JSON, not an object, or nested without end; `name` says where.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ConversionRefused(f"{name} is not JSON: {reason}") from error
    if not isinstance(value, dict):
        raise ConversionRefused(f"{name} is not a JSON object")
    return value
