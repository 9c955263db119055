"""How an answer is shown while it comes."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.commands.display import AnswerView, WordWrap


def screen(text: str) -> list[str]:
    """The lines that a terminal wide enough shows of what is printed."""
    lines: list[list[str]] = [[]]
    at = 0
    for part in re.findall(r"\x1b\[\d*[DK]|.|\n", text):
        if part == "\n":
            lines.append([])
            at = 0
        elif part.endswith("D") and part[0] == "\x1b":
            at -= int(part[2:-1])
        elif part == "\x1b[K":
            del lines[-1][at:]
        else:
            lines[-1][at:] = [part]
            at += 1
    return ["".join(line) for line in lines]


def wrapped(pieces: list[str], columns: int) -> str:
    wrap = WordWrap(lambda: columns)
    return "".join(map(wrap.wrapped, pieces))


def test_a_word_that_reaches_the_margin_goes_to_the_next_line() -> None:
    assert screen(wrapped(["The quick ", "brow", "n fox jumps"], 20)) == ["The quick brown", "fox jumps"]
    assert screen(wrapped(["The quick brownest fox"], 20)) == ["The quick ", "brownest fox"]


def test_lines_that_end_themselves_begin_anew() -> None:
    assert screen(wrapped(["one two\nthree four five"], 20)) == ["one two", "three four five"]


def test_a_word_wider_than_the_line_is_broken() -> None:
    assert screen(wrapped(["abcdefghijklmnop"], 15)) == ["abcdefghij", "klmnop"]


def test_a_terminal_too_narrow_is_left_to_wrap_itself() -> None:
    assert wrapped(["some words that would be wrapped"], 9) == "some words that would be wrapped"


@given(st.lists(st.text("ab c\n", max_size=20), max_size=6), st.integers(10, 30))
def test_nothing_is_lost_and_no_line_reaches_the_margin(pieces: list[str], columns: int) -> None:
    lines = screen(wrapped(pieces, columns))
    assert "".join("".join(lines).split()) == "".join("".join(pieces).split())
    assert max(map(len, lines)) <= columns - 5


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [(False, "Thinking...\nHm. Yes.\n...done thinking.\n\nFour."), (True, "Four.")],
)
def test_what_was_thought_is_shown_apart_from_what_is_said(hidden: bool, shown: str) -> None:
    out = io.StringIO()
    view = AnswerView(out, wordwrap=True, hide_thinking=hidden)
    for thinking, content in (("Hm. ", ""), ("Yes.", ""), ("", "Fo"), ("", "ur.")):
        view.add(thinking, content)
    assert out.getvalue() == shown
    assert (view.thinking, view.content) == ("Hm. Yes.", "Four.")
