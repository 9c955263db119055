"""Parsing expressions for answers: text in, tagged parts out, and the same expressions as a grammar for the sampler.

The rules are those of llama-server b11192 (`common/peg-parser.cpp`). A *lenient* parse takes the input for the
beginning of one that may go on: where it ends too early the match is partial, and what was tagged so far counts.
Positions are characters; bytes that are no UTF-8 have become U+FFFD before.

Expressions are made by a `peg_builder.Builder`, which numbers them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from engine.chat_formats.peg_json import scan_literal
from engine.chat_formats.peg_results import FAIL, MATCH, PARTIAL, Capture, Outcome, Result

SPACE: Final = " \t\n\v\f\r"

Scan = Callable[[str, int, bool], Outcome]


class Parser(ABC):
    """An expression.

    Attributes:
        number: how many expressions its builder had made before.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    @abstractmethod
    def match(self, text: str, at: int, lenient: bool) -> Result:
        """Match `text` from `at` on."""


class Empty(Parser):
    """Nothing."""

    __slots__ = ()

    def match(self, text: str, at: int, lenient: bool) -> Result:
        return Result(MATCH, at)


class End(Parser):
    """The end of the input."""

    __slots__ = ()

    def match(self, text: str, at: int, lenient: bool) -> Result:
        return Result(MATCH if at >= len(text) else FAIL, at)


class Literal(Parser):
    """A fixed text."""

    __slots__ = ("literal",)

    def __init__(self, number: int, literal: str) -> None:
        super().__init__(number)
        self.literal = literal

    def match(self, text: str, at: int, lenient: bool) -> Result:
        kind, end = scan_literal(text, at, self.literal)
        return Result(kind, end) if kind != PARTIAL or lenient else Result(FAIL, at)


class Any(Parser):
    """One character."""

    __slots__ = ()

    def match(self, text: str, at: int, lenient: bool) -> Result:
        if at < len(text):
            return Result(MATCH, at + 1)
        return Result(PARTIAL if lenient else FAIL, at)


class Space(Parser):
    """White space, be it none."""

    __slots__ = ()
    _run: Final = re.compile(f"[{SPACE}]*+")

    def match(self, text: str, at: int, lenient: bool) -> Result:
        found = self._run.match(text, at)
        return Result(MATCH, at if found is None else found.end())


class Chars(Parser):
    """Characters of a class, `least` to `most` of them (-1: any number).

    Args:
        pattern: the class as GBNF writes it, `[...]`; regular expressions write those in use alike.
    """

    __slots__ = ("_run", "least", "most", "pattern")

    def __init__(self, number: int, pattern: str, least: int, most: int) -> None:
        super().__init__(number)
        self.pattern, self.least, self.most = pattern, least, most
        self._run = re.compile(f"{pattern}{{0,{most if most >= 0 else ''}}}", re.DOTALL)

    def match(self, text: str, at: int, lenient: bool) -> Result:
        found = self._run.match(text, at)
        end = at if found is None else found.end()
        if end - at >= self.least:
            return Result(MATCH, end)
        if end < len(text) or not lenient:
            return Result(FAIL, end if end < len(text) else at)
        return Result(PARTIAL, end)


class StringContent(Parser):
    """What stands between the quotes of a JSON-like string."""

    __slots__ = ("_cut_escape", "_run", "delimiter")

    def __init__(self, number: int, delimiter: str) -> None:
        super().__init__(number)
        self.delimiter = delimiter
        quote = re.escape(delimiter)
        self._run = re.compile(rf"(?:[^{quote}\\]++|\\(?:[{quote}\\/bfnrt]|u[0-9a-fA-F]{{4}}))*+")
        self._cut_escape = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")

    def match(self, text: str, at: int, lenient: bool) -> Result:
        found = self._run.match(text, at)
        end = at if found is None else found.end()
        if text.startswith(self.delimiter, end):
            return Result(MATCH, end)
        if lenient and (end == len(text) or self._cut_escape.match(text, end)):
            return Result(PARTIAL, end)
        return Result(FAIL, end if end == len(text) else at)


class Until(Parser):
    """Everything before the first of some texts, or before the beginning of one at the input's end; else everything."""

    __slots__ = ("_find", "_longest", "delimiters")

    def __init__(self, number: int, delimiters: Sequence[str]) -> None:
        super().__init__(number)
        self.delimiters = tuple(delimiters)
        searched = [text for text in delimiters if text]
        self._find = re.compile("|".join(map(re.escape, searched))) if searched else None
        self._longest = max(map(len, searched), default=0)

    def match(self, text: str, at: int, lenient: bool) -> Result:
        if self._find is not None:
            found = self._find.search(text, at)
            if found is not None:
                return Result(MATCH, found.start())
            for begin in range(max(at, len(text) - self._longest + 1), len(text)):
                if any(text_.startswith(text[begin:]) for text_ in self.delimiters):
                    return Result(MATCH, begin)
        return Result(PARTIAL if lenient else MATCH, len(text))


class Chain(Parser):
    """All of some expressions, one after the other."""

    __slots__ = ("parts",)

    def __init__(self, number: int, parts: Sequence[Parser]) -> None:
        super().__init__(number)
        self.parts = tuple(parts)

    def match(self, text: str, at: int, lenient: bool) -> Result:
        captures: tuple[Capture, ...] = ()
        for part in self.parts:
            kind, at, found = part.match(text, at, lenient)
            if kind == FAIL:
                return Result(FAIL, at)
            captures += found
            if kind == PARTIAL:
                return Result(PARTIAL, at, captures)
        return Result(MATCH, at, captures)


