"""Blobs of the folder of models: digests as they are written, and a blob that is written piece by piece."""

from __future__ import annotations

import fcntl
import hashlib
import re
import secrets
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from registry.errors import RegistryError

if TYPE_CHECKING:
    from registry.folder import ModelFolder

UPLOAD: Final = "upload-"
"""How the names of blobs under way begin."""
_DIGEST: Final = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")


class InvalidDigest(RegistryError):
    """A text that is no SHA-256 digest; the message is Ollama's."""

    def __init__(self, text: str) -> None:
        super().__init__("invalid digest format")
        self.text = text


class DigestMismatch(RegistryError):
    """A blob's bytes are not those of its digest; nothing of it is kept. The message is Ollama's."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f'digest mismatch, expected "sha256:{expected}", got "sha256:{found}"')
        self.expected = expected
        self.found = found


def hex_of(digest: str) -> str:
    """The 64 lower-case digits of `sha256:HEX`, `sha256-HEX` or `HEX`.

    Raises:
        InvalidDigest: it is none of them.
    """
    if (match := _DIGEST.fullmatch(digest)) is None:
        raise InvalidDigest(digest)
    return match[1].lower()


class BlobWriter:
    """A blob under way: hashed while it is written, in `partial/` until it is whole.

    As a context manager it removes what was not committed.

    Args:
        folder: where it goes.
        sha256: what it must be, 64 lower-case hexadecimal digits.
    """

    def __init__(self, folder: ModelFolder, sha256: str) -> None:
        self._folder = folder
        self._expected = sha256
        self._sha256 = hashlib.sha256()
        self._part = folder.partial_path(f"{UPLOAD}{sha256[:16]}-{secrets.token_hex(8)}")
        with folder.locked():  # so that no sweep comes between the two lines
            try:
                self._file = open(self._part, "xb", buffering=0)  # noqa: SIM115 - closed by `close`
            except OSError as error:
                raise folder.error(error) from error
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def fileno(self) -> int:
        """The descriptor of the file under way."""
        return self._file.fileno()

    def write(self, piece: bytes) -> None:
        """Adds bytes.

        Raises:
            FolderError: the disk is full, or does not take them.
        """
        view = memoryview(piece)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise self._folder.error(error) from error
        self._sha256.update(piece)

    def commit(self) -> Path:
        """Checks the digest, and makes it a blob.

        Raises:
            DigestMismatch: the bytes are others.
            FolderError: it cannot be synced or renamed.
        """
        if (found := self._sha256.hexdigest()) != self._expected:
            raise DigestMismatch(self._expected, found)
        return self._folder.adopt_blob(self._part, self._expected)

    def close(self) -> None:
        """Ends the writing; what was not committed is removed."""
        self._part.unlink(missing_ok=True)
        self._file.close()

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
