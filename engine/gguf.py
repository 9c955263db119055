"""GGUF version 3: the header as Python values, the tensors as views of a memory map.

The layout and every refusal follow ggml's reader (`ggml/src/gguf.cpp`, build b11192), except that only version 3 is
read, and that text must be UTF-8, as the format demands. A file is checked whole before anything is handed out: after
`GGUFFile.open` returns, every tensor lies inside the map. `read_header` is for whoever wants no more than the header.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidModelFile, ModelFileLost, TruncatedModelFile
from engine.ggml_types import GGMLType
from engine.kernels import FileMap

__all__ = ["GGMLType", "GGUFFile", "GGUFHeader", "TensorInfo", "read_header"]

MAGIC: Final = b"GGUF"
VERSION: Final = 3
DEFAULT_ALIGNMENT: Final = 32
MAX_DIMS: Final = 4
MAX_NAME: Final = 64  # ggml's GGML_MAX_NAME, its final NUL included

# Bounds of our own, far above any real file: they keep the Python objects of a hostile header small beside the file.
_MAX_KEYS: Final = 1 << 16
_MAX_TENSORS: Final = 1 << 18
_MAX_STRINGS: Final = 1 << 24
_MAX_LENGTH: Final = 1 << 30  # ggml's own bound: bytes of a string, entries of an array
_STRING_WINDOW: Final = 24  # bytes a string of a vocabulary takes at most on average, its length included

_FORK_TYPES: Final = {142: "PQ2_0", 143: "PTQ1_0"}

_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
# metadata value type -> numpy dtype (little-endian, as the file is)
_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    _BOOL: np.dtype("<u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies and what it is.

    Attributes:
        name: the tensor's name.
        shape: extents in ggml's order, the contiguous one first; as many as the file states (0 to 4).
        type: storage type.
        offset: bytes from the start of the file.
        nbytes: bytes of data.
    """

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """What a file says before its first weight.

    Attributes:
        file_name: the file's name.
        metadata: key -> `int`, `float`, `bool`, `str`, `list[str]`, or for numeric arrays a numpy array (1-D).
        tensors: name -> `TensorInfo`, in file order.
        alignment: bytes to which tensors are aligned.
        size: bytes of the file.
        needed: bytes it must have for its last tensor to be whole.
    """

    file_name: str
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    alignment: int
    size: int
    needed: int

    def check_whole(self) -> None:
        """That every tensor lies inside the file.

        Raises:
            TruncatedModelFile: one does not.
        """
        for info in self.tensors.values():
            end = info.offset + info.nbytes
            if end > self.size:
                raise TruncatedModelFile(
                    f"the tensor {info.name!r} ends at byte {end} of {self.size}: the file is cut short", self.needed
                )


def read_header(path: str | os.PathLike[str]) -> GGUFHeader:
    """The header of a file; what comes after it is not looked at and may be missing.

    Raises:
        TruncatedModelFile: the header itself is not all there.
        InvalidModelFile: the file is missing, unreadable, or does not begin as a GGUF version 3 file.
    """
    path = Path(path)
    return _header_of(path, _map_file(path)[0])


def _header_of(path: Path, file_map: FileMap, *, whole: bool = False) -> GGUFHeader:
    problem: InvalidModelFile | None = None
    try:
        header = _Reader(path.name, file_map.bytes).header
        if whole:
            header.check_whole()
    except TruncatedModelFile as error:
        problem = TruncatedModelFile(f"{path}: {error}", error.needed)
    except InvalidModelFile as error:
        problem = InvalidModelFile(f"{path}: {error}")
    if not file_map.intact:
        raise ModelFileLost(path)
    if problem is not None:
        raise problem
    return header


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
        return cls(path, file_map, stat, _header_of(path, file_map, whole=True))

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


