"""Values as Python writes them, or JSON's literals, as expressions."""

from __future__ import annotations

from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder


def python_or_json(b: Builder) -> Parser:
    """A dict, a list, a string, a number, a truth value or nothing."""
    return b.rule_of("python-or-json-value", lambda: _value(b))


def _value(b: Builder) -> Parser:
    space, value = b.space(), python_or_json(b)
    member = b.sequence(_string(b), space, b.literal(":"), space, value)
    members = b.sequence(member, b.many(b.sequence(space, b.literal(","), space, member)))
    dict_ = b.rule_of("python-or-json-dict", lambda: _bracketed(b, "{", space, members, "}"))
    elements = b.sequence(value, b.many(b.sequence(b.literal(","), space, value)))
    array = b.rule_of("python-or-json-array", lambda: _bracketed(b, "[", space, elements, "]"))
    return b.choice(
        *(dict_, array, _string(b), b.json_number()),
        b.rule_of("python-bool", lambda: b.choice(b.literal("True"), b.literal("False"))),
        b.rule_of("python-none", lambda: b.literal("None")),
        *(b.json_bool(), b.json_null()),
    )


def _bracketed(b: Builder, start: str, space: Parser, inside: Parser, end: str) -> Parser:
    opening, nothing = b.literal(start), b.literal(end)
    return b.sequence(opening, space, b.choice(nothing, b.sequence(inside, space, b.literal(end))), space)


def _string(b: Builder) -> Parser:
    return b.rule_of("python-string", lambda: b.choice(_quoted(b, "double", '"'), _quoted(b, "single", "'")))


def _quoted(b: Builder, name: str, quote: str) -> Parser:
    return b.rule_of(
        f"{name}-quoted-string", lambda: b.sequence(b.literal(quote), b.string_content(quote), b.literal(quote))
    )
