"""The values of arguments, as models write them, as JSON text; any beginning of one gives a beginning of its JSON."""

from __future__ import annotations

import json
from typing import Final

_LITERALS: Final = {"True": "true", "False": "false", "None": "null"}


def quoted(text: str) -> str:
    """A text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def open_braces(text: str) -> int:
    """How many braces are open at the end of a JSON text; those in strings do not count."""
    depth, in_string, escaped = 0, False, False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\" and in_string:
            escaped = True
        elif char == '"':
            in_string = not in_string
        elif not in_string:
            depth += {"{": 1, "}": -1}.get(char, 0)
    return depth


def json_of(text: str) -> str:
    """JSON of a value in JSON or in Python: single quotes become double ones, True, False and None their JSON."""
    found: list[str] = []
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        taken, shown = 1, char
        if char == "\\" and at + 1 < len(text):
            if quote:
                taken, shown = 2, _escape(text[at + 1], quote)
        elif char == '"':
            shown = '\\"' if quote == "'" else char
            quote = quote if quote == "'" else "" if quote else '"'
        elif char == "'":
            shown = char if quote == '"' else '"'
            quote = quote if quote == '"' else "" if quote else "'"
        elif not quote and char in "TFN" and (at == 0 or not _in_word(text[at - 1])):
            taken, shown = _literal(text, at)
        found.append(shown)
        at += taken
    return "".join(found)


def _escape(char: str, quote: str) -> str:
    """An escaped character in a string with these quotes."""
    return "'" if char == quote == "'" else "\\" + char


def _in_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _literal(text: str, at: int) -> tuple[int, str]:
    """How long a word of Python's is, or its beginning, and the JSON for it; any other one stays, letter by letter."""
    end = at
    while end < len(text) and _in_word(text[end]):
        end += 1
    word = text[at:end]
    for name, shown in _LITERALS.items():
        if name.startswith(word):
            return len(word), shown[: len(word)]
    return 1, text[at]
