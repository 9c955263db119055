"""The keys of a GGUF file in the order and types of llama.cpp's converter (gguf-py's `GGUFWriter`, b11192)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from reprlib import Repr
from typing import Any, Final

from registry.errors import ConversionRefused

_I32, _F32, _BOOL, _STRING, _ARRAY, _U32 = 5, 6, 7, 8, 9, 4
_REPR: Final = Repr()
_REPR.maxlevel = 2
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 60
_FORMATS: Final = {_U32: "<I", _I32: "<i", _F32: "<f", _BOOL: "?"}


class Metadata:
    """Keys and their packed values.

    A key that is set again keeps its place. An empty text and an empty array leave a key as it was, as in llama.cpp.
    A value that its type cannot hold is what llama.cpp's converter stops at: `ConversionRefused` names the key.
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._values)

    def packed(self) -> bytes:
        """The keys as they lie in the file."""
        return b"".join(_text(key) + value for key, value in self._values.items())

    def u32(self, key: str, value: Any) -> None:
        """An unsigned number of 32 bits."""
        self._values[key] = struct.pack("<I", _U32) + _number(key, _U32, value)

    def i32(self, key: str, value: Any) -> None:
        """A signed number of 32 bits."""
        self._values[key] = struct.pack("<I", _I32) + _number(key, _I32, value)

    def f32(self, key: str, value: Any) -> None:
        """A number rounded to 32 bits."""
        self._values[key] = struct.pack("<I", _F32) + _number(key, _F32, value)

    def boolean(self, key: str, value: Any) -> None:
        """True or false; other values count as Python counts them."""
        self._values[key] = struct.pack("<I", _BOOL) + _number(key, _BOOL, value)

    def string(self, key: str, value: Any) -> None:
        """A text; nothing when it is empty (or null, zero or false)."""
        if not value:
            return
        if not isinstance(value, str):
            raise ConversionRefused(f"{key} would be {_shown(value)}, which is not a text")
        self._values[key] = struct.pack("<I", _STRING) + _text(value, key)

    def array(self, key: str, values: Sequence[Any]) -> None:
        """An array; nothing when it is empty. Texts, or all floats, all booleans or all whole numbers (I32)."""
        if not values:
            return
        kind = _kind(key, values[0])
        if any(_kind(key, value) != kind for value in values):
            raise ConversionRefused(f"{key} would hold values of different types")
        if kind == _STRING:
            items = b"".join(_text(value, key) for value in values)
        else:
            items = b"".join(_number(key, kind, value) for value in values)
        self._values[key] = struct.pack("<IIQ", _ARRAY, kind, len(values)) + items


def _kind(key: str, value: Any) -> int:
    """The type of an array's entry, by its Python type."""
    for kind, types in ((_STRING, (str, bytes)), (_F32, float), (_BOOL, bool), (_I32, int)):
        if isinstance(value, types):
            return kind
    raise ConversionRefused(f"{key} would hold {_shown(value)}")


def _number(key: str, kind: int, value: Any) -> bytes:
    try:
        return struct.pack(_FORMATS[kind], value)
    except (struct.error, OverflowError, TypeError) as error:
        raise ConversionRefused(f"{key} would be {_shown(value)}, which does not fit it") from error


def _text(value: str | bytes, key: str = "") -> bytes:
    try:
        data = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError as error:
        raise ConversionRefused(f"{key} would be a text with half a character") from error
    return struct.pack("<Q", len(data)) + data


def _shown(value: Any) -> str:
    """A value for people, however large it is."""
    return _REPR.repr(value)
