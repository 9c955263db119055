"""How far a text is a JSON value: the reference's JSON rules as one scan without recursion.

llama-server b11192 parses JSON answers with mutually recursive rules (`common/peg-parser.cpp`). They never need to look
back, so one pass with a stack of open brackets gives the same end, for values nested as deep as a model likes.
"""

from __future__ import annotations

import re
from typing import Final

from engine.chat_formats.peg_results import FAIL, MATCH, PARTIAL, Outcome

_SPACE: Final = re.compile(r"[ \t\n\v\f\r]*+")
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_CUT_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_CUT_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9][0-9]*+)(?:\.|(?:\.[0-9]++)?[eE][+-]?))?\Z")
_GOES_ON: Final = frozenset("0123456789.eE+-")
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}


Brackets = tuple[str, "Brackets"] | None
"""The closing brackets still to come, the next one first."""


class JsonScan:
    """Matches one JSON value at a place of a text; of a text that grows from call to call only what is new is read."""

    def __init__(self) -> None:
        self._start = -1
        self._read = ""
        self._open: Brackets = None

    def __call__(self, text: str, start: int, lenient: bool) -> Outcome:
        """Match at `start`.

        Args:
            text: the whole input.
            start: where the value begins.
            lenient: the input may go on: a value cut off is a partial match, and so is a number at the very end.

        Returns:
            The kind, and where the match ends: of a partial one before an escape that is cut, else at the input's end;
            of a failure `start`.
        """
        at, still_open = start, None
        if start == self._start and text.startswith(self._read):
            at, still_open = len(self._read), self._open
        more = True
        while more:
            value_at, before = at, still_open
            kind, at, still_open = _scan_until_value_ends(text, at, still_open, lenient)
            if kind != MATCH:
                break
            kind, at, still_open, more = _scan_after_value(text, at, still_open)
        self._start, self._read, self._open = start, text[:value_at], before
        if kind == PARTIAL and not lenient:
            kind = FAIL
        return kind, start if kind == FAIL else at


def _scan_until_value_ends(text: str, at: int, still_open: Brackets, lenient: bool) -> tuple[int, int, Brackets]:
    """Open brackets (and keys) until a value is whole: a plain one, or an empty array or object."""
    while True:
        first = text[at : at + 1]
        if first not in ("{", "["):
            return *_scan_plain(text, at, first, lenient), still_open
        close = "}" if first == "{" else "]"
        at = _skip_space(text, at + 1)
        if text[at : at + 1] == close:
            return MATCH, at + 1, still_open
        still_open = (close, still_open)
        if close == "}":
            kind, at = _scan_key(text, at)
            if kind != MATCH:
                return kind, at, still_open
        elif at == len(text):
            return PARTIAL, at, still_open


def _scan_after_value(text: str, at: int, still_open: Brackets) -> tuple[int, int, Brackets, bool]:
    """Close brackets after a value; True when another value must follow."""
    while still_open is not None:
        at = _skip_space(text, at)
        if at == len(text):
            return PARTIAL, at, still_open, False
        if text[at] == still_open[0]:
            still_open = still_open[1]
            at += 1
            continue
        if text[at] != ",":
            return FAIL, at, still_open, False
        at = _skip_space(text, at + 1)
        if still_open[0] == "}":
            kind, at = _scan_key(text, at)
            return kind, at, still_open, kind == MATCH
        return (PARTIAL, at, still_open, False) if at == len(text) else (MATCH, at, still_open, True)
    return MATCH, at, still_open, False


def _scan_key(text: str, at: int) -> Outcome:
    """A key, its colon and the space around it."""
    kind, at = _scan_string(text, at)
    if kind != MATCH:
        return kind, at
    at = _skip_space(text, at)
    if at == len(text):
        return PARTIAL, at
    if text[at] != ":":
        return FAIL, at
    at = _skip_space(text, at + 1)
    return (PARTIAL, at) if at == len(text) else (MATCH, at)


def _scan_plain(text: str, at: int, first: str, lenient: bool) -> Outcome:
    if not first:
        return PARTIAL, at
    if first == '"':
        return _scan_string(text, at)
    if first in _WORDS:
        return scan_literal(text, at, _WORDS[first])
    return _scan_number(text, at, lenient)


def scan_literal(text: str, at: int, literal: str) -> Outcome:
    """Match a fixed text; partial when the input ends inside it."""
    if text.startswith(literal, at):
        return MATCH, at + len(literal)
    if literal.startswith(text[at:]):
        return PARTIAL, len(text)
    return FAIL, at


def _scan_string(text: str, at: int) -> Outcome:
    found = _STRING.match(text, at)
    if found is None:
        return (PARTIAL if at == len(text) else FAIL), at
    end = found.end()
    if end == len(text) or _CUT_ESCAPE.match(text, end):
        return PARTIAL, end
    return (MATCH, end + 1) if text[end] == '"' else (FAIL, at)


def _scan_number(text: str, at: int, lenient: bool) -> Outcome:
    if _CUT_NUMBER.match(text, at):
        return PARTIAL, len(text)
    found = _NUMBER.match(text, at)
    if found is None:
        return FAIL, at
    end = found.end()
    if end == len(text):
        return (PARTIAL if lenient else MATCH), end
    return (FAIL, at) if text[end] in _GOES_ON else (MATCH, end)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
