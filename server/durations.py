"""Durations as Ollama takes them: Go's `5m`, `1h30m`, `250ms`, or a number of seconds; negative means for ever."""

from __future__ import annotations

import math
import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]*)(\.?[0-9]*)([^0-9.]*)")
_MOST_TEXT = 1000  # characters: each part takes its time
_LONGEST = (2**63 - 1) / 1e9  # seconds in Go's longest duration, about 292 years


def go_duration(text: str) -> float:
    """Seconds in a duration as Go's `time.ParseDuration` reads it.

    Raises:
        ValueError: it is not one; the text is Go's.
    """
    quoted = _quoted(text[:_MOST_TEXT])
    if len(text) > _MOST_TEXT:
        raise ValueError(f"time: invalid duration {quoted}")
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    seconds = 0.0
    while True:
        part = _PART.match(rest)
        assert part is not None
        whole, fraction, unit = part.groups()
        if not whole and len(fraction) < 2:  # neither a digit before the point nor one after it
            raise ValueError(f"time: invalid duration {quoted}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quoted}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {quoted}")
        seconds += float(whole + fraction) * _UNITS[unit]
        rest = rest[part.end() :]
        if seconds > _LONGEST:
            raise ValueError(f"time: invalid duration {quoted}")
        if not rest:
            return sign * seconds


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def keep_alive_seconds(value: object) -> float:
    """Seconds to keep a model, from text (a Go duration, or whole seconds as `OLLAMA_KEEP_ALIVE` may have) or a number.

    Returns:
        seconds, `math.inf` for any negative value.

    Raises:
        ValueError: neither a number nor a duration.
    """
    if isinstance(value, str):
        text = value.strip()
        seconds = float(text) if re.fullmatch(r"[+-]?[0-9]+", text) else go_duration(text)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise ValueError("must be a number of seconds or a duration such as 5m")
    if math.isnan(seconds):
        raise ValueError("must be a number of seconds or a duration such as 5m")
    return math.inf if seconds < 0 else seconds
