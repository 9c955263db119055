"""Markers, and the difference of two texts cut at markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chat_formats.markers import Difference, difference, segments

TEXTS = st.lists(st.sampled_from(["<a>", "</a>", "[b]", "x", "yz", "\n", "<", "]"])).map("".join)


def test_a_marker_that_does_not_close_is_text() -> None:
    assert [tuple(piece) for piece in segments("a<b>[c] <d")] == [
        (False, "a"),
        (True, "<b>"),
        (True, "[c]"),
        (False, " "),
        (False, "<d"),
    ]


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("<a>one</a>", "<a>two</a>", Difference("<a>", "</a>", "one", "two")),
        ("<a>same one</a>", "<a>same two</a>", Difference("<a>same ", "</a>", "one", "two")),
        ("<a></a>", "<a><b>x</b></a>", Difference("<a>", "</a>", "", "<b>x</b>")),
        ("x\n", "x\n<a>y\n", Difference("x\n", "", "", "<a>y\n")),
        ("", "x", Difference(right="x")),
        ("x", "", Difference(left="x")),
        ("<a>x", "<a>x", Difference("<a>x")),
        # The reference finds these too, though they do not add up.
        ("</a>]</a>]", "</a>]", Difference("</a>]", "]", "</a>")),
        ("yz</a></a>", "yz</a>", Difference("yz</a></a>")),
        ("<a></a>", "<a>[b]]</a></a>", Difference("<a>", "</a></a>", "", "[b]]")),
    ],
)
def test_a_difference_keeps_markers_whole(left: str, right: str, found: Difference) -> None:
    assert difference(left, right) == found


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert difference(text, text) == Difference(text)


@given(TEXTS)
def test_segments_put_the_text_together_again(text: str) -> None:
    assert "".join(piece.text for piece in segments(text)) == text
