"""What a JSON schema means, as far as a grammar can say it: one immutable node for each schema inside it.

The kinds and their fields are those of llama-server b11192 (`common/json-schema.h`), because a node decides which rules
are written. No bound is None, not a number that stands for it; integers keep the 64-bit ends, which mean that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from engine.json_schema.integers import INT64_MAX, INT64_MIN


class StringFormat(Enum):
    """The formats that have rules; any other one is dropped."""

    UUID = "uuid"
    DATE = "date"
    TIME = "time"
    DATE_TIME = "date-time"


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any JSON value."""


@dataclass(frozen=True, slots=True)
class NullValue:
    """`null`."""


@dataclass(frozen=True, slots=True)
class BooleanValue:
    """`true` or `false`."""


@dataclass(frozen=True, slots=True)
class NumberValue:
    """Any number."""


@dataclass(frozen=True, slots=True)
class IntegerValue:
    """An integer; both bounds belong to it, an end of the 64-bit range is none."""

    minimum: int = INT64_MIN
    maximum: int = INT64_MAX


@dataclass(frozen=True, slots=True)
class StringValue:
    """A string. `pattern` goes before `format`, and that before the lengths (in characters)."""

    pattern: str = ""
    format: StringFormat | None = None
    min_length: int = 0
    max_length: int | None = None


@dataclass(frozen=True, slots=True)
class ConstValue:
    """One value, parsed JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class EnumValue:
    """One of the values, parsed JSON; never empty."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array whose items follow one schema."""

    items: Node
    min_items: int = 0
    max_items: int | None = None


@dataclass(frozen=True, slots=True)
class TupleValue:
    """An array with one schema for each item, no more and no fewer."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """A property that an object lists."""

    name: str
    node: Node
    required: bool


@dataclass(frozen=True, slots=True)
class ObjectValue:
    """An object: its properties in the schema's order, and what others may be, None when there may be none."""

    properties: tuple[Property, ...]
    additional: Node | None


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A value of one of the schemas, or more: `oneOf` is read as `anyOf`. An array of types is one, too."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """A value of all the schemas, as far as they can be merged."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """`$ref` to a place in the same document, whose nodes by reference are in `targets`."""

    ref: str
    targets: Mapping[str, Node] = field(repr=False, compare=False)

    @property
    def target(self) -> Node:
        """The node it stands for, which may be a reference again, even this one."""
        return self.targets[self.ref]


Node: TypeAlias = (
    AnyValue
    | NullValue
    | BooleanValue
    | NumberValue
    | IntegerValue
    | StringValue
    | ConstValue
    | EnumValue
    | ArrayValue
    | TupleValue
    | ObjectValue
    | AnyOf
    | AllOf
    | Reference
)


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """A whole schema.

    Attributes:
        root: its outermost node.
        warnings: what it asks for and no node holds, because llama-server drops it in silence.
    """

    root: Node
    warnings: tuple[str, ...] = ()
