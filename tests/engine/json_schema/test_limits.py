"""Schemas that would take the reference's time, memory or life are refused, and large ones in use are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.json_schema import SchemaTooLarge, json_schema_to_grammar
from engine.json_schema.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT


def _nested(depth: int, keyword: str) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {keyword: {"a": schema} if keyword == "properties" else [schema]}
    return schema


def _doubled_types(depth: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {"type": ["object", "object"], "properties": {"a": schema}}
    return schema


def _doubled_references(depth: int) -> Any:
    definitions: dict[str, Any] = {"0": {"properties": {"x": {}}}}
    for level in range(1, depth):
        below = {"allOf": [{"$ref": f"#/$defs/{level - 1}"}]}
        definitions[f"{level}"] = {"properties": {"p": below, "q": below}}
    return {"allOf": [{"$ref": f"#/$defs/{depth - 1}"}], "$defs": definitions}


def _chain(length: int) -> Any:
    links = [{"properties": {"next": {"$ref": f"#/links/{index + 1}"}}} for index in range(length)]
    return {"$ref": "#/links/0", "links": [*links, {"type": "null"}]}


_TOO_LARGE = {
    "deep properties": _nested(MAX_DEPTH + 1, "properties"),
    "deep anyOf": _nested(MAX_DEPTH + 1, "anyOf"),
    "deep allOf": _nested(MAX_DEPTH + 1, "allOf"),
    "deep items": _nested(MAX_DEPTH + 1, "items"),
    "deep types": {"type": json.loads("[" * 500 + '"null"' + "]" * 500)},
    "deep value": {"const": json.loads("[" * 500 + "]" * 500)},
    "deep references": _chain(MAX_DEPTH),
    "doubling types": _doubled_types(60),
    "doubling references": _doubled_references(60),
    "an object in itself": {
        "$ref": "#/$defs/b",
        "$defs": {"b": {"properties": {"c": {"allOf": [{"$ref": "#/$defs/b"}]}}}},
    },
    "a reference to itself in allOf": {"allOf": [{"$ref": "#/a"}], "a": {"$ref": "#/a"}},
    "many alternatives": {"anyOf": [{}] * (MAX_NODES + 1)},
    "many types": {"type": ["null"] * (MAX_NODES + 1)},
    "many properties": {"properties": {f"p{index}": {} for index in range(MAX_NODES + 1)}},
    "many required names": {"type": "object", "required": ["a"] * (MAX_NODES + 1)},
    "many values": {"enum": list(range(MAX_NODES + 1))},
    "many values in one": {"const": list(range(MAX_NODES + 1))},
    "values again and again": {"allOf": [{"$ref": "#/e"}] * 1000, "e": {"enum": list(range(1000))}},
    "a long value": {"const": "x" * MAX_TEXT},
    "a long name": {"properties": {"x" * MAX_TEXT: {}}},
    "long names of others": {"properties": {"x" * (MAX_TEXT // 8): {}}, "additionalProperties": True},
    "a long pattern": {"pattern": f"^{'a' * MAX_TEXT}$"},
    "a pattern of stars": {"pattern": f"^a{'*' * 30_000}$"},
    "a long reference": {"$ref": f"#/{'a' * MAX_TEXT}", "a" * MAX_TEXT: {}},
}


@pytest.mark.parametrize("schema", _TOO_LARGE.values(), ids=_TOO_LARGE.keys())
def test_a_schema_that_explodes_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaTooLarge):
        json_schema_to_grammar(schema)


_LARGE = {
    "a hundred levels of properties": _nested(100, "properties"),
    "a chain of sixty references": _chain(60),
    "a thousand properties": {"properties": {f"property {index}": {"type": "string"} for index in range(1000)}},
    "a thousand properties and others": {
        "properties": {f"property {index}": {"type": "string"} for index in range(1000)},
        "additionalProperties": {"type": "integer"},
    },
    "three thousand values": {"enum": [f"value {index}" for index in range(3000)]},
    "five hundred patterns": {"anyOf": [{"pattern": f"^[A-Z]{{2}}-{index}$"} for index in range(500)]},
    "a thousand names in one script": {"properties": {chr(0x4E00 + index): {"const": index} for index in range(1000)}},
}


@pytest.mark.parametrize("schema", _LARGE.values(), ids=_LARGE.keys())
def test_a_large_schema_is_not_refused(schema: Any) -> None:
    assert json_schema_to_grammar(schema).text.count("\n") > 1


def test_a_recursive_schema_is_a_recursive_grammar() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}}}}
    assert "ref-defs-a-a ::= ref-defs-a\n" in json_schema_to_grammar(schema).text


def test_a_schema_with_thousands_of_dropped_keywords_names_the_first_ones() -> None:
    warnings = json_schema_to_grammar({"anyOf": [{"type": "number", "minimum": 1}] * 3000}).warnings
    assert warnings[0] == "#/anyOf/0: minimum"
    assert warnings[-1] == "and 2950 more"
    assert len(warnings) == 51


def test_a_caller_that_stands_deep_itself_gets_the_same_refusal() -> None:
    schema = _nested(MAX_DEPTH - 1, "items")

    def deeper(levels: int) -> str:
        return deeper(levels - 1) if levels else json_schema_to_grammar(schema).text

    assert deeper(0)
    with pytest.raises(SchemaTooLarge):
        deeper(700)


LONG = "_" * 400_000


@pytest.mark.parametrize(
    "schema",
    [
        {"const": "x" * 600_000},
        {"$defs": {LONG: {}}, "type": ["object"] * 500, "properties": {"a": {"$ref": f"#/$defs/{LONG}"}}},
        {"type": ["object"] * 500, "properties": {LONG: {}}},
        {"type": ["string"] * 500, "pattern": LONG},
        {"type": ["string"] * 500, "pattern": f"^{LONG}$"},
        {"const": 1, "type": ["x"] * 9000},
        {"anyOf": [{"type": "integer", "minimum": -(10**17) + i, "maximum": 10**17 - i} for i in range(1000)]},
    ],
    ids=["source", "reference", "name", "pattern", "anchored pattern", "types", "ranges"],
)
def test_what_would_be_read_again_and_again_counts_each_time(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaTooLarge):
        json_schema_to_grammar(schema)


def test_a_value_of_one_of_its_types_is_not_named() -> None:
    assert json_schema_to_grammar({"const": 1, "type": ["string"] * 1000 + ["integer"] * 1000}).warnings == ()


def test_a_value_of_none_of_its_types_is_named() -> None:
    assert json_schema_to_grammar({"const": 1, "type": ["wat", "string"]}).warnings
