"""What the values of a schema may be."""

from __future__ import annotations

from typing import Any, Final

from engine.json_schema.nodes import (
    AllOf,
    AnyOf,
    AnyValue,
    ArrayValue,
    BooleanValue,
    ConstValue,
    EnumValue,
    IntegerValue,
    Node,
    NullValue,
    NumberValue,
    ObjectValue,
    Reference,
    StringValue,
    TupleValue,
)

ALL_TYPES: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))

_TYPES: Final[dict[type, frozenset[str]]] = {
    AnyValue: ALL_TYPES,
    NullValue: frozenset(("null",)),
    BooleanValue: frozenset(("boolean",)),
    NumberValue: frozenset(("number", "integer")),
    IntegerValue: frozenset(("integer",)),
    StringValue: frozenset(("string",)),
    ArrayValue: frozenset(("array",)),
    TupleValue: frozenset(("array",)),
    ObjectValue: frozenset(("object",)),
}


def value_types(node: Node) -> frozenset[str]:
    """The JSON types that values of a schema may have, by llama-server b11192's rule."""
    return _value_types(node, ())


def _value_types(node: Node, open_: tuple[int, ...]) -> frozenset[str]:
    match node:
        case ConstValue():
            return frozenset((json_type(node.value),))
        case EnumValue():
            return frozenset(map(json_type, node.values))
        case Reference():
            target = node.target
            return frozenset() if id(target) in open_ else _value_types(target, (*open_, id(target)))
        case AnyOf():
            return frozenset().union(*(_value_types(child, open_) for child in node.children))
        case AllOf():
            return ALL_TYPES.intersection(*(_value_types(child, open_) for child in node.children))
    return _TYPES[type(node)]


def json_type(value: Any) -> str:
    """The type of parsed JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def may_be_string(node: Node) -> bool:
    """Whether a string may follow a schema, by llama-server b11192's rule; a schema that only names itself may not."""
    return _may_be_string(node, ())


def _may_be_string(node: Node, open_: tuple[int, ...]) -> bool:
    match node:
        case StringValue():
            return True
        case ConstValue():
            return isinstance(node.value, str)
        case EnumValue():
            return any(isinstance(value, str) for value in node.values)
        case Reference():
            target = node.target
            return id(target) not in open_ and _may_be_string(target, (*open_, id(target)))
        case AnyOf():
            return any(_may_be_string(child, open_) for child in node.children)
        case AllOf():
            held = [child for child in node.children if not isinstance(child, AnyValue)]
            return bool(held) and all(_may_be_string(child, open_) for child in held)
    return False
