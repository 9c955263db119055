"""Tests whose assertions go on: each `assert` becomes a call that writes down what it found and returns.

The tests were written for other models: some of what they expect (words, numbers of tokens) neither server can give
with ours. An assertion that raised there would hide everything after it; so none does, and what is compared is what
each of them found.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

CHECK = "__check__"
"""The name that a rewritten test calls; the plugin makes it a built-in."""

_HELD = "held"
found: dict[str, set[str]] = {}
"""Of the test that runs now: for each assertion's place, what it found each time that it was reached."""


def check(place: str, holds: Callable[[], object], seen: Callable[[], object] | None = None) -> None:
    """Write down whether an assertion holds, and what it saw if it does not.

    Raises:
        what evaluating it raises, as the `assert` would.
    """
    if holds():
        found.setdefault(place, set()).add(_HELD)
    else:
        found.setdefault(place, set()).add(f"did not hold: {seen()!r}" if seen else "did not hold")


def all_held(checks: dict[str, list[str]]) -> bool:
    """Whether every assertion that was reached held each time."""
    return all(what == [_HELD] for what in checks.values())


class _Rewriter(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """`assert left == right` becomes `__check__("file:line", lambda: left == right, lambda: left)`."""
        arguments: list[ast.expr] = [ast.Constant(f"{self._name}:{node.lineno}"), _later(node.test)]
        if isinstance(node.test, ast.Compare):
            arguments.append(_later(node.test.left))
        elif isinstance(node.test, ast.Call):
            plain = [each for each in node.test.args if not isinstance(each, ast.GeneratorExp | ast.Starred)]
            arguments.append(_later(ast.Tuple(plain, ast.Load())))
        call = ast.Call(ast.Name(CHECK, ast.Load()), arguments, [])
        return ast.copy_location(ast.Expr(call), node)


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)


def rewritten(source: str, name: str) -> str:
    """The source with each `assert` made a check; `name` is what its places are called by."""
    tree = _Rewriter(name).visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree))
