"""A file that is fetched in parts: bytes at their places, and behind the last of them a record of what is there.

The record is part of the file, so that a process that is killed leaves one thing, which says itself how far it is.
Whoever writes the file holds its lock; the system drops that with the process, however it ends. Once all is there the
record is cut off, and the file is what it will be under its own name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MEGABYTE: Final = 1_000_000
N_PARTS: Final = 16
"""Parts of a file, where `SMALLEST_PART` and `LARGEST_PART` allow it; as Ollama cuts its downloads."""
SMALLEST_PART: Final = 100 * MEGABYTE
LARGEST_PART: Final = 1000 * MEGABYTE

_MOST_PARTS: Final = 1024
_MAGIC: Final = b"bkparts1"
_HEAD: Final = struct.Struct("<8sIIQ")  # magic, CRC-32 of what follows it, number of parts, bytes of the file
_PART: Final = struct.Struct("<QQQ")  # offset, size, done
_LONGEST_RECORD: Final = _HEAD.size + _MOST_PARTS * _PART.size
_LARGEST: Final = (1 << 63) - _LONGEST_RECORD - (1 << 13)  # bytes of a file whose record still has a place
_PAGE: Final = 4096  # a record that does not cross a page is written whole or not at all when the process is killed


@dataclass(slots=True)
class Part:
    """A run of a file's bytes.

    Args:
        offset: of its first byte.
        size: how many.
        done: how many of them are there, from the first on.
    """

    offset: int
    size: int
    done: int = 0

    @property
    def start(self) -> int:
        """Where the next byte goes."""
        return self.offset + self.done

    @property
    def end(self) -> int:
        """Behind its last byte."""
        return self.offset + self.size


def parts_of(size: int, smallest: int = SMALLEST_PART) -> list[Part]:
    """How a file of `size` bytes is cut: in 16, none below `smallest` bytes and none above 1000 MB.

    A size that a lying registry gives makes 1024 parts at the most.
    """
    step = max(min(max(size // N_PARTS, smallest), LARGEST_PART), -(-size // _MOST_PARTS))
    return [Part(offset, min(step, size - offset)) for offset in range(0, size, step)]


class PartialFile:
    """The file under way, with its lock held. A context manager that lets go of it.

    Args:
        path: where it lies.
        descriptor: it, open and locked.
        size: bytes it will have.
        smallest_part: bytes of a part at the least.
    """

    def __init__(self, path: Path, descriptor: int, size: int, smallest_part: int) -> None:
        self.path = path
        self.size = size
        self._descriptor = descriptor
        self._smallest = smallest_part
        self._lock = threading.Lock()  # a write that was begun in another thread may outlive the task that asked for it
        self.parts = self._left() or parts_of(size, smallest_part)
        self.resumed = self.completed > 0

    @classmethod
    def open(cls, path: Path, size: int, *, smallest_part: int = SMALLEST_PART) -> PartialFile | None:
        """Takes the file's lock, and goes on where an earlier run stopped; None while another has the lock.

        Raises:
            OSError: the file cannot be made or written; no disk has room for one of that size.
        """
        if size > _LARGEST:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(descriptor, path):  # not renamed or removed by who had the lock before
                    return cls(path, descriptor, size, smallest_part)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    @property
    def completed(self) -> int:
        """Bytes that are there."""
        return sum(part.done for part in self.parts)

    def write(self, part: Part, data: bytes | bytearray) -> None:
        """Adds bytes to a part; what would go beyond its end is dropped.

        Raises:
            OSError: the disk does not take them; what it took counts.
        """
        view = memoryview(data)[: part.size - part.done]
        with self._lock:
            if self._descriptor < 0:
                return  # let go of meanwhile: whoever has it now fetches these bytes again
            try:
                while view:
                    n_bytes = os.pwrite(self._descriptor, view, part.start)
                    part.done += n_bytes
                    view = view[n_bytes:]
            finally:
                self._record()

    def beginning(self, n_bytes: int) -> bytes | None:
        """The file's first bytes; None where the first part has not come so far.

        Raises:
            OSError: they cannot be read.
        """
        with self._lock:
            first = self.parts[0] if self.parts else Part(0, 0)
            if self._descriptor < 0 or first.done < n_bytes:
                return None
            return os.pread(self._descriptor, n_bytes, 0)

    def restart(self, *, whole: bool = False) -> None:
        """Forgets what is there; with `whole` the file is one part from now on."""
        with self._lock:
            self.parts = [Part(0, self.size)] if whole and self.size else parts_of(self.size, self._smallest)
            self.resumed = False
            os.ftruncate(self._descriptor, 0)

    def finish(self) -> None:
        """Cuts the record off, and waits until the disk has the rest. All bytes must be there.

        The disk may take long: who closes the file meanwhile does not wait, and nobody else has its lock until then.
        """
        if self.completed != self.size:
            raise ValueError(f"{self.path} has {self.completed} of {self.size} bytes")
        with self._lock:
            os.ftruncate(self._descriptor, self.size)
            descriptor = os.dup(self._descriptor)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Removes the file."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Lets go of the file and its lock; what is there stays."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _place(self) -> int:
        """Where the record lies: behind the file's bytes, at the beginning of a page."""
        return -(-self.size // _PAGE) * _PAGE

    def _record(self) -> None:
        body = b"".join(_PART.pack(part.offset, part.size, part.done) for part in self.parts)
        checksum = zlib.crc32(struct.pack("<IQ", len(self.parts), self.size) + body)
        os.pwrite(self._descriptor, _HEAD.pack(_MAGIC, checksum, len(self.parts), self.size) + body, self._place)

    def _left(self) -> list[Part] | None:
        """The parts that an earlier run left; None where it left nothing that fits."""
        length = os.fstat(self._descriptor).st_size
        if length == self.size > 0:
            return [Part(0, self.size, self.size)]  # its record was cut off: it was whole
        size, parts = _recorded(os.pread(self._descriptor, _LONGEST_RECORD, self._place)) or (0, [])
        return parts if size == self.size and parts else None


def arrived(path: Path) -> int:
    """Bytes that are there of a file under way, whoever writes it; of a file without a record, all that it has.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        # The record ends the file and begins a page: where that is follows from how many parts it tells of.
        for n_parts in range(1, _MOST_PARTS + 1):
            place = length - _HEAD.size - n_parts * _PART.size
            if place > 0 and place % _PAGE == 0:
                recorded = _recorded(os.pread(file.fileno(), _LONGEST_RECORD, place))
                if recorded is not None:
                    return sum(part.done for part in recorded[1])
    return length


def _recorded(data: bytes) -> tuple[int, list[Part]] | None:
    """The size of the file and its parts, out of a record; None where the bytes are none."""
    if len(data) < _HEAD.size:
        return None
    magic, checksum, n_parts, size = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if (magic, len(body)) != (_MAGIC, n_parts * _PART.size):
        return None
    if checksum != zlib.crc32(struct.pack("<IQ", n_parts, size) + body):
        return None
    return size, [Part(*values) for values in _PART.iter_unpack(body)]


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to the file that is open."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
