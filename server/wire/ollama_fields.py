"""Bodies of Ollama's endpoints read as Go reads them into the structs of Ollama's `api/types.go`.

Every function that reads a body raises `InvalidBody`, a 400, whose text is Go's or Ollama's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.errors import ModelNotFound
from registry.names import InvalidModelName, ModelName, split_source
from server.wire.golang import InvalidBody, kind, loads, mismatch, quote
from server.wire.ollama_options import parse_keep_alive

Fields = Mapping[str, str]
"""A struct's fields in JSON, and the Go type of each."""

MESSAGE_FIELDS: Final[Fields] = {
    "role": "string",
    "content": "string",
    "thinking": "string",
    "images": "[]api.ImageData",
    "tool_calls": "[]api.ToolCall",
    "tool_name": "string",
    "tool_call_id": "string",
}
"""The fields of a message."""

_STRUCTS: Final[Mapping[str, Fields]] = {
    "ToolCall": {"id": "string", "function": "api.ToolCallFunction"},
    "ToolCallFunction": {"index": "int", "name": "string", "arguments": "map[string]interface {}"},
    "Tool": {"type": "string", "function": "api.ToolFunction"},
    "ToolFunction": {"name": "string", "description": "string", "parameters": "api.ToolFunctionParameters"},
    "ToolFunctionParameters": {
        "type": "string",
        "required": "[]string",
        "properties": "map[string]interface {}",
    },
}
"""The structs inside messages and tools; what is not named here may be anything."""

_JSON_KINDS: Final = {"string": "string", "bool": "bool", "map[string]interface {}": "object"}
_ELEMENTS: Final = {
    "[]int": "int",
    "[]string": "string",
    "[]api.ImageData": "api.ImageData",
    "[]api.ToolCall": "api.ToolCall",
    "api.Tools": "api.Tool",
}


def fields_of(body: bytes, struct: str, types: Fields) -> tuple[dict[str, Any], list[str]]:
    """The known fields of a body, checked in the order they stand, nulls left out; and the names of the unknown.

    Args:
        struct: the struct's name in Go, without its package.
        types: its fields.
    """
    value = loads(body)
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        raise mismatch(value, f"api.{struct}")
    given: dict[str, Any] = {}
    ignored: list[str] = []
    for written, item in value.items():
        name = _field(written, types)
        if name is None:
            ignored.append(written)
        elif item is not None:
            given[name] = _typed(item, types[name], f"{struct}.{name}")
    return given, ignored


def _field(written: str, types: Fields) -> str | None:
    """The field that a key of JSON means: Go looks for the very name, then for it in whatever letter case."""
    if written in types:
        return written
    folded = written.casefold()
    return next((name for name in types if name.casefold() == folded), None)


def checked_name(name: str) -> str:
    """A model's name that Ollama would take, as it was written.

    Raises:
        InvalidBody: there is none, or it can be nobody's.
    """
    if not name.strip():
        raise InvalidBody("model is required")
    base, _ = sourced(name)
    try:
        ModelName.parse(base)
    except InvalidModelName as error:
        raise InvalidBody(str(error)) from None
    return name


def found_name(name: str) -> str:
    """As `checked_name`, where Ollama takes a name that is missing for a model that is.

    Raises:
        ModelNotFound: there is none.
        InvalidBody: it can be nobody's.
    """
    if not name.strip():
        raise ModelNotFound(name)
    return checked_name(name)


def sourced(name: str) -> tuple[str, str]:
    """A name and where its model runs, as `registry.names.split_source`.

    Raises:
        InvalidBody: it says so twice.
    """
    base, source = split_source(name)
    if source and split_source(base)[1]:
        raise InvalidBody(f"use either :local or :cloud, not both: {quote(name.strip())}")
    return base, source


def _typed(value: Any, target: str, place: str) -> Any:
    """`value` as the Go type `target`, or Go's error; `place` is the struct and the path to the field."""
    match target:
        case "json.RawMessage" | "interface {}":
            return value
        case "api.Duration":
            return parse_keep_alive(value)
        case "api.ThinkValue":
            return _think(value)
        case "int":
            if kind(value) != "number" or not isinstance(value, int) or not -(2**63) <= value < 2**63:
                raise mismatch(value, target, place)
            return value
        case "api.ImageData":
            if not isinstance(value, str):
                raise mismatch(value, target, place)
            return value
        case "[]api.Message":
            return [_message(item) for item in _list(value, target, place)]
        case "map[string]string":
            if not isinstance(value, dict):
                raise mismatch(value, target, place)
            return {name: "" if item is None else _typed(item, "string", place) for name, item in value.items()}
        case "[]int" if isinstance(value, list) and set(map(type, value)) == {int}:
            return value  # the usual case, of up to a million
        case _ if target in _ELEMENTS:
            element = _ELEMENTS[target]
            return [_typed(item, element, place) for item in _list(value, target, place) if item is not None]
        case _ if target in _JSON_KINDS:
            if kind(value) != _JSON_KINDS[target]:
                raise mismatch(value, target, place)
            return value
        case _:
            return _struct(value, target, place)


def _list(value: Any, target: str, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise mismatch(value, target, place)
    return value


def _struct(value: Any, target: str, place: str) -> dict[str, Any]:
    """A struct inside another, as it was given but for its nulls."""
    if not isinstance(value, dict):
        raise mismatch(value, target, place)
    name = target.removeprefix("api.")
    return _fields_of(value, _STRUCTS[name], f"{name}.{place.partition('.')[2]}")


def _message(value: Any) -> dict[str, Any]:
    """A message; Go reads it apart, so its errors name it alone."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise mismatch(value, "api.Alias")
    return _fields_of(value, MESSAGE_FIELDS, "Alias")


def _fields_of(value: Mapping[str, Any], types: Fields, path: str) -> dict[str, Any]:
    """An object's fields but for its nulls: the known ones typed and by their names, the others as they are."""
    found: dict[str, Any] = {}
    for written, item in value.items():
        name = _field(written, types)
        if item is not None:
            found[name or written] = item if name is None else _typed(item, types[name], f"{path}.{name}")
    return found


def _think(value: Any) -> bool | str:
    words = '"high", "medium", "low", "max", true, or false'
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise InvalidBody(f"think must be a boolean or string ({words})")
    if value not in ("high", "medium", "low", "max"):
        raise InvalidBody(f"invalid think value: {quote(value)} (must be {words})")
    return value
