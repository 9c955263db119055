"""A `pattern` as a rule: the part of regular expressions that llama-server b11192 turns into a grammar.

It reads the pattern byte by byte, which shows: a repetition after a character of several bytes takes its last byte only
and the rule is then no UTF-8. Such bytes are in our text as lone surrogates (Python's `surrogateescape`), and the
grammar parser refuses them as the reference's does.
"""

from __future__ import annotations

import re
from typing import Final

from engine.json_schema.limits import Budget
from engine.json_schema.parsing import leading_integer
from engine.json_schema.rules import NO_MAXIMUM, RuleTable, repetition

_MAX_GROUPS: Final = 100  # inside each other; the reference's limit
_COST: Final = 32  # a character that is read here takes as long as so many that are only copied
_SPECIAL: Final = frozenset("|.()[]{}*+?^$")
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\\"\[\]-])")


class UnsupportedPattern(Exception):
    """A regular expression that no grammar is made of; any string is accepted instead. The text says why."""


class InvalidPattern(Exception):
    """Not a regular expression. The text is the reference's."""


class _Parts:
    """The parts of a group, in order: literals, whose quotes are still missing, and finished ones."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, bool]] = []

    def add(self, text: str, *, is_literal: bool = False) -> None:
        self._parts.append((text, is_literal))

    def pop(self) -> tuple[str, bool]:
        """The last part, and whether it is a literal.

        Raises:
            InvalidPattern: there is none to repeat.
        """
        if not self._parts:
            raise InvalidPattern("nothing to repeat")
        return self._parts.pop()

    def joined(self) -> str:
        """The whole group; literals that stand side by side are one."""
        texts: list[str] = []
        run: list[str] = []
        for text, is_literal in (*self._parts, ("", False)):
            if is_literal:
                run.append(text)
                continue
            if run:
                texts.append(f'"{"".join(run)}"')
                run.clear()
            texts.append(text)
        return " ".join(texts[:-1])


class _PatternReader:
    """One pattern, without its anchors, on its way to a rule. `text` has a character for each byte."""

    def __init__(self, text: str, name: str, rules: RuleTable, budget: Budget, *, dotall: bool) -> None:
        self._text = text
        self._name = name
        self._rules = rules
        self._budget = budget
        self._dot = r"[\U00000000-\U0010FFFF]" if dotall else r"[^\x0A\x0D]"
        self._at = 0
        self._groups = [_Parts()]
        self._repeated: dict[str, str] = {}

    def rule(self) -> str:
        """Reads it all.

        Raises:
            UnsupportedPattern: no grammar says this.
            InvalidPattern: it is not a regular expression.
        """
        steps = {
            ".": self._any_character,
            "(": self._open,
            ")": self._close,
            "^": self._anchor,
            "$": self._anchor,
            "[": self._class,
            "|": self._or,
            "*": self._repeat,
            "+": self._repeat,
            "?": self._repeat,
            "{": self._repeat_counted,
        }
        while self._at < len(self._text):
            steps.get(self._text[self._at], self._literal)()
        if len(self._groups) > 1:
            raise InvalidPattern("unbalanced parentheses")
        return self._groups[0].joined()

    def _any_character(self) -> None:
        self._groups[-1].add(self._rules.add("dot", self._dot))
        self._at += 1

    def _open(self) -> None:
        self._at += 1
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._text.startswith("?", self._at):
            raise UnsupportedPattern("unsupported group syntax")
        if len(self._groups) > _MAX_GROUPS:
            raise UnsupportedPattern("pattern nesting too deep")
        self._groups.append(_Parts())

    def _close(self) -> None:
        self._at += 1
        if len(self._groups) == 1:
            raise InvalidPattern("unbalanced parentheses")
        group = self._groups.pop()
        self._groups[-1].add(f"({group.joined()})")

    def _anchor(self) -> None:
        raise UnsupportedPattern("anchor inside the pattern")

    def _or(self) -> None:
        self._groups[-1].add("|")
        self._at += 1

    def _class(self) -> None:
        start = self._at
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != "]":
            if self._text[self._at] == "\\":
                self._at += len(self._escape(" in character class"))
            else:
                self._at += 1
        if self._at >= len(self._text):
            raise InvalidPattern("unterminated character class")
        self._at += 1
        self._groups[-1].add(self._text[start : self._at])

    def _repeat(self) -> None:
        text, is_literal = self._groups[-1].pop()
        self._budget.text(len(text))  # it is copied, and a thousand times in a pattern of a thousand stars
        text = f'"{text}"' if is_literal else text
        self._groups[-1].add(f"{text}{self._text[self._at]}")
        self._at += 1

    def _repeat_counted(self) -> None:
        end = self._text.find("}", self._at)
        if end < 0:
            raise UnsupportedPattern("unterminated curly brackets")
        least, most = _counts(self._text[self._at + 1 : end])
        self._at = end + 1
        text, is_literal = self._groups[-1].pop()
        if is_literal:
            item = f'"{text}"'
        else:  # a rule of its own, the same for the same text
            if text not in self._repeated:
                self._repeated[text] = ""
                self._repeated[text] = self._rules.add(f"{self._name}-{len(self._repeated)}", as_text(text))
            item = self._repeated[text]
        self._groups[-1].add(repetition(item, least, most))

    def _literal(self) -> None:
        found: list[str] = []
        while self._at < len(self._text):
            char, following = self._text[self._at], self._text[self._at + 1 : self._at + 2]
            if char == "\\":
                if not following:
                    raise InvalidPattern("trailing backslash")
                if following in _SPECIAL:
                    found.append(following)
                    self._at += 2
                else:
                    found.append(self._escape(""))
                    self._at += len(found[-1])
                continue
            # What the next step repeats must stand alone, but for a dot.
            if char == '"' or (char not in _SPECIAL and (not found or following == "." or following not in _SPECIAL)):
                found.append(r"\"" if char == '"' else char)
                self._at += 1
                continue
            break
        if not found:
            raise UnsupportedPattern(f"unsupported character: {self._text[self._at]}")
        self._groups[-1].add("".join(found), is_literal=True)

    def _escape(self, where: str) -> str:
        """The escape at hand, when grammars have it too."""
        escape = _ESCAPE.match(self._text, self._at)
        if not escape:
            shown = self._text[self._at : self._at + 2].encode("latin-1").decode("utf-8", "replace")
            raise UnsupportedPattern(f"unsupported escape{where}: {shown}")
        return escape[0]


def _counts(text: str) -> tuple[int, int]:
    """The numbers of `{1}`, `{1,}`, `{,2}` or `{1,2}`; what follows a number is not looked at, as in the reference."""
    numbers = text.split(",")
    if len(numbers) > 2:
        raise UnsupportedPattern("wrong number of values in curly brackets")
    if len(numbers) == 1:
        numbers *= 2
        bounds = [leading_integer(number) for number in numbers]
    else:
        bounds = [
            leading_integer(number) if number else default
            for number, default in zip(numbers, (0, NO_MAXIMUM), strict=True)
        ]
    least, most = bounds
    if least is None or most is None or not all(-(2**31) <= number < 2**31 for number in (least, most)):
        raise UnsupportedPattern("invalid number in curly brackets")
    return least, most


def as_text(text: str) -> str:
    """A rule with a character for each byte as the text those bytes are."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def pattern_rule(pattern: str, name: str, rules: RuleTable, budget: Budget, *, dotall: bool) -> str:
    """Adds the rule of the strings that `pattern` matches, quotes included, and says under which name it stands.

    Args:
        pattern: it must begin with `^` and end with `$`.
        name: what the rule should be called; smaller ones that it needs are called `NAME-1` and so on.
        rules: where they are added; what was added stays when the pattern turns out wrong.
        budget: what the grammar may still cost.
        dotall: whether `.` is a line end, too.

    Raises:
        UnsupportedPattern: no grammar says this.
        InvalidPattern: it is not a regular expression.
        InvalidRequest: the grammar gets too long.
    """
    if len(pattern) < 2 or pattern[0] != "^" or pattern[-1] != "$":
        raise UnsupportedPattern("not anchored with '^' and '$'")
    budget.text(_COST * len(pattern))
    text = pattern[1:-1].encode("utf-8", "surrogateescape").decode("latin-1")
    rule = _PatternReader(text, name, rules, budget, dotall=dotall).rule()
    return rules.add(name, rf'"\"" ({as_text(rule)}) "\""')
