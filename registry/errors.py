"""What can go wrong between a model's name and its verified file. The text of each is fit for one line."""

from __future__ import annotations

import errno
from pathlib import Path

from engine.errors import one_line


class RegistryError(Exception):
    """Base of every error the registry raises on purpose."""


class ModelNotFound(RegistryError):
    """No model answers to the name; the text is Ollama's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"model '{name}' not found")
        self.name = name


class ModelRefused(RegistryError):
    """The model is known and is not used: its record is broken, was edited, or says something else than it did."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"model '{name}' is refused: {reason}")
        self.name = name
        self.reason = reason


class ModelFileMissing(RegistryError):
    """The model is known, and the file of its weights is not on this machine."""

    def __init__(self, name: str, path: Path) -> None:
        self.reason = f"there is no '{path}' on this machine"
        super().__init__(f"model '{name}' not found: {self.reason}")
        self.name = name
        self.path = path


class ModelFileError(RegistryError):
    """The file is missing or cannot be read."""

    _what = "model file"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {self._what} '{path}': {reason}")
        self.path = path
        self.reason = reason


class ModelDirectoryError(ModelFileError):
    """The directory of a model is missing, or is none."""

    _what = "directory"


class ModelFileChanged(RegistryError):
    """The file is not the one that was verified any more."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"model file '{path}' has changed since it was verified")
        self.path = path


class ForkFileError(RegistryError):
    """A FORK.json is missing or unreadable, or cannot be written."""

    def __init__(self, path: Path, reason: str, *, verb: str = "read") -> None:
        super().__init__(f"cannot {verb} {path}: {reason}")
        self.path = path
        self.reason = reason


class NotPinned(RegistryError):
    """No FORK.json says which bytes the file must have."""

    def __init__(self, file_name: str, reason: str) -> None:
        super().__init__(f"{file_name} is not pinned: {reason}")
        self.file_name = file_name
        self.reason = reason


class PinMismatch(RegistryError):
    """The file has other bytes than those pinned for it."""

    def __init__(self, file_name: str, found: str, pinned: str, where: str = "") -> None:
        super().__init__(f"{file_name} has sha256 {found}, but {pinned} is pinned{where and f' {where}'}")
        self.file_name = file_name
        self.found = found
        self.pinned = pinned


class FirstUseMismatch(RegistryError):
    """The file has other bytes than when it was first served."""

    def __init__(self, path: Path, found: str, recorded: str, record: Path) -> None:
        super().__init__(
            f"model file '{path}' is not the one that was first served: its sha256 is {found}, not {recorded}; if it "
            f"is the one you want, remove {record} or pin the file with bankml pin --write"
        )
        self.path = path
        self.record = record


class GuardRefused(RegistryError):
    """The header guard does not let a file through.

    Args:
        reasons: why.
        needed: bytes the file must have at the least, when it is only cut short.
    """

    def __init__(self, reasons: tuple[str, ...], needed: int | None = None) -> None:
        cut = f"guard needs {needed} bytes: file truncated"
        super().__init__(f"guard refused: {'; '.join(reasons)}" if needed is None else cut)
        self.reasons = reasons
        self.needed = needed


class DownloadError(RegistryError):
    """The model could not be fetched: no network, no such file at the index, no space."""


class HashMismatch(DownloadError):
    """What was fetched is not what is pinned; nothing of it is kept."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what} is not the pinned file: sha256 {found[:16]}..., expected {expected[:16]}...")
        self.expected = expected
        self.found = found


class CreateRefused(RegistryError):
    """A model that cannot be made as it was asked for; the message says why."""


class ConversionRefused(RegistryError):
    """A directory of weights is not converted: it is damaged, or llama.cpp would write what is not reproduced here.

    Args:
        message: why; what it quotes of the files may be of any length.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConversionFailed(RegistryError):
    """The converted file could not be written; nothing of it is left.

    Args:
        path: where it was to be.
        reason: what the system said.
    """

    def __init__(self, path: Path, reason: OSError) -> None:
        if reason.errno in (errno.ENOSPC, errno.EDQUOT):
            super().__init__(f"no space left in {path.parent} for {path.name}")
        else:
            super().__init__(f"cannot write '{path}': {reason.strerror or reason}")
        self.path = path
        self.reason = reason
