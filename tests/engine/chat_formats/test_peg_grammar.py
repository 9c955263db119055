"""Parsing expressions as GBNF."""

from __future__ import annotations

from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.peg_grammar import add_grammar


class Rules:
    """Keeps rules as they come."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}

    def add_rule(self, name: str, rule: str, /) -> str:
        self.rules[name] = rule
        return name

    def add_schema(self, name: str, schema: object, /) -> str:
        return self.add_rule(name, repr(schema))


def grammar(builder: Builder, root: Parser) -> dict[str, str]:
    rules = Rules()
    add_grammar(rules, root, builder.rules)
    return rules.rules


def test_sequences_and_choices_are_grouped_where_they_must_be() -> None:
    b = Builder()
    either = b.choice(b.literal("a"), b.sequence(b.literal("b"), b.tag("t", b.literal('"'))))
    root = b.sequence(b.empty(), b.optional(either), b.space(), b.many(b.any()), b.peek(b.any()), b.end())
    assert grammar(b, root) == {"root": r'("a" | "b" "\"")? space .*'}


def test_counts_are_written_as_short_as_they_go() -> None:
    b = Builder()
    one = b.literal("a")
    counts = [(0, 1), (0, -1), (1, -1), (1, 1), (2, 2), (2, -1), (2, 5)]
    root = b.sequence(*(b.repeat(one, *count) for count in counts), b.chars("[0-9]", 1, 3))
    assert grammar(b, root)["root"] == '"a"? "a"* "a"+ "a" "a"{2} "a"{2,} "a"{2,5} [0-9]{1,3}'


def test_text_before_a_delimiter_is_an_automatons_rules_named_after_the_expressions_number() -> None:
    b = Builder()
    b.empty()
    root = b.sequence(b.until("<a>"), b.rest())
    assert grammar(b, root) == {
        "until-1": "| [<] until-1-01 | [^<] until-1",
        "until-1-01": "| [<] until-1-01 | [a] until-1-02 | [^<a] until-1",
        "until-1-02": "| [<] until-1-01 | [^<>] until-1",
        "root": "until-1 .*",
    }


def test_characters_of_a_delimiter_are_escaped_in_classes() -> None:
    b = Builder()
    assert grammar(b, b.until("-]\n\té日😀"))["until-0"] == "| [\\-] until-0-01 | [^\\-] until-0"
    rules = grammar(b, b.until("é"))
    assert rules["until-1"] == "| [^\\xE9] until-1"


def test_only_rules_that_are_referred_to_are_written_and_schemas_write_their_own() -> None:
    b = Builder()
    b.rule("unused", b.any())
    root = b.rule("answer", b.schema(b.json(), "answer-schema", {"type": "null"}))
    rules = grammar(b, root)
    assert rules["root"] == "answer"
    assert rules["answer"] == "answer-schema"
    assert rules["answer-schema"] == "{'type': 'null'}"
    assert "unused" not in rules
    assert "json-value" in rules
