"""Values as llama-server's conversions of other APIs' requests read them: of the wanted type, else a default."""

from __future__ import annotations

import json
from typing import Any

from engine.json_schema.json_text import fraction_text
from server.errors import BadRequest


def value_at(value: object, key: str) -> Any:
    """What an object holds under `key`; None if it is no object or has no such key."""
    return value.get(key) if isinstance(value, dict) else None


def text_at(value: object, key: str, default: str = "") -> str:
    """The text that an object holds under `key`, else `default`."""
    found = value_at(value, key)
    return found if isinstance(found, str) else default


def list_at(value: object, key: str) -> list[Any] | None:
    """The list that an object holds under `key`, else None."""
    found = value_at(value, key)
    return found if isinstance(found, list) else None


def has_texts(value: object, *keys: str) -> bool:
    """Whether an object holds texts under all `keys`."""
    return all(isinstance(value_at(value, key), str) for key in keys)


def dumped(value: Any) -> str:
    """Parsed JSON as the text that llama-server writes for it, without any space.

    Raises:
        BadRequest: it is nested deeper than Python calls go.
    """
    try:
        return _dumped(value)
    except RecursionError:
        raise BadRequest("JSON is nested too deep") from None


def _dumped(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([f"{_dumped(key)}:{_dumped(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_dumped(item) for item in value]) + "]"
    return fraction_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
