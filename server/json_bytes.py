"""JSON as it goes out: UTF-8, whatever is in the texts."""

from __future__ import annotations

import json
import re

import orjson


def json_bytes(value: object) -> bytes:
    """`value` as JSON; what is no Unicode in a text (a file's name may have any bytes) becomes U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return re.sub("[\ud800-\udfff]", "\ufffd", text).encode()
