"""What the reference drops in silence is named, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from engine.json_schema import json_schema_to_grammar

_DROPPED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"type": "number", "minimum": 0, "maximum": 1}, ("#: maximum", "#: minimum")),
    ({"type": "integer", "multipleOf": 5}, ("#: multipleOf",)),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": 3}, ("#: exclusiveMinimum",)),
    ({"type": "string", "format": "email"}, ("#: format",)),
    ({"type": "string", "format": "date", "maxLength": 3}, ("#: maxLength",)),
    ({"type": "string", "pattern": "^a$", "minLength": 3}, ("#: minLength",)),
    ({"type": "string", "pattern": "^\\d$"}, ("pattern ^\\d$: unsupported escape: \\d",)),
    ({"type": "string", "pattern": "a"}, ("pattern a: not anchored with '^' and '$'",)),
    ({"type": "string", "pattern": "^\\é$"}, ("pattern ^\\é$: unsupported escape: \\\ufffd",)),
    ({"type": "array", "items": {}, "uniqueItems": True, "contains": {}}, ("#: contains", "#: uniqueItems")),
    ({"items": [{"type": "null"}], "minItems": 2}, ("#: minItems",)),
    ({"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "null"}}, ("#: prefixItems",)),
    (
        {"type": "object", "minProperties": 1, "propertyNames": {"maxLength": 3}},
        ("#: minProperties", "#: propertyNames"),
    ),
    ({"properties": {"a": {"type": "null"}}, "required": ["b"]}, ("#: required",)),
    ({"properties": {"a/b": {"minimum": 1}}}, ("#/properties/a/b: minimum",)),
    ({"properties": {"a": {"type": "null"}}, "patternProperties": {"^x": {}}}, ("#: patternProperties",)),
    ({"properties": {"a": {"type": "null"}}, "allOf": [{"required": ["a"]}]}, ("#: allOf",)),
    ({"not": {"type": "null"}}, ("#: not",)),
    ({"if": {}, "then": {}, "else": {}}, ("#: else", "#: if", "#: then")),
    ({"type": "string", "nullable": True}, ("#: nullable",)),
    ({"anyOf": [{"type": "null"}], "properties": {"a": {}}}, ("#: properties",)),
    ({"anyOf": [{"const": 1}], "oneOf": [{"const": 2}]}, ("#: anyOf",)),
    ({"$ref": "#/$defs/a", "minLength": 3, "$defs": {"a": {"type": "string"}}}, ("#: minLength",)),
    ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"not": {}}}}, ("#/$defs/a: not",)),
    ({"type": "string", "enum": ["a", None]}, ("#: type",)),
    ({"type": "integer", "const": 1.5}, ("#: type",)),
    ({"const": 1, "enum": [1, 2]}, ("#: enum",)),
    ({"type": ["string", "number"], "minimum": 3}, ("#/type/1: minimum",)),
    ({"allOf": [{"properties": {"a": {"type": "null"}}}, {"type": "string"}]}, ("#/allOf/1: not merged",)),
    (
        {"allOf": [{"anyOf": [{"properties": {"a": {"type": "null"}}}]}]},
        ("#/allOf/0: all its properties are optional",),
    ),
    ({"allOf": [{"enum": [1]}, {"type": "integer"}]}, ("#/allOf/0: not merged", "#/allOf/1: not merged")),
]


@pytest.mark.parametrize(("schema", "warnings"), _DROPPED, ids=[str(schema)[:70] for schema, _ in _DROPPED])
def test_a_dropped_keyword_is_named_with_its_place(schema: dict[str, Any], warnings: tuple[str, ...]) -> None:
    assert json_schema_to_grammar(schema).warnings == warnings


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c", "x-unknown": 1},
        {"type": "string", "minimum": 3, "items": {}, "required": ["a"]},
        {"type": "string", "minLength": 1, "maxLength": 3},
        {"type": "string", "enum": ["a"]},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "integer", "const": 1.0},
        {"type": "number", "const": 1},
        {"type": "integer", "exclusiveMinimum": 1, "maximum": 3},
        {"type": "array", "items": {"type": "null"}, "uniqueItems": False, "minItems": 0},
        {"type": "array", "prefixItems": [{"type": "null"}], "minItems": 1, "maxItems": 1},
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": [], "additionalProperties": False},
        {"additionalProperties": True},
        {
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "null"}}}, {"$ref": "#/$defs/b"}],
            "$defs": {"b": {}},
        },
        {"allOf": [{"enum": [1, 2]}, {"enum": [2]}]},
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
    ],
    ids=lambda schema: str(schema)[:70],
)
def test_what_restricts_nothing_or_is_held_is_not_named(schema: dict[str, Any]) -> None:
    assert json_schema_to_grammar(schema).warnings == ()
