"""What the values of a schema may be."""

from __future__ import annotations

from typing import Any

import pytest

from engine.json_schema import parse_schema
from engine.json_schema.kinds import ALL_TYPES, may_be_string, value_types

_LOOP = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}


@pytest.mark.parametrize(
    ("schema", "types", "string"),
    [
        ({}, ALL_TYPES, False),
        ({"type": "string"}, {"string"}, True),
        ({"type": "number"}, {"number", "integer"}, False),
        ({"type": ["string", "null"]}, {"string", "null"}, True),
        ({"enum": [1, "a"]}, {"integer", "string"}, True),
        ({"const": 1.5}, {"number"}, False),
        ({"items": {"type": "string"}}, {"array"}, False),
        ({"allOf": [{"type": "string"}, {}]}, {"string"}, True),
        ({"allOf": [{}]}, ALL_TYPES, False),
        (_LOOP, set(), False),
    ],
)
def test_the_types_of_a_schema(schema: Any, types: set[str], string: bool) -> None:
    node = parse_schema(schema).root
    assert (value_types(node), may_be_string(node)) == (types, string)