class Choice(Parser):
    """The first of some expressions that matches, wholly or partly."""

    __slots__ = ("parts",)

    def __init__(self, number: int, parts: Sequence[Parser]) -> None:
        super().__init__(number)
        self.parts = tuple(parts)

    def match(self, text: str, at: int, lenient: bool) -> Result:
        for part in self.parts:
            result = part.match(text, at, lenient)
            if result.kind != FAIL:
                return result
        return Result(FAIL, at)


class Repeat(Parser):
    """An expression `least` to `most` times (-1: any number), as often as it goes."""

    __slots__ = ("least", "most", "part")

    def __init__(self, number: int, part: Parser, least: int, most: int) -> None:
        super().__init__(number)
        self.part, self.least, self.most = part, least, most

    def match(self, text: str, at: int, lenient: bool) -> Result:
        captures: tuple[Capture, ...] = ()
        count = 0
        while at < len(text) and count != self.most:
            kind, end, found = self.part.match(text, at, lenient)
            if kind == FAIL or (kind == MATCH and end == at):
                break
            captures += found
            if kind == PARTIAL:
                return Result(PARTIAL, end, captures)
            at, count = end, count + 1
        if count >= self.least:
            return Result(MATCH, at, captures)
        return Result(PARTIAL, at, captures) if at >= len(text) and lenient else Result(FAIL, at)


class Peek(Parser):
    """An expression must match here, but nothing is taken; or, negated, it must not."""

    __slots__ = ("negated", "part")

    def __init__(self, number: int, part: Parser, *, negated: bool) -> None:
        super().__init__(number)
        self.part, self.negated = part, negated

    def match(self, text: str, at: int, lenient: bool) -> Result:
        kind = self.part.match(text, at, lenient).kind
        if self.negated and kind != PARTIAL:
            kind = FAIL if kind == MATCH else MATCH
        return Result(kind, at)


class Tag(Parser):
    """An expression whose match is reported under a name."""

    __slots__ = ("part", "tag")

    def __init__(self, number: int, tag: str, part: Parser) -> None:
        super().__init__(number)
        self.tag, self.part = tag, part

    def match(self, text: str, at: int, lenient: bool) -> Result:
        kind, end, inside = self.part.match(text, at, lenient)
        if kind == FAIL:
            return Result(FAIL, end)
        return Result(kind, end, (Capture(self.tag, text[at:end], inside, kind == PARTIAL),))


class Atomic(Parser):
    """An expression that reports nothing of a partial match."""

    __slots__ = ("part",)

    def __init__(self, number: int, part: Parser) -> None:
        super().__init__(number)
        self.part = part

    def match(self, text: str, at: int, lenient: bool) -> Result:
        result = self.part.match(text, at, lenient)
        return Result(PARTIAL, result.end) if result.kind == PARTIAL else result


class Schema(Parser):
    """An expression for whose match the grammar has a JSON schema's rules.

    Attributes:
        name: of the grammar's rule.
        schema: as JSON, or as the node that was read of it.
    """

    __slots__ = ("name", "part", "schema")

    def __init__(self, number: int, part: Parser, name: str, schema: object) -> None:
        super().__init__(number)
        self.part, self.name, self.schema = part, name, schema

    def match(self, text: str, at: int, lenient: bool) -> Result:
        return self.part.match(text, at, lenient)


class Including(Parser):
    """An expression whose grammar is any text up to the first of some texts, that one included."""

    __slots__ = ("delimiters", "part")

    def __init__(self, number: int, part: Parser, delimiters: Sequence[str]) -> None:
        super().__init__(number)
        self.part, self.delimiters = part, tuple(delimiters)

    def match(self, text: str, at: int, lenient: bool) -> Result:
        return self.part.match(text, at, lenient)


class WrittenAs(Parser):
    """An expression whose grammar is another one, given as GBNF."""

    __slots__ = ("gbnf", "part")

    def __init__(self, number: int, part: Parser, gbnf: str) -> None:
        super().__init__(number)
        self.part, self.gbnf = part, gbnf

    def match(self, text: str, at: int, lenient: bool) -> Result:
        return self.part.match(text, at, lenient)


class Rule(Parser):
    """An expression with a name, which the grammar makes a rule of.

    Attributes:
        scan: matches in place of the expression, faster and without recursion.
        triggers: a lazy grammar begins here.
    """

    __slots__ = ("name", "part", "scan", "triggers")

    def __init__(self, number: int, name: str, part: Parser, scan: Scan | None = None, *, triggers: bool) -> None:
        super().__init__(number)
        self.name, self.part, self.scan, self.triggers = name, part, scan, triggers

    def match(self, text: str, at: int, lenient: bool) -> Result:
        if self.scan is not None:
            return Result(*self.scan(text, at, lenient))
        return self.part.match(text, at, lenient)


class Reference(Parser):
    """A rule by its name, which may be defined later."""

    __slots__ = ("_rules", "name")

    def __init__(self, number: int, name: str, rules: dict[str, Rule]) -> None:
        super().__init__(number)
        self.name, self._rules = name, rules

    @property
    def rule(self) -> Rule:
        return self._rules[self.name]

    def match(self, text: str, at: int, lenient: bool) -> Result:
        return self.rule.match(text, at, lenient)
