"""A GGUF version 3 header, from bytes to Python values: first where everything stands, then what it says.

The layout and every refusal follow ggml's reader (`ggml/src/gguf.cpp`, build b11192), except that only version 3 is
read, and that text must be UTF-8, as the format demands. Reading has two steps, so that a header that lies is known
before any of its long arrays is decoded: `HeaderReader` walks it; its `header` places the tensors, then decodes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidModelFile, TruncatedModelFile
from engine.ggml_types import GGMLType
from engine.kernels import decoded_strings, skip_strings

MAGIC: Final = b"GGUF"
VERSION: Final = 3
DEFAULT_ALIGNMENT: Final = 32
MAX_DIMS: Final = 4
MAX_NAME: Final = 64  # ggml's GGML_MAX_NAME, its final NUL included
FORK_TYPES: Final = {142: "PQ2_0", 143: "PTQ1_0"}
"""Types of PrismML's fork, which llama.cpp does not have."""

# Bounds of our own, far above any real file: they keep the time and memory that a hostile header takes small.
_MAX_HEADER: Final = 1 << 26  # bytes
_MAX_KEYS: Final = 1 << 12
_MAX_TENSORS: Final = 1 << 13
_MAX_STRINGS: Final = 1 << 20  # in all arrays together

_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
_FLOAT32: Final = 6
# metadata value type -> numpy dtype (little-endian, as the file is)
_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    _FLOAT32: np.dtype("<f4"),
    _BOOL: np.dtype("<u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_TYPES: Final = {int(kind): kind for kind in GGMLType}

_U32: Final[Callable[[memoryview, int], tuple[int]]] = struct.Struct("<I").unpack_from
_U64: Final[Callable[[memoryview, int], tuple[int]]] = struct.Struct("<Q").unpack_from
# by the number of dimensions: the extents, the type, the offset
_TENSORS: Final = [struct.Struct(f"<{n_dims}QIQ") for n_dims in range(MAX_DIMS + 1)]


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


class TensorRecord(NamedTuple):
    """What the header says of one tensor, unchecked.

    Attributes:
        name: the tensor's name.
        shape: extents in ggml's order, as many as stated.
        type: the number of its type, which may be none.
        offset: bytes from the start of the data.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


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
        singles: the keys whose value is a 32-bit float.
    """

    file_name: str
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    alignment: int
    size: int
    needed: int
    singles: frozenset[str] = frozenset()

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


class HeaderReader:
    """Walks a header once, front to back.

    Args:
        file_name: for the header.
        data: the file's bytes; uint8, shape (size,).

    Attributes:
        values: key -> what it says; None for an array.
        records: what is said of each tensor, in file order.
        alignment: bytes to which tensors are aligned.
        data_start: where the data begins.
        size: bytes of the file.

    Raises (from the constructor):
        TruncatedModelFile: the header is not all there.
        InvalidModelFile: it does not begin as a GGUF version 3 file, or cannot be followed to its end.
    """

    def __init__(self, file_name: str, data: npt.NDArray[np.uint8]) -> None:
        self._file_name = file_name
        self._data = data
        self._view: memoryview = data.data
        self.size = data.size
        self._at = 0
        self._n_strings = 0
        start = bytes(self._view[:4])
        if start != MAGIC[: self.size]:
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
        self.values: dict[str, Any] = {}
        self._singles: set[str] = set()
        # key -> how to decode its array; None where the key has a value
        self._order: dict[str, Callable[[], list[str] | npt.NDArray[Any]] | None] = {}
        for _ in range(n_keys):
            self._read_key()
        self.alignment = self._read_alignment()
        self.records = self._read_tensors(n_tensors)
        self.data_start = _pad(self._at, self.alignment)

    def header(self) -> GGUFHeader:
        """What the header says. The bytes may go afterwards: nothing in it refers to them.

        Raises:
            InvalidModelFile: a tensor has an impossible type, shape or place, or a text is not UTF-8.
        """
        tensors = self._place()
        needed = max((info.offset + info.nbytes for info in tensors.values()), default=self._at)
        metadata = {key: self.values[key] if decode is None else decode() for key, decode in self._order.items()}
        singles = frozenset(self._singles)
        return GGUFHeader(self._file_name, metadata, tensors, self.alignment, self.size, needed, singles)

    # --- scalars ---

    def _take(self, count: int, what: str) -> int:
        """Move past `count` bytes and return where they start."""
        start = self._at
        end = start + count
        if end > _MAX_HEADER:
            raise InvalidModelFile(
                f"{what} claims {count} bytes at byte {start}: more than the {_MAX_HEADER} a header may have"
            )
        if end > self.size:
            raise TruncatedModelFile(f"the file is cut short: {what} at byte {start} needs {count} bytes", end)
        self._at = end
        return start

    def _u32(self, what: str) -> int:
        value: int = _U32(self._view, self._take(4, what))[0]
        return value

    def _u64(self, what: str) -> int:
        value: int = _U64(self._view, self._take(8, what))[0]
        return value

    def _string(self, what: str) -> str:
        length = self._u64(what)
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
        if key in self._order:
            raise InvalidModelFile(f"the key {key!r} stands twice")
        what = f"the value of {key!r}"
        kind = self._u32(what)
        if kind == _ARRAY:
            self._order[key] = self._array(what)
            self.values[key] = None
            return
        self._order[key] = None
        if kind == _FLOAT32:
            self._singles.add(key)
        self.values[key] = self._string(what) if kind == _STRING else self._numbers(kind, 1, what)()[0].item()

    def _array(self, what: str) -> Callable[[], list[str] | npt.NDArray[Any]]:
        kind = self._u32(what)
        count = self._u64(what)
        if kind == _ARRAY:
            raise InvalidModelFile(f"{what} is an array of arrays")
        return self._strings(count, what) if kind == _STRING else self._numbers(kind, count, what)

    def _numbers(self, kind: int, count: int, what: str) -> Callable[[], npt.NDArray[Any]]:
        dtype = _DTYPES.get(kind)
        if dtype is None:
            raise InvalidModelFile(f"{what} has the unknown type {kind}")
        start = self._take(count * dtype.itemsize, what)
        view, end = self._view, self._at  # a decoder that held the reader would be a cycle, and hold the map with it

        def decode() -> npt.NDArray[Any]:
            # A copy, so that metadata does not hold the map open.
            values = np.frombuffer(bytes(view[start:end]), dtype=dtype)
            return values != 0 if kind == _BOOL else values

        return decode

    def _strings(self, count: int, what: str) -> Callable[[], list[str]]:
        """Moves past an array of strings; nothing in Python is done for each."""
        self._n_strings += count
        if self._n_strings > _MAX_STRINGS:
            raise InvalidModelFile(f"{what} claims {count} strings; more than {_MAX_STRINGS} in all are not allowed")
        start = self._at
        self._take(8 * count, what)  # so many at the least
        n_whole, n_bytes = skip_strings(self._data[start:_MAX_HEADER], count)
        self._at = start + n_bytes
        if n_whole < count:
            self._take(self._u64(what), what)
        strings = self._data[start : self._at]

        def decode() -> list[str]:
            try:
                texts = decoded_strings(strings)
            except UnicodeDecodeError:
                raise InvalidModelFile(f"{what} is not UTF-8") from None
            if len(texts) != count:
                raise InvalidModelFile(f"{what} has changed")
            return texts

        return decode

    def _read_alignment(self) -> int:
        alignment = self.values.get("general.alignment", DEFAULT_ALIGNMENT)
        if alignment is None:
            raise InvalidModelFile("the alignment is an array, not a power of two")
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            raise InvalidModelFile(f"the alignment {alignment!r} is not a power of two")
        if alignment > 1 << 32:
            raise InvalidModelFile(f"the alignment {alignment} is too large")
        if alignment < DEFAULT_ALIGNMENT:  # the kernels' loads want it, and so do the reference's
            raise InvalidModelFile(f"the alignment {alignment} is less than {DEFAULT_ALIGNMENT}")
        return alignment

    # --- tensors ---

    def _read_tensors(self, count: int) -> list[TensorRecord]:
        found: list[TensorRecord] = []
        names: set[str] = set()
        for index in range(count):
            record = self._read_tensor(index)
            if record.name in names:
                raise InvalidModelFile(f"the tensor {record.name!r} stands twice")
            names.add(record.name)
            found.append(record)
        return found

    def _read_tensor(self, index: int) -> TensorRecord:
        view, at = self._view, self._at
        needed = at + 8
        try:
            n_name = _U64(view, at)[0]
            if n_name >= MAX_NAME:
                raise InvalidModelFile(f"the name of tensor {index} is longer than {MAX_NAME - 1} bytes")
            end = at + 8 + n_name
            needed = end + 4
            n_dims = _U32(view, end)[0]
            name = str(view[at + 8 : end], "utf-8")
            if n_dims > MAX_DIMS:
                raise InvalidModelFile(f"the tensor {name!r} has {n_dims} dimensions, more than {MAX_DIMS}")
            layout = _TENSORS[n_dims]
            needed = end + 4 + layout.size
            *shape, kind, offset = layout.unpack_from(view, end + 4)
        except struct.error:
            raise TruncatedModelFile(f"the file is cut short: tensor {index} at byte {at}", needed) from None
        except UnicodeDecodeError:
            raise InvalidModelFile(f"the name of tensor {index} at byte {at + 8} is not UTF-8") from None
        if needed > _MAX_HEADER:
            raise InvalidModelFile(f"the header is longer than the {_MAX_HEADER} bytes it may have")
        self._at = needed
        return TensorRecord(name, tuple(shape), kind, offset)

    def _place(self) -> dict[str, TensorInfo]:
        """Tensors stand one after the other, each padded to the alignment; anything else lies."""
        expected, before = 0, None
        tensors: dict[str, TensorInfo] = {}
        for record in self.records:
            kind, nbytes = _extent(record)
            if record.offset != expected:
                groups = ": Q2_0 has groups of 64, not PrismML's older ones of 128" if before is GGMLType.Q2_0 else ""
                raise InvalidModelFile(
                    f"the tensor {record.name!r} has the offset {record.offset}, expected {expected}{groups}"
                )
            tensors[record.name] = TensorInfo(record.name, record.shape, kind, self.data_start + record.offset, nbytes)
            expected += _pad(nbytes, self.alignment)
            before = kind
        return tensors


def _extent(record: TensorRecord) -> tuple[GGMLType, int]:
    """A tensor's type and its bytes."""
    kind = _TYPES.get(record.type)
    if kind is None:
        fork = f": {FORK_TYPES[record.type]} of PrismML's fork" if record.type in FORK_TYPES else ""
        raise InvalidModelFile(f"the tensor {record.name!r} has the unknown type {record.type}{fork}")
    n_elements = prod(record.shape)
    if n_elements >= 1 << 62 or any(extent >= 1 << 62 for extent in record.shape):
        raise InvalidModelFile(f"the tensor {record.name!r} has the impossible shape {record.shape}")
    row = record.shape[0] if record.shape else 1
    if row % kind.block_size:
        raise InvalidModelFile(
            f"the tensor {record.name!r} has rows of {row} elements, no multiple of {kind.name}'s block of "
            f"{kind.block_size}"
        )
    return kind, n_elements // kind.block_size * kind.block_bytes


def _pad(value: int, alignment: int) -> int:
    return (value + alignment - 1) & -alignment
