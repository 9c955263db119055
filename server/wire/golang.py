"""What Ollama's answers owe to Go: how it reads JSON, what it says when it cannot, and how it writes times and counts.

Ollama's clients see the texts of Go's `encoding/json` and `time` packages in its errors, and some look for them. Pure
functions; nothing here knows of HTTP.
"""

from __future__ import annotations

import json
import math
import re
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NoReturn

import numpy as np
import orjson

from registry.json_size import too_much_structure
from server.json_bytes import json_loads

_SYNTAX: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
}


MISSING_BODY: Final = "missing request body"


class InvalidBody(ValueError):
    """A request body that Go would not read; the text is what Go (or Ollama around it) says."""


def quote(text: str) -> str:
    """`text` in double quotes, as Go's `%q` writes ordinary text."""
    return json.dumps(text, ensure_ascii=False)


def as_text(data: bytes) -> str:
    """The text of `data`, each byte that is not UTF-8 as one U+FFFD, as Go's JSON writer has it."""
    return re.sub("[\udc80-\udcff]", "\ufffd", data.decode("utf-8", "surrogateescape"))


def loads(body: bytes) -> Any:
    """The JSON value in `body`, read as Go reads it: bytes that are no UTF-8 and unpaired surrogates become U+FFFD.

    Raises:
        InvalidBody: empty, with too much in it, or not JSON. Unlike Go's decoder, which stops reading after the first
            value, text after it is an error.
    """
    if not body.strip():
        raise InvalidBody(MISSING_BODY)
    if reason := too_much_structure(body):
        raise InvalidBody(reason)
    try:
        return json_loads(body)
    except orjson.JSONDecodeError:
        pass  # broken, or one of the few things Go takes and orjson does not
    text = body.decode("utf-8", "replace")
    try:
        return _whole(json.loads(text, parse_constant=_no_constant, parse_float=_float64, parse_int=_integer))
    except json.JSONDecodeError as error:
        raise InvalidBody(_syntax_error(text, error)) from None
    except RecursionError:
        raise InvalidBody("exceeded max depth") from None
    except ValueError as error:  # a constant JSON does not have, or a number too large
        raise InvalidBody(str(error)) from None


def _no_constant(name: str) -> NoReturn:
    first = name.lstrip("-")[0]
    place = "in numeric literal" if name.startswith("-") else "looking for beginning of value"
    raise InvalidBody(f"invalid character '{first}' {place}")


def _float64(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidBody(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _integer(text: str) -> int:
    _float64(text)
    return int(text)


def _whole(value: Any) -> Any:
    """`value` with each unpaired surrogate in its strings replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def _syntax_error(text: str, error: json.JSONDecodeError) -> str:
    """Go's words for what Python's reader found, at the same place."""
    position = error.pos
    if error.msg.startswith("Illegal trailing comma"):
        position += 1
    while position < len(text) and text[position] in " \t\r\n" and "control character" not in error.msg:
        position += 1
    if position >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    where = _SYNTAX.get(error.msg)
    if where is None:  # "Expecting ',' delimiter" is said of both
        where = "after array element" if _inside_array(text, error.pos) else "after object key:value pair"
    character = text[position]
    shown = "'\\''" if character == "'" else f"'{json.dumps(character, ensure_ascii=False)[1:-1]}'"
    return f"invalid character {shown} {where}"


def _inside_array(text: str, position: int) -> bool:
    """Whether the innermost bracket open at `position` of (so far well-formed) JSON is that of an array."""
    depth = 0
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text[:position])
    for character in reversed(outside):
        if character in "]}":
            depth += 1
        elif character in "[{":
            if depth == 0:
                return character == "["
            depth -= 1
    return False


def kind(value: Any) -> str:
    """What Go calls the JSON type of `value` in its errors."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def interface_type(value: Any) -> str:
    """The Go type a JSON value has when it is read into an `any`."""
    names = {"bool": "bool", "string": "string", "number": "float64", "array": "[]interface {}"}
    return names.get(kind(value), "map[string]interface {}")


def mismatch(value: Any, target: str, field: str | None = None) -> InvalidBody:
    """The error for `value` where a Go value of type `target` belongs.

    Args:
        value: what the body has.
        target: the Go type, such as `string` or `[]api.Message`.
        field: `Struct.field`, or None when the value itself is the whole target.
    """
    shown = kind(value)
    if shown == "number" and target == "int":
        shown = f"number {json.dumps(value)}"
    place = "Go value" if field is None else f"Go struct field {field}"
    return InvalidBody(f"json: cannot unmarshal {shown} into {place} of type {target}")


def format_time(ns: int | None = None) -> str:
    """RFC 3339 in UTC with nanoseconds, trailing zeros cut, as Go writes a `time.Time` into JSON.

    Args:
        ns: nanoseconds since 1970; None for now.
    """
    seconds, fraction = divmod(time.time_ns() if ns is None else ns, 10**9)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"


def human_number(count: int) -> str:
    """A parameter count as Ollama shows it: `134.52M`, `7.2B`, `8B`."""
    for unit, scale, places in (("B", 10**9, 1), ("M", 10**6, 2)):
        if count >= scale:
            return f"{count / scale:.{0 if count % scale == 0 else places}f}{unit}"
    return f"{count / 1000:.0f}K" if count >= 1000 else str(count)


def show_value(value: Any) -> str:
    """A JSON value as Go prints it (`%v`): numbers are float64 there, and large ones have an exponent."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case list():
            return f"[{' '.join(map(show_value, value))}]"
        case dict():
            return f"map[{' '.join(f'{name}:{show_value(item)}' for name, item in sorted(value.items()))}]"
    return _written(Decimal(repr(float(value))), -4, 6, places=2)


def _written(number: Decimal, first: int, behind: int, *, places: int) -> str:
    """A number as Go's `strconv` writes it.

    Args:
        first, behind: powers of ten of its first digit, between which it has no exponent.
        places: digits of an exponent at the least.
    """
    sign, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    power, shown = len(digits) + exponent - 1, "".join(map(str, digits))
    if first <= power < behind or not any(digits):
        return format(number.normalize(), "f")
    fraction = f".{shown[1:]}" if shown[1:] else ""
    return f"{'-' * sign}{shown[0]}{fraction}e{power:+0{places + 1}d}"


_EXPONENT: Final = re.compile(rb"-?\d+(?:\.\d+)?e[-+]?\d+")


def json_value(value: Any) -> Any:
    """A number or a numpy array, for `orjson` to write as Go's `encoding/json` writes it; all else as it is.

    A float has the fewest digits that name it among those of its size (a `np.float32` is not the double nearest to it),
    no `.0`, and an exponent below 1e-6 and from 1e21 on alone.
    """
    if not isinstance(value, float | np.floating | np.ndarray):
        return value
    written = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    written = re.sub(rb"\.0(?=[],]|$)", b"", written)
    return orjson.Fragment(
        _EXPONENT.sub(lambda found: _written(Decimal(found[0].decode()), -6, 21, places=1).encode(), written)
    )
