"""How large a schema may grow on its way to a grammar, so that no request costs more than a blink.

llama-server has no such limits: a schema whose expansion doubles at every level keeps it busy until its memory ends,
and one that inlines itself ends its process. Each limit is far above what a schema for a model's answer needs.
"""

from __future__ import annotations

from typing import Any

import orjson

from engine.errors import InvalidRequest

MAX_DEPTH = 200
"""Schemas inside schemas, through `$ref` too; also the nesting of a `const` or `enum` value. Each level takes up to
three of the thousand calls that Python lets stand inside each other."""

MAX_NODES = 8192
"""Schemas, values in `const` and `enum` and names in `required`, each as often as the expansion comes by it."""

MAX_SOURCE = 512 * 1024
"""Bytes of the schema itself, as JSON."""

MAX_TEXT = 1024 * 1024
"""Characters of rules and of the names they are made under; those that take long to read count for more than one."""


class SchemaTooLarge(InvalidRequest):
    """The schema passes a limit of ours; the reference would have gone on."""


class Budget:
    """What one grammar may still cost. Each method counts, and refuses the schema when its limit is passed."""

    __slots__ = ("_depth", "_nodes", "_text")

    def __init__(self) -> None:
        self._depth = 0
        self._nodes = 0
        self._text = 0

    def enter(self) -> None:
        """One schema deeper; `leave` undoes it.

        Raises:
            SchemaTooLarge: deeper than `MAX_DEPTH`, or more than `MAX_NODES` schemas.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise too_deep()
        self.nodes(1)

    def leave(self) -> None:
        """One schema less deep."""
        self._depth -= 1

    def nodes(self, count: int) -> None:
        """`count` more schemas or values.

        Raises:
            SchemaTooLarge: more than `MAX_NODES`.
        """
        self._nodes += count
        if self._nodes > MAX_NODES:
            raise SchemaTooLarge(f"JSON schema is too large: it expands to more than {MAX_NODES} schemas and values")

    def text(self, length: int) -> None:
        """`length` more characters.

        Raises:
            SchemaTooLarge: more than `MAX_TEXT`.
        """
        self._text += length
        if self._text > MAX_TEXT:
            raise SchemaTooLarge(f"JSON schema is too large: its grammar has more than {MAX_TEXT} characters")


def check_source(schema: Any) -> None:
    """Refuse a schema that is long before anything is made of it.

    Raises:
        SchemaTooLarge: longer than `MAX_SOURCE`.
    """
    try:
        size = len(orjson.dumps(schema))
    except (TypeError, ValueError):  # an integer of more than 64 bits, or nested deeper than orjson goes
        return
    if size > MAX_SOURCE:
        raise SchemaTooLarge(f"JSON schema is too large: it has more than {MAX_SOURCE} bytes")


def too_deep() -> SchemaTooLarge:
    """The refusal of a schema or value that is nested deeper than `MAX_DEPTH`."""
    return SchemaTooLarge(f"JSON schema is too deep: more than {MAX_DEPTH} schemas or values inside each other")
