"""The scan of JSON values is the JSON rules, without their recursion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chat_formats.peg import Reference
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.peg_json import JsonScan
from engine.chat_formats.peg_results import MATCH, PARTIAL


def by_rules(text: str, *, lenient: bool) -> tuple[int, int]:
    """The outcome of the rules themselves, none of them scanned."""
    builder = Builder()
    parser = builder.json()
    assert isinstance(parser, Reference)
    for rule in builder.rules.values():
        rule.scan = None
    kind, end, _ = parser.match(text, 0, lenient)
    return kind, end


PIECES = ["{", "}", "[", "]", '"', '"a"', ":", ",", "1", "-", "0", ".5", "e+", "true", "nul", "null", "\\", "\\u", "00"]
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@given(st.lists(st.sampled_from([*PIECES, " ", "\n", "x", "é"])).map("".join), st.booleans())
def test_any_text_is_scanned_as_the_rules_match_it(text: str, lenient: bool) -> None:
    assert JsonScan()(text, 0, lenient) == by_rules(text, lenient=lenient)


@given(VALUES, st.booleans(), st.data())
def test_a_value_matches_whole_and_is_partial_wherever_it_is_cut(value: Any, spaced: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=spaced, indent=1 if spaced else None)
    assert JsonScan()(text, 0, False) == (MATCH, len(text))
    cut = text[: data.draw(st.integers(0, len(text)))]
    assert JsonScan()(cut, 0, True) == by_rules(cut, lenient=True)
    assert JsonScan()(cut, 0, True)[0] in (MATCH, PARTIAL)


@given(st.lists(st.lists(st.sampled_from([*PIECES, " ", '{"a": [1, ']), max_size=4).map("".join)), st.booleans())
def test_a_text_that_grows_is_scanned_as_if_it_were_new(pieces: list[str], lenient: bool) -> None:
    scan, text = JsonScan(), "{"
    for piece in pieces:
        text += piece
        assert scan(text, 0, lenient) == JsonScan()(text, 0, lenient)
    assert scan("[1]", 0, lenient) == (MATCH, 3)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
def test_a_value_nested_as_deep_as_a_model_likes_is_scanned(opening: str) -> None:
    text = opening * 100_000
    assert JsonScan()(text, 0, True) == (PARTIAL, len(text))
