"""JSON as it comes in and as it goes out."""

from __future__ import annotations

import gc
import json
import re
from typing import Any

import orjson


def json_loads(raw: bytes) -> Any:
    """The value of a JSON text. Of its many objects none is garbage yet: looking for some takes twice the time of
    reading it, in which no other thread runs.

    Raises:
        orjson.JSONDecodeError: it is none.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return orjson.loads(raw)
    finally:
        if collects:
            gc.enable()


def json_bytes(value: object) -> bytes:
    """`value` as JSON in UTF-8; what is no Unicode in a text (a file's name may have any bytes) becomes U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return re.sub("[\ud800-\udfff]", "\ufffd", text).encode()
