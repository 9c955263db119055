"""The rules of one grammar: their names, the built-in ones, and the text they make together.

Names and texts are those of llama-server b11192 (`common/json-schema-to-grammar.cpp`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from engine.json_schema.limits import Budget

NO_MAXIMUM: Final = 2**31 - 1
"""A greatest number of repetitions that means there is none."""

_PRIMITIVES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "boolean": ('("true" | "false")', ()),
    "decimal-part": ("[0-9]{1,16}", ()),
    "integral-part": ("[0] | [1-9] [0-9]{0,15}", ()),
    "number": (
        '("-"? integral-part) ("." decimal-part)? ([eE] [-+]? integral-part)?',
        ("integral-part", "decimal-part"),
    ),
    "integer": ('("-"? integral-part)', ("integral-part",)),
    "value": (
        "object | array | string | number | boolean | null",
        ("object", "array", "string", "number", "boolean", "null"),
    ),
    "object": (
        '"{" space ( string ":" space value ("," space string ":" space value)* )? space "}"',
        ("string", "value"),
    ),
    "array": ('"[" space ( value ("," space value)* )? space "]"', ("value",)),
    "uuid": (
        r'"\"" [0-9a-fA-F]{8} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{12} "\""',
        (),
    ),
    "char": (r'[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})', ()),
    "string": (r'"\"" char* "\""', ("char",)),
    "null": ('"null"', ()),
    "date": ('[0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [1-2] [0-9] | "3" [0-1] )', ()),
    "time": (
        '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{3} )? '
        '( "Z" | ( "+" | "-" ) ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )',
        (),
    ),
    "date-time": ('date "T" time', ("date", "time")),
    "date-string": (r'"\"" date "\""', ("date",)),
    "time-string": (r'"\"" time "\""', ("time",)),
    "date-time-string": (r'"\"" date-time "\""', ("date-time",)),
}
"""The built-in rules: text, and the rules it needs."""

RESERVED: Final = frozenset(("root", *_PRIMITIVES))
"""Names no schema's rule may have."""

_SPACE: Final = r'| " " | "\n"{1,2} [ \t]{0,20}'
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9-]+")
_ESCAPES: Final = str.maketrans({"\r": r"\r", "\n": r"\n", '"': r"\"", "\\": r"\\"})


def rule_name(text: str) -> str:
    """A text as the name of a rule: each run of characters that names do not have is one hyphen."""
    return _NOT_IN_NAMES.sub("-", text)


def literal(text: str) -> str:
    """A text as a literal of the grammar, quotes and all (the reference's `gbnf_format_literal`)."""
    return f'"{text.translate(_ESCAPES)}"'


def repetition(item: str, least: int, most: int, separator: str = "") -> str:
    """`item` so many times, with `separator` between; `most` is `NO_MAXIMUM` when there is none.

    Numbers that contradict each other are written as they are; the grammar parser has its own opinion of them.
    """
    if most == 0:
        return ""
    if least == 0 and most == 1:
        return f"{item}?"
    unbounded = most == NO_MAXIMUM
    if separator:
        more = repetition(f"({separator} {item})", max(least - 1, 0), most if unbounded else most - 1)
        return f"{item} {more}" if least else f"({item} {more})?"
    if unbounded and least in (0, 1):
        return f"{item}{'+' if least else '*'}"
    return f"{item}{{{least},{'' if unbounded else most}}}"


class RuleTable:
    """Named rules. A name that another rule has gets a number, the same rule keeps its name.

    Args:
        budget: what the rules may still cost.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._rules = {"space": _SPACE}
        # By name: how many numbers after it are known to be taken, and which of its rules have which name.
        self._numbered: dict[str, tuple[int, dict[str, str]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._rules

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, name: str, rule: str) -> str:
        """Adds a rule and says under which name it stands.

        Raises:
            InvalidRequest: the grammar gets too long.
        """
        self._budget.text(len(name) + len(rule))
        name = rule_name(name)
        if self._rules.setdefault(name, rule) == rule:
            return name
        number, names = self._numbered.get(name, (0, {}))
        while rule not in names:
            key = f"{name}{number}"
            self._budget.text(len(key))
            names.setdefault(self._rules.setdefault(key, rule), key)
            number += 1
        self._numbered[name] = number, names
        return names[rule]

    def add_primitive(self, kind: str, name: str | None = None) -> str:
        """Adds a built-in rule and what it needs; under another name when one is given."""
        rule, needed = _PRIMITIVES[kind]
        added = self.add(kind if name is None else name, rule)
        for each in needed:
            if each not in self._rules:
                self.add_primitive(each)
        return added

    def forget(self, count: int) -> None:
        """Takes back the newest rules, so that `count` are left."""
        while len(self._rules) > count:
            self._rules.popitem()
        self._numbered.clear()

    def text(self) -> str:
        """The grammar: a rule a line, in the order of their names' bytes."""
        return "".join(f"{name} ::= {rule}\n" for name, rule in sorted(self._rules.items()))