class _Reader:
    """Reads the header once, front to back; `header` is its result."""

    def __init__(self, file_name: str, data: npt.NDArray[np.uint8]) -> None:
        self._data = data
        self._view: memoryview = data.data
        self._size = data.size
        self._at = 0
        start = bytes(self._view[:4])
        if start != MAGIC[: self._size]:
            raise InvalidModelFile(f"not a GGUF file (it starts with {start!r})")
        self._take(4, "the magic")
        version = self._u32("the version")
        if version & 0xFFFF == 0 and version:
            raise InvalidModelFile("the file is big-endian")
        if version != VERSION:
            raise InvalidModelFile(f"GGUF version {version} is not supported (only {VERSION} is)")
        n_tensors = self._u64("the number of tensors")
        n_keys = self._u64("the number of keys")
        if n_tensors > _MAX_TENSORS:
            raise InvalidModelFile(f"{n_tensors} tensors are more than the {_MAX_TENSORS} allowed")
        if n_keys > _MAX_KEYS:
            raise InvalidModelFile(f"{n_keys} keys are more than the {_MAX_KEYS} allowed")
        self.metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            self._read_key()
        alignment = self._read_alignment()
        tensors = self._place(self._read_tensors(n_tensors), alignment)
        needed = max((info.offset + info.nbytes for info in tensors.values()), default=self._at)
        self.header = GGUFHeader(file_name, self.metadata, tensors, alignment, self._size, needed)

    # --- scalars ---

    def _take(self, count: int, what: str) -> int:
        """Move past `count` bytes and return where they start."""
        start = self._at
        if count > self._size - start:
            raise TruncatedModelFile(
                f"the file is cut short: {what} at byte {start} needs {count} bytes", start + count
            )
        self._at = start + count
        return start

    def _u32(self, what: str) -> int:
        value: int = _U32(self._view, self._take(4, what))[0]
        return value

    def _u64(self, what: str) -> int:
        value: int = _U64(self._view, self._take(8, what))[0]
        return value

    def _string(self, what: str) -> str:
        length = self._u64(what)
        if length > _MAX_LENGTH:
            raise InvalidModelFile(f"{what} claims {length} bytes, more than the {_MAX_LENGTH} allowed")
        start = self._take(length, what)
        try:
            return str(self._view[start : start + length], "utf-8")
        except UnicodeDecodeError:
            raise InvalidModelFile(f"{what} at byte {start} is not UTF-8") from None

    # --- metadata ---

    def _read_key(self) -> None:
        key = self._string("a key")
        if not key:
            raise InvalidModelFile("a key is empty")
        if key in self.metadata:
            raise InvalidModelFile(f"the key {key!r} stands twice")
        what = f"the value of {key!r}"
        kind = self._u32(what)
        if kind == _ARRAY:
            self.metadata[key] = self._array(what)
        elif kind == _STRING:
            self.metadata[key] = self._string(what)
        else:
            self.metadata[key] = self._numbers(kind, 1, what)[0].item()

    def _array(self, what: str) -> list[str] | npt.NDArray[Any]:
        kind = self._u32(what)
        count = self._u64(what)
        if kind == _ARRAY:
            raise InvalidModelFile(f"{what} is an array of arrays")
        if count > (_MAX_STRINGS if kind == _STRING else _MAX_LENGTH):
            raise InvalidModelFile(f"{what} claims {count} entries, more than are allowed")
        return self._strings(count, what) if kind == _STRING else self._numbers(kind, count, what)

    def _numbers(self, kind: int, count: int, what: str) -> npt.NDArray[Any]:
        dtype = _DTYPES.get(kind)
        if dtype is None:
            raise InvalidModelFile(f"{what} has the unknown type {kind}")
        start = self._take(count * dtype.itemsize, what)
        # A copy, so that metadata does not hold the map open.
        values = np.frombuffer(bytes(self._view[start : self._at]), dtype=dtype)
        return values != 0 if kind == _BOOL else values

    def _strings(self, count: int, what: str) -> list[str]:
        """An array of strings without Python work per character and little per string.

        With each length word cut down to one NUL the array is a text that decodes and splits in one call.
        """
        if count > (self._size - self._at) // 8:
            raise TruncatedModelFile(f"the file is cut short: {what} claims {count} strings", self._at + 8 * count)
        if count == 0:
            return []
        start = self._at
        guess = self._guess_heads(count)
        heads = self._walk_heads(count, what) if guess is None else guess
        region = self._data[start : self._at].copy()
        if guess is None:
            region[heads[:, None] + np.arange(1, 8)] = 0
            region[heads] = 1
        text = region[region != 0]
        try:
            if text.size + 7 * count == region.size:
                text[heads - 7 * np.arange(count)] = 0
                strings: list[str] = text.tobytes().decode().split("\0")
                return strings[1:]
            # A string holds a NUL itself.
            ends = [*heads[1:], region.size]
            return [region[head + 8 : end].tobytes().decode() for head, end in zip(heads, ends, strict=True)]
        except UnicodeDecodeError:
            raise InvalidModelFile(f"{what} is not UTF-8") from None

    def _guess_heads(self, count: int) -> npt.NDArray[np.int64] | None:
        """Where the length words of an array of short strings stand, from here; None if the array is of another kind.

        A length below 256 is one byte and seven zeros, and text has no zeros: so it is each byte before a gap of seven
        zeros. The guess is checked against the lengths it found, so it is right or None.
        """
        window = self._data[self._at : self._at + count * _STRING_WINDOW + 4096]
        filled = np.flatnonzero(window)
        heads: npt.NDArray[np.int64] = filled[:-1][filled[1:] - filled[:-1] == 8][:count]
        if heads.size < count or heads[0] != 0:
            return None
        ends = heads + 8 + window[heads]
        if ends[-1] > window.size or not np.array_equal(heads[1:], ends[:-1]):
            return None
        self._at += int(ends[-1])
        return heads

    def _walk_heads(self, count: int, what: str) -> npt.NDArray[np.int64]:
        """As `_guess_heads`, string by string, for any array."""
        start = at = self._at
        heads = array("q")
        append, unpack, view, last = heads.append, _U64, self._view, self._size - 8
        for _ in range(count):
            if at > last:
                raise TruncatedModelFile(f"the file is cut short inside {what}", at + 8)
            append(at)
            at += 8 + unpack(view, at)[0]
        self._take(at - start, what)
        return np.frombuffer(heads, dtype=np.int64) - start

    def _read_alignment(self) -> int:
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            raise InvalidModelFile(f"the alignment {alignment!r} is not a power of two")
        if alignment > 1 << 32:
            raise InvalidModelFile(f"the alignment {alignment} is too large")
        if alignment < DEFAULT_ALIGNMENT:  # the kernels' loads want it, and so do the reference's
            raise InvalidModelFile(f"the alignment {alignment} is less than {DEFAULT_ALIGNMENT}")
        return alignment

    # --- tensors ---

    def _read_tensors(self, count: int) -> dict[str, tuple[tuple[int, ...], GGMLType, int]]:
        """name -> (shape, type, offset from the start of the data)."""
        found: dict[str, tuple[tuple[int, ...], GGMLType, int]] = {}
        for index in range(count):
            name = self._string(f"the name of tensor {index}")
            if len(name.encode()) >= MAX_NAME:
                raise InvalidModelFile(f"the name of tensor {index} is longer than {MAX_NAME - 1} bytes")
            if name in found:
                raise InvalidModelFile(f"the tensor {name!r} stands twice")
            what = f"the tensor {name!r}"
            n_dims = self._u32(what)
            if n_dims > MAX_DIMS:
                raise InvalidModelFile(f"{what} has {n_dims} dimensions, more than {MAX_DIMS}")
            shape = tuple(self._u64(what) for _ in range(n_dims))
            kind = self._u32(what)
            try:
                ggml_type = GGMLType(kind)
            except ValueError:
                fork = f": {_FORK_TYPES[kind]} of PrismML's fork" if kind in _FORK_TYPES else ""
                raise InvalidModelFile(f"{what} has the unknown type {kind}{fork}") from None
            if prod(shape) >= 1 << 62 or any(extent >= 1 << 62 for extent in shape):
                raise InvalidModelFile(f"{what} has the impossible shape {shape}")
            if (shape[0] if shape else 1) % ggml_type.block_size:
                raise InvalidModelFile(
                    f"{what} has rows of {shape[0] if shape else 1} elements, no multiple of {ggml_type.name}'s "
                    f"block of {ggml_type.block_size}"
                )
            found[name] = (shape, ggml_type, self._u64(what))
        return found

    def _place(self, found: dict[str, tuple[tuple[int, ...], GGMLType, int]], alignment: int) -> dict[str, TensorInfo]:
        """Tensors stand one after the other, each padded to the alignment; anything else lies."""
        base = _pad(self._at, alignment)
        expected, before = 0, None
        tensors: dict[str, TensorInfo] = {}
        for name, (shape, kind, offset) in found.items():
            if offset != expected:
                groups = ": Q2_0 has groups of 64, not PrismML's older ones of 128" if before is GGMLType.Q2_0 else ""
                raise InvalidModelFile(f"the tensor {name!r} has the offset {offset}, expected {expected}{groups}")
            nbytes = prod(shape) // kind.block_size * kind.block_bytes
            tensors[name] = TensorInfo(name, shape, kind, base + offset, nbytes)
            expected += _pad(nbytes, alignment)
            before = kind
        return tensors


def _pad(value: int, alignment: int) -> int:
    return (value + alignment - 1) & -alignment


_U32: Final[Callable[[memoryview, int], tuple[int]]] = struct.Struct("<I").unpack_from
_U64: Final[Callable[[memoryview, int], tuple[int]]] = struct.Struct("<Q").unpack_from
