"""How an answer is shown while it comes: wrapped between words, its reasoning in grey, a spinner until it begins."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TextIO

from server.commands.human import duration_text
from server.commands.tables import width

_GREY: Final = "\x1b[38;5;245m"
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"
_MARGIN: Final = 5
"""Columns left free at the right."""


def is_capable(stream: TextIO) -> bool:
    """Whether a stream is a terminal that moves its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def terminal_columns() -> int:
    """The width of the terminal, 80 where nobody knows it."""
    return shutil.get_terminal_size().columns or 80


class WordWrap:
    """Wraps a text that comes in pieces: a word that reaches the margin is taken back and put on a new line.

    Args:
        columns: asked for the terminal's width at each piece; below 10 nothing is wrapped.
    """

    def __init__(self, columns: Callable[[], int] = terminal_columns) -> None:
        self._columns = columns
        self._at = 0
        self._word = ""

    def wrapped(self, text: str) -> str:
        """What to print for the next piece."""
        columns = self._columns()
        if columns < 10:
            return text
        return "".join(self._next(character, columns - _MARGIN) for character in text)

    def _next(self, character: str, limit: int) -> str:
        if character in "\r\n":
            self._at, self._word = 0, ""
            return character
        size = width(character)
        if self._at + size <= limit:
            self._at += size
            # A line may be broken after a space, and after a wide character as its scripts have no spaces.
            self._word = "" if character in " \t" or size > 1 else self._word + character
            return character
        if character in " \t":
            self._at, self._word = 0, ""
            return "\n"
        taken_back = width(self._word)
        if taken_back == self._at:  # one word fills the line
            self._at, self._word = size, character
            return f"\n{character}"
        moved, self._word = self._word, self._word + character
        self._at = taken_back + size
        back = f"\x1b[{taken_back}D" if taken_back else ""
        return f"{back}\x1b[K\n{moved}{character}"


class AnswerView:
    """Prints an answer as it comes, and remembers it.

    Args:
        out: where to.
        wordwrap: wrap it, where `out` can.
        hide_thinking: leave the reasoning out.

    Attributes:
        content: what was said so far.
        thinking: what was thought so far.
    """

    def __init__(self, out: TextIO, *, wordwrap: bool, hide_thinking: bool) -> None:
        self._out = out
        self._colours = is_capable(out)
        self._wraps = wordwrap and self._colours
        self._hide = hide_thinking
        self._wrap = WordWrap()
        self._thinks = False
        self.content = ""
        self.thinking = ""

    def add(self, thinking: str, content: str) -> None:
        """The next piece."""
        self.thinking += thinking
        self.content += content
        if thinking and not self._hide:
            if not self._thinks:
                self._thinks = True
                self._write(f"{_GREY}{_BOLD}Thinking...\n{_PLAIN}{_GREY}" if self._colours else "Thinking...\n")
            self._write(self._shown(thinking))
        if content:
            self.end_thinking()
            self._write(self._shown(content))

    def end_thinking(self) -> None:
        """The reasoning is over, if there was any."""
        if self._thinks:
            self._thinks = False
            self._wrap = WordWrap()
            end = "" if self.thinking.endswith("\n") else "\n"
            text = "...done thinking.\n\n"
            self._write(f"{end}{_GREY}{_BOLD}{text}{_PLAIN}" if self._colours else end + text)

    def _shown(self, text: str) -> str:
        return self._wrap.wrapped(text) if self._wraps else text

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class Waiting:
    """A spinner on stderr until the first piece of an answer; none where stderr is no terminal."""

    def __init__(self) -> None:
        self._spinner: AbstractContextManager[Any] = nullcontext()
        if is_capable(sys.stderr):
            from rich.console import Console

            self._spinner = Console(stderr=True).status("")
        self._spinner.__enter__()
        self._spins = True

    def end(self) -> None:
        """Take it away, once."""
        if self._spins:
            self._spins = False
            self._spinner.__exit__(None, None, None)


def summary(measured: Mapping[str, Any]) -> str:
    """What an answer measured, a figure a line, as Ollama's command shows it.

    The rate of the prompt is that of the tokens that were read; those the slot still had are a line of their own.
    """
    rows: list[tuple[str, str]] = []

    def took(label: str, key: str) -> int:
        if ns := int(measured.get(key) or 0):
            rows.append((label, duration_text(ns)))
        return ns

    def counted(label: str, key: str) -> int:
        if count := int(measured.get(key) or 0):
            rows.append((label, f"{count} token(s)"))
        return count

    took("total duration", "total_duration")
    took("load duration", "load_duration")
    n = counted("prompt eval count", "prompt_eval_count") - counted("prompt cached", "bankml_cache_n")
    if ns := took("prompt eval duration", "prompt_eval_duration"):
        rows.append(("prompt eval rate", f"{n / ns * 1e9:.2f} tokens/s"))
    n = counted("eval count", "eval_count")
    if ns := took("eval duration", "eval_duration"):
        rows.append(("eval rate", f"{n / ns * 1e9:.2f} tokens/s"))
    return "\n".join(f"{label + ':':22}{value}" for label, value in rows)
