"""JSON schema -> nodes: which keyword decides what a schema is, and which schemas are refused.

The order in which keywords are looked at and the messages are those of llama-server b11192 (`common/json-schema.cpp`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from engine.errors import InvalidRequest
from engine.json_schema.dropped import JSON_TYPES, dropped_keywords, unmerged
from engine.json_schema.integers import INT64_MAX, INT64_MIN, wrap
from engine.json_schema.limits import Budget, check_source, too_deep
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
    Property,
    Reference,
    SchemaDocument,
    StringFormat,
    StringValue,
    TupleValue,
)
from engine.json_schema.warning_list import Warnings

# Where a schema stands: the path around it and its last step. Written out only when somebody must read it, for each
# path is as long as all the names above it.
_Path: TypeAlias = "tuple[_Path | None, str]"
_Builder: TypeAlias = "Callable[[_Parser, dict[str, Any], _Path], Node]"
_Alternatives = TypeVar("_Alternatives", AnyOf, AllOf)

_FORMATS: Final[Mapping[str, StringFormat]] = {
    "date": StringFormat.DATE,
    "time": StringFormat.TIME,
    "date-time": StringFormat.DATE_TIME,
    **dict.fromkeys(("uuid", *(f"uuid{version}" for version in range(1, 6))), StringFormat.UUID),
}
_LEADING_INTEGER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
_TYPE: Final = frozenset(("type",))


def parse_schema(schema: Any, budget: Budget | None = None, warnings: Warnings | None = None) -> SchemaDocument:
    """The nodes of a schema.

    Args:
        schema: parsed JSON as orjson gives it.
        budget: what it may cost; as much as any schema when None.
        warnings: where to add what no node holds; a list of its own when None.

    Raises:
        InvalidRequest: llama-server refuses it, with `JSON schema error at PATH: ...`; or it passes a limit.
    """
    check_source(schema)
    try:
        return _Parser(schema, budget or Budget(), warnings or Warnings()).document()
    except RecursionError:  # the caller stands deep itself
        raise too_deep() from None


def leading_integer(text: str) -> int | None:
    """The decimal number a text begins with, after white space, whatever follows; None when it begins with none."""
    found = _LEADING_INTEGER.match(text)
    if not found:
        return None
    digits = found[2].lstrip("0")[:40] or "0"  # more digits than any range has; Python refuses thousands of them
    return -int(digits) if found[1] == "-" else int(digits)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class _Parser:
    """One document on its way: its nodes by reference, and what it may still cost."""

    def __init__(self, root: Any, budget: Budget, warnings: Warnings) -> None:
        self._root = root
        self._budget = budget
        self._targets: dict[str, Node] = {}
        self._seen: set[str] = set()
        self._warnings = warnings
        self._merged: list[tuple[AllOf, _Path]] = []

    def document(self) -> SchemaDocument:
        root = self._node(self._root, (None, "#"))
        for node, path in self._merged:  # last, when every reference has its target
            for index, what in unmerged(node, self._budget):
                self._warn((path, f"/allOf/{index}"), what)
        return SchemaDocument(root, self._warnings.texts())

    def _node(self, schema: Any, path: _Path) -> Node:
        if not isinstance(schema, dict):
            _fail(path, "schema must be an object")
        self._budget.enter()
        if "$ref" in schema:
            node = self._reference(schema["$ref"], path)
            self._warn_of_dropped(schema, node, frozenset(("$ref",)), path)
        elif "oneOf" in schema or "anyOf" in schema:
            key = "oneOf" if "oneOf" in schema else "anyOf"
            node = self._alternatives(AnyOf, schema, key, path)
        else:
            node = self._typed(schema, schema.get("type"), path)
        self._budget.leave()
        return node

    def _typed(self, schema: dict[str, Any], kind: Any, path: _Path) -> Node:
        """A schema without `$ref`, `oneOf` and `anyOf`, as if its `type` were `kind`."""
        if isinstance(kind, list):
            return self._types(schema, kind, path)
        read = _TYPE
        node: Node
        if "const" in schema:
            node, read = ConstValue(schema["const"]), frozenset()
        elif "enum" in schema:
            node, read = self._enum(schema["enum"], path), frozenset()
        elif kind is not None and not isinstance(kind, str):
            _fail(path, "type must be a string or an array of strings")
        else:
            has_properties = "properties" in schema or schema.get("additionalProperties", True) is not True
            build = _BUILDERS.get(kind) if kind else _kind_of_untyped(schema, has_properties, path)
            if build is None:
                _fail(path, f"unrecognized type {kind}")
            if "allOf" in schema and (kind == "string" or (kind == "object" and not has_properties)):
                build = _Parser._all_of
            node = build(self, schema, path)
            if build is _Parser._all_of:
                return node
        self._warn_of_dropped(schema, node, read, path)
        return node

    def _types(self, schema: dict[str, Any], kinds: list[Any], path: _Path) -> Node:
        """An array of types: the same schema once for each."""
        if not kinds:
            _fail(path, "type must not be empty")
        known = [kind for kind in dict.fromkeys(k for k in kinds if isinstance(k, str)) if kind in JSON_TYPES]
        schema = {**schema, "type": known or [""]}  # what a value is checked against, once for each type
        nodes = []
        for index, kind in enumerate(kinds):
            self._budget.enter()
            nodes.append(self._typed(schema, kind, (path, f"/type/{index}")))
            self._budget.leave()
        return AnyOf(tuple(nodes))

    def _enum(self, values: Any, path: _Path) -> Node:
        if not isinstance(values, list) or not values:
            _fail(path, "enum must be a non-empty array")
        self._budget.nodes(len(values))
        return EnumValue(tuple(values))

    def _reference(self, ref: Any, path: _Path) -> Node:
        if not isinstance(ref, str):
            _fail(path, "$ref must be a string")
        self._budget.text(len(ref))
        if not ref.startswith("#/"):
            _fail(path, f"unsupported $ref {ref}, only references into the same document are supported")
        if ref not in self._seen:
            self._seen.add(ref)  # first, so that a cycle ends here
            self._targets[ref] = self._node(self._resolve(ref, path), (None, ref))
        return Reference(ref, self._targets)

    def _resolve(self, ref: str, path: _Path) -> Any:
        """What stands at `ref`; its steps are keys as they are, without `~1` or `%20`, or indexes."""
        target = self._root
        for step in ref.split("/")[1:]:
            if isinstance(target, dict) and step in target:
                target = target[step]
            elif isinstance(target, list):
                index = leading_integer(step)
                # An unsigned 64-bit number: a negative one counts from its end.
                if index is None or abs(index) >= 2**64 or index % 2**64 >= len(target):
                    _fail(path, f"cannot resolve $ref {ref}, {step} is out of range")
                target = target[index % 2**64]
            else:
                _fail(path, f"cannot resolve $ref {ref}, {step} not found")
        return target

    def _alternatives(self, kind: type[_Alternatives], schema: dict[str, Any], key: str, path: _Path) -> _Alternatives:
        schemas, inside = schema[key], (path, f"/{key}")
        if not isinstance(schemas, list):
            _fail(inside, "must be an array of schemas")
        if not schemas:
            _fail(inside, "must not be empty")
        nodes = []
        for index, each in enumerate(schemas):
            nodes.append(self._node(each, (inside, f"/{index}")))
        node = kind(tuple(nodes))
        self._warn_of_dropped(schema, node, frozenset((key, "type") if kind is AllOf else (key,)), path)
        return node

    def _all_of(self, schema: dict[str, Any], path: _Path) -> Node:
        node = self._alternatives(AllOf, schema, "allOf", path)
        self._merged.append((node, path))
        return node

    def _object(self, schema: dict[str, Any], path: _Path) -> Node:
        required: set[str] = set()
        if isinstance(schema.get("required"), list):
            self._budget.nodes(len(schema["required"]))
            required.update(name for name in schema["required"] if isinstance(name, str))
        entries = []
        if "properties" in schema:
            properties = schema["properties"]
            if not isinstance(properties, dict):
                _fail(path, "properties must be an object")
            for name, each in properties.items():
                self._budget.text(len(name))
                entries.append(Property(name, self._node(each, (path, f"/properties/{name}")), name in required))
        additional: Node | None = None
        if "additionalProperties" in schema:
            others = schema["additionalProperties"]
            if isinstance(others, dict):
                additional = self._node(others, (path, "/additionalProperties"))
            elif not isinstance(others, bool):
                _fail(path, "additionalProperties must be a boolean or a schema")
            elif others:
                additional = AnyValue()
        elif "properties" not in schema:
            additional = AnyValue()
        return ObjectValue(tuple(entries), additional)

    def _array(self, schema: dict[str, Any], path: _Path) -> Node:
        key = "items" if "items" in schema else "prefixItems"
        items: Node = AnyValue()
        if key in schema:
            inside = (path, f"/{key}")
            if isinstance(schema[key], list):
                nodes = []
                for index, each in enumerate(schema[key]):
                    nodes.append(self._node(each, (inside, f"/{index}")))
                return TupleValue(tuple(nodes))
            items = self._node(schema[key], inside)
        return ArrayValue(items, _count(schema, "minItems", path) or 0, _count(schema, "maxItems", path))

    def _string(self, schema: dict[str, Any], path: _Path) -> Node:
        pattern = schema.get("pattern", "")
        if not isinstance(pattern, str):
            _fail(path, "pattern must be a string")
        self._budget.text(len(pattern))
        string_format = _format(schema, path)
        least, most = _count(schema, "minLength", path) or 0, _count(schema, "maxLength", path)
        return StringValue(pattern, string_format, least, most)

    def _integer(self, schema: dict[str, Any], path: _Path) -> Node:
        least, most = INT64_MIN, INT64_MAX
        if "minimum" in schema:
            least = _bound(schema, "minimum", path, up=True)
        elif "exclusiveMinimum" in schema:
            least = wrap(_bound(schema, "exclusiveMinimum", path, up=False) + 1, 64)
        if "maximum" in schema:
            most = _bound(schema, "maximum", path, up=False)
        elif "exclusiveMaximum" in schema:
            most = wrap(_bound(schema, "exclusiveMaximum", path, up=True) - 1, 64)
        return IntegerValue(least, most)

    def _number(self, schema: dict[str, Any], path: _Path) -> Node:
        return NumberValue()

    def _boolean(self, schema: dict[str, Any], path: _Path) -> Node:
        return BooleanValue()

    def _null(self, schema: dict[str, Any], path: _Path) -> Node:
        return NullValue()

    def _any(self, schema: dict[str, Any], path: _Path) -> Node:
        return AnyValue()

    def _warn_of_dropped(self, schema: dict[str, Any], node: Node, read: frozenset[str], path: _Path) -> None:
        for keyword in dropped_keywords(schema, node, read):
            self._warn(path, keyword)

    def _warn(self, path: _Path, what: str) -> None:
        self._warnings.add("" if self._warnings.full else _text(path), what)


_BUILDERS: Final[Mapping[str, _Builder]] = {
    "object": _Parser._object,
    "array": _Parser._array,
    "string": _Parser._string,
    "integer": _Parser._integer,
    "number": _Parser._number,
    "boolean": _Parser._boolean,
    "null": _Parser._null,
}


def _kind_of_untyped(schema: Mapping[str, Any], has_properties: bool, path: _Path) -> _Builder:
    """Without a `type` the other keywords say what a schema is, the first one that is there."""
    if has_properties:
        return _Parser._object
    if "allOf" in schema:
        return _Parser._all_of
    if "items" in schema or "prefixItems" in schema:
        return _Parser._array
    if "pattern" in schema or "minLength" in schema or "maxLength" in schema or _format(schema, path) is not None:
        return _Parser._string
    return _Parser._any


def _format(schema: Mapping[str, Any], path: _Path) -> StringFormat | None:
    value = schema.get("format", "")
    if not isinstance(value, str):
        _fail(path, "format must be a string")
    return _FORMATS.get(value)


def _count(schema: Mapping[str, Any], key: str, path: _Path) -> int | None:
    """A number of items or characters, in 32 bits; None when it is not given."""
    if key not in schema:
        return None
    value = schema[key]
    if not _is_integer(value) or wrap(value, 32) < 0:
        _fail(path, f"{key} must be a non-negative integer")
    return wrap(value, 32)


def _bound(schema: Mapping[str, Any], key: str, path: _Path, *, up: bool) -> int:
    """A bound in 64 bits; a fraction is rounded up or down, one out of range is the lowest number, as x86 has it."""
    value = schema[key]
    if _is_integer(value):
        return wrap(value, 64)
    if not isinstance(value, float):
        _fail(path, f"{key} must be a number")
    rounded = math.ceil(value) if up else math.floor(value)
    return rounded if INT64_MIN <= rounded <= INT64_MAX else INT64_MIN


def _text(path: _Path) -> str:
    """The path, written out."""
    steps: list[str] = []
    at: _Path | None = path
    while at is not None:
        steps.append(at[1])
        at = at[0]
    return "".join(reversed(steps))


def _fail(path: _Path, message: str) -> NoReturn:
    raise InvalidRequest(f"JSON schema error at {_text(path)}: {message}")
