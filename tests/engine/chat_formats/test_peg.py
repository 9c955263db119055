"""Parsing expressions: whole and lenient matches, and what they report."""

from __future__ import annotations

import pytest

from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.peg_results import FAIL, MATCH, PARTIAL


def tagged(parser: Parser, text: str, *, lenient: bool = True) -> tuple[int, list[tuple[str, str]]]:
    kind, _, captures = parser.match(text, 0, lenient)
    return kind, [(part.tag, part.text) for capture in captures for part in capture.walk()]


def test_a_literal_that_the_input_cuts_is_partial_only_when_more_may_come() -> None:
    literal = Builder().literal("<think>")
    assert literal.match("<thi", 0, True) == (PARTIAL, 4, ())
    assert literal.match("<thi", 0, False).kind == FAIL
    assert literal.match("<thx", 0, True).kind == FAIL
    assert literal.match("x<think>", 1, True) == (MATCH, 8, ())


@pytest.mark.parametrize(
    ("text", "kind", "end"),
    [("abc", PARTIAL, 3), ("abc</t>d", MATCH, 3), ("abc</", MATCH, 3), ("ab</x", PARTIAL, 5), ("é😀</t>", MATCH, 2)],
)
def test_until_stops_before_a_delimiter_and_before_the_beginning_of_one(text: str, kind: int, end: int) -> None:
    assert Builder().until("</t>").match(text, 0, True) == (kind, end, ())


def test_until_several_delimiters_takes_the_first_and_an_empty_one_never_comes() -> None:
    builder = Builder()
    assert builder.until("bb", "a").match("xbxa", 0, False).end == 3
    assert builder.until("").match("abc", 0, False) == (MATCH, 3, ())


def test_what_was_tagged_before_the_input_ends_is_reported() -> None:
    builder = Builder()
    thought = builder.tag("thought", builder.until("</t>"))
    parser = builder.sequence(builder.literal("<t>"), thought, builder.literal("</t>"))
    assert tagged(parser, "<t>ab") == (PARTIAL, [("thought", "ab")])
    assert tagged(parser, "<t>ab</") == (PARTIAL, [("thought", "ab")])
    assert tagged(parser, "<t>ab</t>") == (MATCH, [("thought", "ab")])
    assert tagged(parser, "<x>ab</t>") == (FAIL, [])


def test_an_atomic_expression_reports_nothing_of_a_partial_match() -> None:
    builder = Builder()
    parser = builder.atomic(builder.tag("name", builder.literal("abc")))
    assert tagged(parser, "ab") == (PARTIAL, [])
    assert tagged(parser, "abc") == (MATCH, [("name", "abc")])


def test_a_choice_takes_the_first_that_matches_even_partly() -> None:
    builder = Builder()
    parser = builder.choice(builder.tag("one", builder.literal("abc")), builder.tag("two", builder.literal("ab")))
    assert tagged(parser, "ab") == (PARTIAL, [("one", "ab")])
    assert tagged(parser, "ab", lenient=False) == (MATCH, [("two", "ab")])


def test_repetitions_end_with_the_input_and_with_an_empty_match() -> None:
    builder = Builder()
    assert builder.optional(builder.literal("a")).match("", 0, True) == (MATCH, 0, ())
    assert builder.repeat(builder.literal("a"), 2, -1).match("a", 0, True) == (PARTIAL, 1, ())
    assert builder.repeat(builder.literal("a"), 2, -1).match("ab", 0, True).kind == FAIL
    assert builder.many(builder.space()).match("  x", 0, True) == (MATCH, 2, ())


def test_looking_ahead_takes_nothing_and_does_not_guess() -> None:
    builder = Builder()
    letter = builder.literal("ab")
    assert builder.peek(letter).match("abc", 0, True) == (MATCH, 0, ())
    assert builder.negate(letter).match("abc", 0, True).kind == FAIL
    assert builder.negate(letter).match("x", 0, True) == (MATCH, 0, ())
    assert builder.negate(letter).match("a", 0, True).kind == PARTIAL


def test_characters_of_a_class_are_counted() -> None:
    builder = Builder()
    digits = builder.chars("[0-9]", 2, 3)
    assert digits.match("12345", 0, True) == (MATCH, 3, ())
    assert digits.match("1", 0, True) == (PARTIAL, 1, ())
    assert digits.match("1", 0, False).kind == FAIL
    assert digits.match("1x", 0, True).kind == FAIL


def test_a_string_ends_at_its_quote_and_before_an_escape_that_is_cut() -> None:
    content = Builder().string_content("'")
    assert content.match("a\\'b' c", 0, True) == (MATCH, 4, ())
    assert content.match("ab\\u00", 0, True) == (PARTIAL, 2, ())
    assert content.match("ab\\q", 0, True).kind == FAIL


def test_a_rule_may_refer_to_itself() -> None:
    builder = Builder()

    def nested() -> Parser:
        inside = builder.optional(builder.reference("nested"))
        return builder.sequence(builder.literal("("), inside, builder.literal(")"))

    parser = builder.rule_of("nested", nested)
    assert parser.match("((()))", 0, False) == (MATCH, 6, ())
    assert parser.match("((()", 0, True).kind == PARTIAL


def test_expressions_are_numbered_as_they_are_made_references_too() -> None:
    builder = Builder()
    parsers = [builder.empty(), builder.literal("a"), builder.rule("a b", builder.any()), builder.end()]
    assert [parser.number for parser in parsers] == [0, 1, 4, 5]
    assert list(builder.rules) == ["a-b"]
