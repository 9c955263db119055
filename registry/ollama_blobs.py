"""What a derived model adds, as the blobs that Ollama keeps it in: the same bytes, so that the same layer has the same
digest whoever made it (its `server/create.go`, and the form of Go's `encoding/json`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from registry.derived import Layer


def params_blob(layer: Layer) -> bytes:
    """A layer's parameters, in the order of their names; empty for none."""
    values = {**layer.parameters, **({"stop": layer.stop} if layer.stop else {})}
    return go_json({name: values[name] for name in sorted(values)}) if values else b""


def messages_blob(layer: Layer) -> bytes:
    """A layer's messages; empty for none."""
    turns = [{"role": message.role, "content": message.content} for message in layer.messages]
    return go_json(turns) if turns else b""


def go_json(value: Any) -> bytes:
    """JSON as Go writes it by default: fit for HTML, numbers as those of a float64, a line's end behind it."""
    return f"{_written(value)}\n".encode()


def _written(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{_quoted(name)}:{_written(item)}' for name, item in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{','.join(map(_written, value))}]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return _number(float(value))


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        quoted = quoted.replace(character, f"\\u{ord(character):04x}")
    return quoted


def _number(value: float) -> str:
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return np.format_float_positional(value, trim="-")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{int(exponent):+d}"
