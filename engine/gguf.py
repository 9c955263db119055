"""GGUF version 3: the header as Python values, the tensors as views of a memory map.

How a header is read is in `engine/gguf_header.py`. A file is checked whole before anything is handed out: after
`GGUFFile.open` returns, every tensor lies inside the map. `read_header` is for whoever wants no more than the header,
`scan` for whoever wants to know what one says that contradicts itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidModelFile, ModelFileLost, TruncatedModelFile
from engine.ggml_types import GGMLType
from engine.gguf_header import VERSION, GGUFHeader, HeaderReader, TensorInfo, TensorRecord
from engine.kernels import FileMap

__all__ = [
    "VERSION",
    "GGMLType",
    "GGUFFile",
    "GGUFHeader",
    "HeaderScan",
    "TensorInfo",
    "TensorRecord",
    "read_header",
    "scan",
]


@dataclass(frozen=True, slots=True)
class HeaderScan:
    """A header that was followed to its end, whatever it says.

    Attributes:
        values: key -> `int`, `float`, `bool` or `str`; None for an array.
        records: what is said of each tensor, in file order.
        alignment: bytes to which tensors are aligned.
        data_start: bytes of the file before its data.
        size: bytes of the file.
    """

    values: dict[str, Any]
    records: list[TensorRecord]
    alignment: int
    data_start: int
    size: int
    _path: Path
    _reader: HeaderReader
    _map: FileMap

    def header(self) -> GGUFHeader:
        """What the header says, all of it.

        Raises:
            InvalidModelFile: it contradicts itself.
            ModelFileLost: the file was written to meanwhile.
        """
        with _explained(self._path, self._map):
            return self._reader.header()


def scan(path: str | os.PathLike[str]) -> HeaderScan:
    """Follows a header to its end; what comes after it is not looked at and may be missing.

    Raises:
        TruncatedModelFile: the header itself is not all there.
        InvalidModelFile: the file is missing, unreadable, or its header cannot be followed.
        ModelFileLost: the file was written to meanwhile.
    """
    path = Path(path)
    return _scan_of(path, _map_file(path)[0])


def read_header(path: str | os.PathLike[str]) -> GGUFHeader:
    """The header of a file; what comes after it is not looked at and may be missing.

    Raises:
        TruncatedModelFile: the header itself is not all there.
        InvalidModelFile: the file is missing, unreadable, or does not begin as a GGUF version 3 file.
    """
    return scan(path).header()


def _scan_of(path: Path, file_map: FileMap) -> HeaderScan:
    with _explained(path, file_map):
        reader = HeaderReader(path.name, file_map.bytes)
    return HeaderScan(
        reader.values, reader.records, reader.alignment, reader.data_start, reader.size, path, reader, file_map
    )


@contextmanager
def _explained(path: Path, file_map: FileMap) -> Iterator[None]:
    """Refusals name the file; what was read of a file that changed meanwhile is no refusal, and nothing else either."""
    try:
        yield
    except InvalidModelFile as error:
        if not file_map.intact:
            raise ModelFileLost(path) from None
        message = f"{path}: {error}"
        if isinstance(error, TruncatedModelFile):
            raise TruncatedModelFile(message, error.needed) from None
        raise InvalidModelFile(message) from None
    if not file_map.intact:
        raise ModelFileLost(path)


class GGUFFile:
    """An open GGUF file.

    Attributes:
        path: the file.
        header: what it says of itself.
        metadata, tensors, size: the header's.
        stat: of the file that is mapped, taken before it was.
    """

    def __init__(self, path: Path, file_map: FileMap, stat: os.stat_result, header: GGUFHeader) -> None:
        self.path = path
        self.stat = stat
        self.header = header
        self.metadata = header.metadata
        self.tensors = header.tensors
        self.size = header.size
        self._map: FileMap | None = file_map
        self._bytes = file_map.bytes

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> GGUFFile:
        """Map a file and read its header.

        Raises:
            TruncatedModelFile: the file is cut short.
            InvalidModelFile: it is missing, unreadable, or not a well-formed GGUF version 3 file.
            ModelFileLost: it was written to meanwhile.
        """
        path = Path(path)
        file_map, stat = _map_file(path)
        header = _scan_of(path, file_map).header()
        with _explained(path, file_map):
            header.check_whole()
        return cls(path, file_map, stat, header)

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor: a read-only uint8 view of the map, shape (nbytes,), no copy.

        Raises:
            KeyError: there is no such tensor.
        """
        info = self.tensors[name]
        return self._bytes[info.offset : info.offset + info.nbytes]

    def check_intact(self) -> None:
        """That all that was read of the map so far was the file's: it was neither cut nor written to since `open`.

        Raises:
            ModelFileLost: it was; what was computed with it is worth nothing.
        """
        if self._map is not None and not self._map.intact:
            raise ModelFileLost(self.path)

    def release(self) -> None:
        """Give the map's pages back to the system; they are read again when they are used again."""
        if self._map is not None:
            self._map.release()

    def close(self) -> None:
        """Release the map. Views handed out by `data` keep it alive until they are gone; they stay valid."""
        self._bytes = np.empty(0, dtype=np.uint8)
        self._map = None

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _map_file(path: Path) -> tuple[FileMap, os.stat_result]:
    """Map a regular file read-only; anything else is an InvalidModelFile."""
    try:
        # Not blocking: opening a pipe would wait for whoever writes to it, and only then be refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            stat = os.fstat(descriptor)
            if not S_ISREG(stat.st_mode):
                raise InvalidModelFile(f"{path}: not a regular file")
            if stat.st_size == 0:  # cannot be mapped
                raise InvalidModelFile(f"{path}: not a GGUF file (it is empty)")
            return FileMap(descriptor), stat
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidModelFile(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the path
        raise InvalidModelFile(f"{path}: {error}") from None
