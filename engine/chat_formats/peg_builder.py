"""Makes parsing expressions and numbers them in the order of their making.

The grammar names rules after those numbers, so an expression that is made and thrown away counts too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from engine.chat_formats.peg import (
    Any,
    Atomic,
    Chain,
    Chars,
    Choice,
    Empty,
    End,
    Including,
    Literal,
    Parser,
    Peek,
    Reference,
    Repeat,
    Rule,
    Scan,
    Schema,
    Space,
    StringContent,
    Tag,
    Until,
    WrittenAs,
)
from engine.chat_formats.peg_json import JsonScan

_MOST_PERMUTED: Final = 6

Operand: TypeAlias = Parser | str | Callable[[], Parser]


class Builder:
    """Makes expressions and numbers them.

    Attributes:
        rules: the named ones.
    """

    def __init__(self) -> None:
        self._count = 0
        self.rules: dict[str, Rule] = {}

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def empty(self) -> Parser:
        return Empty(self._next())

    def end(self) -> Parser:
        return End(self._next())

    def any(self) -> Parser:
        return Any(self._next())

    def space(self) -> Parser:
        return Space(self._next())

    def literal(self, text: str) -> Parser:
        return Literal(self._next(), text)

    def chars(self, pattern: str, least: int = 1, most: int = -1) -> Parser:
        return Chars(self._next(), pattern, least, most)

    def string_content(self, delimiter: str) -> Parser:
        return StringContent(self._next(), delimiter)

    def until(self, *delimiters: str) -> Parser:
        return Until(self._next(), delimiters)

    def rest(self) -> Parser:
        return self.until()

    def sequence(self, *parts: Parser) -> Parser:
        """One after the other; a sequence among them is taken apart."""
        flat: list[Parser] = []
        for part in parts:
            flat += part.parts if isinstance(part, Chain) else (part,)
        return Chain(self._next(), flat)

    def joined(self, *parts: Parser) -> Parser:
        """The sequence, made by joining two at a time: it counts as one expression for each joint."""
        joined = parts[0]
        for part in parts[1:]:
            joined = self.sequence(joined, part)
        return joined

    def plus(self, *parts: Operand) -> Parser:
        """The sequence that the reference's `a + b + c` makes: its compiler takes the operands from the right, then
        joins them from the left. What is callable is made in its turn, a text when it is joined.
        """
        operands = [part() if callable(part) else part for part in reversed(parts)]
        joined = operands.pop()
        while operands:
            other = operands.pop()
            other = self.literal(other) if isinstance(other, str) else other
            joined = self.sequence(self.literal(joined) if isinstance(joined, str) else joined, other)
        assert isinstance(joined, Parser)
        return joined

    def spaced(self, *parts: Operand) -> Parser:
        """The sequence that the reference's `a << b << c` makes, with white space between: from the left."""
        first, *others = parts
        joined = None if isinstance(first, str) else self._made(first)  # a text in front is made when it is joined
        for other in others:
            part = self._made(other)
            joined = self._made(first) if joined is None else joined
            joined = self.sequence(joined, self.space(), part)
        return self._made(first) if joined is None else joined

    def _made(self, part: Operand) -> Parser:
        if isinstance(part, str):
            return self.literal(part)
        return part if isinstance(part, Parser) else part()

    def choice(self, *parts: Parser) -> Parser:
        """The first that matches; a choice among them is taken apart."""
        flat: list[Parser] = []
        for part in parts:
            flat += part.parts if isinstance(part, Choice) else (part,)
        return Choice(self._next(), flat)

    def repeat(self, part: Parser, least: int, most: int) -> Parser:
        return Repeat(self._next(), part, least, most)

    def optional(self, part: Parser) -> Parser:
        return self.repeat(part, 0, 1)

    def many(self, part: Parser) -> Parser:
        return self.repeat(part, 0, -1)

    def peek(self, part: Parser) -> Parser:
        return Peek(self._next(), part, negated=False)

    def negate(self, part: Parser) -> Parser:
        return Peek(self._next(), part, negated=True)

    def tag(self, tag: str, part: Parser) -> Parser:
        return Tag(self._next(), tag, part)

    def atomic(self, part: Parser) -> Parser:
        return Atomic(self._next(), part)

    def schema(self, part: Parser, name: str, schema: object) -> Parser:
        return Schema(self._next(), part, name, schema)

    def including(self, part: Parser, *delimiters: str) -> Parser:
        return Including(self._next(), part, delimiters)

    def written_as(self, part: Parser, gbnf: str) -> Parser:
        return WrittenAs(self._next(), part, gbnf)

    def reference(self, name: str) -> Parser:
        return Reference(self._next(), name, self.rules)

    def rule(self, name: str, part: Parser, *, triggers: bool = False) -> Parser:
        """Name an expression; an earlier one of the name gives way, in what refers to it too.

        Args:
            triggers: a lazy grammar begins here.

        Returns:
            A reference to the rule.
        """
        name = re.sub("[^a-zA-Z0-9-]+", "-", name)
        self.rules[name] = Rule(self._next(), name, part, triggers=triggers)
        return self.reference(name)

    def rule_of(self, name: str, make: Callable[[], Parser], scan: Scan | None = None) -> Parser:
        """Name an expression that may refer to its own rule; an existing rule is used again.

        Args:
            make: makes the expression.
            scan: see `Rule`.
        """
        if name not in self.rules:
            placeholder = self.any()
            self.rules[name] = Rule(self._next(), name, placeholder, triggers=False)
            part = make()
            self.rules[name] = Rule(self._next(), name, part, scan, triggers=False)
        return self.reference(name)

    def permuted(self, name: str, parts: Sequence[Parser]) -> Parser:
        """All of some expressions in any order; in the given one if there are more than six.

        Args:
            name: the rules for what is left to come are named after it.
        """
        if not parts:
            return self.empty()
        if len(parts) == 1 or len(parts) > _MOST_PERMUTED:
            return self.sequence(*parts)
        known: dict[int, Parser] = {}

        def left(which: int) -> Parser:
            if not which:
                return self.empty()
            if which not in known:
                orders = self.choice()
                for number, part in enumerate(parts):
                    if which & 1 << number:
                        orders = self.choice(orders, self.plus(part, partial(left, which & ~(1 << number))))
                known[which] = self.rule(f"{name}-{which}", orders)
            return known[which]

        return left((1 << len(parts)) - 1)

    # -- JSON ------------------------------------------------------------------------------------------------------

    def json(self) -> Parser:
        """A JSON value."""
        return self.rule_of("json-value", self._json_value, JsonScan())

    def _json_value(self) -> Parser:
        return self.choice(
            self.json_object(),
            self.json_array(),
            self.json_string(),
            self.json_number(),
            self.json_bool(),
            self.json_null(),
        )

    def json_object(self) -> Parser:
        """A JSON object."""
        return self.rule_of("json-object", self._json_object)

    def json_array(self) -> Parser:
        """A JSON array."""
        return self.rule_of("json-array", self._json_array)

    def json_number(self) -> Parser:
        """A JSON number."""
        return self.rule_of("json-number", self._json_number)

    def json_bool(self) -> Parser:
        """`true` or `false`."""
        return self.rule_of("json-bool", lambda: self.choice(self.literal("true"), self.literal("false")))

    def json_null(self) -> Parser:
        """`null`."""
        return self.rule_of("json-null", lambda: self.literal("null"))

    def json_string(self) -> Parser:
        """A JSON string."""
        return self.rule_of(
            "json-string", lambda: self.sequence(self.literal('"'), self.string_content('"'), self.literal('"'))
        )

    def _json_object(self) -> Parser:
        space = self.space()
        member = self.sequence(self.json_string(), space, self.literal(":"), space, self.json())
        more = self.many(self.sequence(space, self.literal(","), space, member))
        return self._bracketed("{", space, self.sequence(member, more), "}")

    def _json_array(self) -> Parser:
        space = self.space()
        first = self.json()
        more = self.many(self.sequence(space, self.literal(","), space, self.json()))
        return self._bracketed("[", space, self.sequence(first, more), "]")

    def _bracketed(self, opening: str, space: Parser, items: Parser, closing: str) -> Parser:
        start = self.literal(opening)
        nothing = self.literal(closing)
        filled = self.sequence(items, space, self.literal(closing))
        return self.sequence(start, space, self.choice(nothing, filled))

    def _json_number(self) -> Parser:
        first = self.chars("[1-9]", 1, 1)
        digits = self.chars("[0-9]")
        zero = self.literal("0")
        whole = self.choice(zero, self.sequence(first, self.chars("[0-9]", 0, -1)))
        fraction = self.sequence(self.literal("."), digits)
        mark = self.choice(self.literal("e"), self.literal("E"))
        exponent = self.sequence(mark, self.optional(self.chars("[+-]", 1, 1)), digits)
        ended = self.negate(self.chars("[0-9.eE+-]", 1, 1))
        sign = self.optional(self.literal("-"))
        return self.sequence(sign, whole, self.optional(fraction), self.optional(exponent), ended)
