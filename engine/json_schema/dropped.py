"""Which keywords of a schema say something that its node does not hold: what llama-server b11192 drops in silence.

Only keywords that restrict (or, as `nullable`, widen) what a value may be are looked for. Annotations and names nobody
knows restrict nothing. A keyword for another type than the node's restricts nothing either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.json_schema.limits import Budget
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

_ANY_TYPE: Final = frozenset(
    (
        *("$dynamicRef", "$recursiveRef", "allOf", "anyOf", "const", "else"),
        *("enum", "if", "not", "nullable", "oneOf", "then"),
    )
)
_NUMBER: Final = frozenset(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"))
_STRING: Final = frozenset(("format", "maxLength", "minLength", "pattern"))
_ARRAY: Final = frozenset(
    (
        *("additionalItems", "contains", "items", "maxContains", "maxItems", "minContains", "minItems"),
        *("prefixItems", "unevaluatedItems", "uniqueItems"),
    )
)
_OBJECT: Final = frozenset(
    (
        *("additionalProperties", "dependencies", "dependentRequired", "dependentSchemas", "maxProperties"),
        *("minProperties", "patternProperties", "properties", "propertyNames", "required", "unevaluatedProperties"),
    )
)
_RESTRICTING: Final = _ANY_TYPE | _NUMBER | _STRING | _ARRAY | _OBJECT | {"type"}

# What a node of a kind could be restricted by; a node of any other kind, by all of it.
_APPLIES: Final[Mapping[type[Node], frozenset[str]]] = {
    NullValue: _ANY_TYPE,
    BooleanValue: _ANY_TYPE,
    NumberValue: _ANY_TYPE | _NUMBER,
    IntegerValue: _ANY_TYPE | _NUMBER,
    StringValue: _ANY_TYPE | _STRING,
    ArrayValue: _ANY_TYPE | _ARRAY,
    TupleValue: _ANY_TYPE | _ARRAY,
    ObjectValue: _ANY_TYPE | _OBJECT,
    AnyValue: _RESTRICTING - {"type"},
}

JSON_TYPES: Final[Mapping[str, Any]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def dropped_keywords(schema: Mapping[str, Any], node: Node, read: frozenset[str]) -> list[str]:
    """The keywords that `schema` has, that could restrict it, and that are not in `node`, in alphabetical order.

    Args:
        schema: the schema object.
        node: what was made of it.
        read: the keywords that decided the node's kind.
    """
    present = schema.keys() & _RESTRICTING
    if not present:
        return []
    applies = _APPLIES.get(type(node), _RESTRICTING)
    held = read | _held(schema, node)
    return sorted(word for word in present if word in applies and word not in held and _restricts(word, schema[word]))


def _restricts(keyword: str, value: Any) -> bool:
    """False for a value with which the keyword says nothing."""
    if keyword in ("uniqueItems", "nullable"):
        return value is not False
    if keyword in ("minItems", "minLength", "minProperties"):
        return bool(value != 0)
    if keyword in ("additionalProperties", "additionalItems", "items", "propertyNames", "patternProperties") or (
        keyword.startswith("unevaluated")
    ):
        return value is not True and value != {}
    if keyword in ("properties", "required", "pattern"):
        return bool(value)
    return True


def _held(schema: Mapping[str, Any], node: Node) -> frozenset[str]:
    """The keywords of `schema` that the node does hold."""
    match node:
        case ConstValue(value):
            return frozenset(("const", "type") if _has_type(value, schema.get("type")) else ("const",))
        case EnumValue(values):
            fit = all(_has_type(value, schema.get("type")) for value in values)
            return frozenset(("enum", "type") if fit else ("enum",))
        case IntegerValue():
            over = {"exclusiveMinimum"} if "minimum" in schema else set()
            over |= {"exclusiveMaximum"} if "maximum" in schema else set()
            return frozenset(_NUMBER - {"multipleOf"} - over)
        case StringValue(pattern, format, _, _):
            if pattern:
                return frozenset(("pattern",))
            return frozenset(("format",)) if format else frozenset(("minLength", "maxLength"))
        case ArrayValue():
            return frozenset(("items", "minItems", "maxItems") + (() if "items" in schema else ("prefixItems",)))
        case TupleValue(items):
            held = {"items", "additionalItems"} if "items" in schema else {"prefixItems"}
            held |= {word for word in ("minItems", "maxItems") if _allows(word, schema.get(word), len(items))}
            return frozenset(held)
        case ObjectValue(properties, _):
            names = {entry.name for entry in properties}
            required = schema.get("required")
            listed = isinstance(required, list) and all(isinstance(name, str) and name in names for name in required)
            return frozenset(("properties", "additionalProperties") + (("required",) if listed else ()))
    return frozenset()


def _allows(keyword: str, bound: Any, count: int) -> bool:
    """Whether a bound on the number of items allows `count` of them."""
    if not isinstance(bound, int):
        return False
    return bound <= count if keyword == "minItems" else bound >= count


def _has_type(value: Any, types: Any) -> bool:
    """Whether a value has the type, or one of the types, that `type` names; True when it names none."""
    if not types:
        return True
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str) or not isinstance(value, JSON_TYPES.get(name, ())):
            continue
        if isinstance(value, bool):
            if name == "boolean":
                return True
        elif name != "integer" or value == int(value):
            return True
    return False


def unmerged(node: AllOf, budget: Budget) -> list[tuple[int, str]]:
    """The schemas of an `allOf` that its rule does not hold, by their index, and why.

    Only listed properties and, when every schema has them, enums are merged.

    Raises:
        InvalidRequest: the references in it lead too far.
    """
    kinds = [[_kind(part, budget) for part in _parts(child)] for child in node.children]
    all_enums = all(kind is EnumValue for parts in kinds for kind in parts)
    losses = []
    for index, (child, parts) in enumerate(zip(node.children, kinds, strict=True)):
        if any(kind not in (ObjectValue, AnyValue) and not (all_enums and kind is EnumValue) for kind in parts):
            losses.append((index, "not merged"))
        elif isinstance(child, AnyOf) and ObjectValue in parts:
            losses.append((index, "all its properties are optional"))
    return losses


def _parts(node: Node) -> tuple[Node, ...]:
    return node.children if isinstance(node, AnyOf) else (node,)


def _kind(node: Node, budget: Budget) -> type[Node]:
    """The kind of a node or of what it refers to; a reference to itself stays one."""
    seen: set[str] = set()
    while isinstance(node, Reference) and node.ref not in seen:
        budget.nodes(1)
        seen.add(node.ref)
        node = node.target
    return type(node)
