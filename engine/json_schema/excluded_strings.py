"""The rule of every JSON string but some: what the name of a property may be that the schema does not list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from engine.json_schema.limits import Budget

_COST = 32  # a character that is sorted into the tree takes as long as so many that are only copied

_Tree: TypeAlias = "dict[str, _Tree]"  # by the next character of the names that begin so


def any_string_but(names: Sequence[str], char_rule: str, budget: Budget) -> str:
    """The rule of a string, quotes included, that is none of `names`.

    At each character it follows the names that go on with it, or takes another one and then anything. As in
    llama-server b11192 (`_not_strings`) a string that only begins like a name is left out too, and characters that mean
    something in a class (`]`, `^`, `\\`) are written as they are.

    Args:
        names: the strings to leave out.
        char_rule: the name of the rule of one character.
        budget: what the grammar may still cost.

    Raises:
        SchemaTooLarge: the names are too long.
    """
    tree: _Tree = {}
    for name in names:
        budget.text(_COST * len(name))
        node = tree
        for char in name:
            node = node.setdefault(char, {})
    return f'["] ( {_alternatives(tree, char_rule)} ){"" if "" in names else "?"} ["]'


def _alternatives(tree: _Tree, char_rule: str) -> str:
    """What may come at one node and below. With a stack of its own: a name may be long."""
    parts: list[str] = []
    todo: list[_Tree | str] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        chars = sorted(node)
        if chars:
            todo.append(f' | [^"{"".join(chars)}] {char_rule}*')
        for char in reversed(chars):
            bar = "" if char == chars[0] else " | "
            if node[char]:
                todo += (")", node[char], f"{bar}[{char}] (")
            else:
                todo.append(f"{bar}[{char}] {char_rule}+")
    return "".join(parts)
