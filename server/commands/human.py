"""Sizes, times and durations as Ollama's command shows them to people. Pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_SIZES: Final = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3))
_YEAR_HOURS: Final = 24 * 365


def human_bytes(count: int) -> str:
    """A size in decimal units: one place below ten unless it is whole, none from ten on, never rounded up."""
    for unit, scale in _SIZES:
        if count >= scale:
            value = count / scale
            places = 1 if value < 10 and count % scale else 0
            return f"{value:.1f} {unit}" if places else f"{int(value)} {unit}"
    return f"{count} B"


def human_time(when: datetime, now: datetime) -> str:
    """How long ago a time was, or how far ahead it is: `3 days ago`, `4 minutes from now`, `Forever`.

    Args:
        when: Go's zero time, the first second of the year 1, means never.
        now: the present.
    """
    if when == datetime(1, 1, 1, tzinfo=UTC):
        return "Never"
    seconds = (now - when).total_seconds()
    if seconds < 0:
        ahead = int(-seconds / 3600) // _YEAR_HOURS > 20
        return "Forever" if ahead else f"{_human_span(-seconds)} from now"
    return f"{_human_span(seconds)} ago"


def _human_span(seconds: float) -> str:
    """Docker's words for a length of time, as Ollama took them over."""
    whole = int(seconds)
    if whole < 1:
        return "Less than a second"
    if whole == 1:
        return "1 second"
    if whole < 60:
        return f"{whole} seconds"
    minutes = whole // 60
    if minutes == 1:
        return "About a minute"
    if minutes < 60:
        return f"{minutes} minutes"
    hours = int(seconds / 3600 + 0.5)
    if hours == 1:
        return "About an hour"
    for unit, size, limit in (("hours", 1, 48), ("days", 24, 24 * 14), ("weeks", 24 * 7, 24 * 60)):
        if hours < limit:
            return f"{hours // size} {unit}"
    if hours < 2 * _YEAR_HOURS:
        return f"{hours // 24 // 30} months"
    return f"{int(seconds / 3600) // _YEAR_HOURS} years"


def duration_text(ns: int) -> str:
    """A duration as Go prints it: `1m2.5s`, `12.25ms`, `0s`.

    Args:
        ns: nanoseconds, not negative.
    """
    if ns == 0:
        return "0s"
    for unit, scale in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if ns < min(scale * 1000, 10**9):
            return f"{_trimmed(ns, scale)}{unit}"
    minutes, rest = divmod(ns, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{_trimmed(rest, 10**9)}s"


def _trimmed(value: int, scale: int) -> str:
    """`value / scale`, exactly, without zeros at its end."""
    whole, rest = divmod(value, scale)
    fraction = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
