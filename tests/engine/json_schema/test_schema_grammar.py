"""The grammars and refusals that llama-server b11192 gave, replayed; and the builder that chat formats use."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from engine.errors import InvalidRequest
from engine.json_schema import GrammarBuilder, SchemaTooLarge, json_schema_to_grammar, literal, parse_schema
from engine.json_schema.nodes import ObjectValue
from testing.oracles.record_schemas import N_RANDOM, RECORD, SEED
from testing.oracles.schema_cases import SCHEMAS
from testing.oracles.schema_fuzz import digest_of, random_schemas

_RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))
_ENTRIES = [entry for group in SCHEMAS for entry in _RECORDED[group]]
_SPACE = 'space ::= | " " | "\\n"{1,2} [ \\t]{0,20}\n'


def test_every_case_is_recorded() -> None:
    assert {group: [entry["schema"] for entry in _RECORDED[group]] for group in SCHEMAS} == {
        group: list(schemas) for group, schemas in SCHEMAS.items()
    }
    assert len(_ENTRIES) >= 200
    assert len([entry for entry in _ENTRIES if "error" in entry]) >= 40


@pytest.mark.parametrize("entry", _ENTRIES, ids=[entry["schema"][:60] for entry in _ENTRIES])
def test_gives_the_references_grammar_or_refusal(entry: dict[str, Any]) -> None:
    schema = orjson.loads(entry["schema"])
    if "error" in entry:
        with pytest.raises(InvalidRequest) as refusal:
            json_schema_to_grammar(schema)
        assert str(refusal.value) == entry["error"]
    else:
        assert json_schema_to_grammar(schema).text == entry["grammar"]


@pytest.mark.parametrize(
    "entry", [entry for entry in _ENTRIES if "error" in entry], ids=lambda entry: entry["schema"][:60]
)
def test_a_refusal_is_a_400_that_the_completion_endpoint_puts_two_prefixes_before(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        json_schema_to_grammar(orjson.loads(entry["schema"]))
    assert [400, f"Field 'json_schema': \"json_schema\": {refusal.value}"] == entry["server"]


@pytest.mark.parametrize("kind", _RECORDED["random"])
def test_gives_the_references_grammars_and_refusals_of_random_schemas(kind: str) -> None:
    schemas = random_schemas(SEED, N_RANDOM)[kind]
    assert digest_of(schemas) == _RECORDED["random"][kind]["schemas"], "other schemas than were recorded"
    assert digest_of(map(_answer_text, schemas)) == _RECORDED["random"][kind]["answers"]


def _answer_text(schema: bytes) -> bytes:
    try:
        return json_schema_to_grammar(orjson.loads(schema)).text.encode("utf-8", "surrogateescape")
    except SchemaTooLarge:
        return b""
    except InvalidRequest as refusal:
        return str(refusal).encode()


def test_the_schema_is_left_as_it_was() -> None:
    schema = {"type": ["object", "null"], "properties": {"a": {"enum": [1, "x"]}}, "required": ["a"]}
    before = orjson.dumps(schema)
    json_schema_to_grammar(schema)
    assert orjson.dumps(schema) == before


def test_a_name_that_is_taken_by_another_rule_gets_a_number() -> None:
    builder = GrammarBuilder()
    assert builder.add_rule("a b", '"x"') == "a-b"
    assert builder.add_rule("a-b", '"x"') == "a-b"
    assert builder.add_rule("a+b", '"y"') == "a-b0"
    assert builder.add_rule("a-b", '"z"') == "a-b1"
    assert builder.add_rule("a-b", '"y"') == "a-b0"
    assert builder.text() == f'a-b ::= "x"\na-b0 ::= "y"\na-b1 ::= "z"\n{_SPACE}'


def test_a_schema_stands_under_the_name_it_is_added_by() -> None:
    builder = GrammarBuilder()
    assert builder.add_schema("tool-args", {"const": 1}) == "tool-args"
    assert builder.add_schema("string", {"const": 2}) == "string-"
    assert builder.add_schema("root", {"const": 3}) == "root"
    assert builder.add_schema("other", {"type": "null"}) == "null"
    assert builder.text() == f'null ::= "null"\nroot ::= "3"\n{_SPACE}string- ::= "2"\ntool-args ::= "1"\n'


def test_a_part_of_a_document_keeps_its_references() -> None:
    document = parse_schema({"properties": {"item": {"$ref": "#/$defs/item"}}, "$defs": {"item": {"const": 5}}})
    assert isinstance(document.root, ObjectValue)
    builder = GrammarBuilder()
    builder.add_node("root", document.root.properties[0].node)
    assert builder.text() == f'ref-defs-item ::= "5"\nroot ::= ref-defs-item\n{_SPACE}'


@pytest.mark.parametrize(("dotall", "dot"), [(False, r"[^\x0A\x0D]"), (True, r"[\U00000000-\U0010FFFF]")])
def test_a_dot_is_a_line_end_only_when_the_builder_says_so(dotall: bool, dot: str) -> None:
    builder = GrammarBuilder(dotall)
    builder.add_schema("root", {"pattern": "^.$"})
    assert builder.text() == f'dot ::= {dot}\nroot ::= "\\"" (dot) "\\""\n{_SPACE}'


def test_a_builder_refuses_without_the_prefix_of_the_whole_conversion() -> None:
    with pytest.raises(InvalidRequest, match=r"^JSON schema error at #/properties/a: unrecognized type x$"):
        GrammarBuilder().add_schema("root", {"properties": {"a": {"type": "x"}}})


def test_a_builder_names_all_invalid_patterns_when_its_text_is_taken() -> None:
    builder = GrammarBuilder()
    builder.add_schema("a", {"pattern": "^(a$"})
    builder.add_schema("b", {"pattern": "^*$"})
    with pytest.raises(InvalidRequest) as refusal:
        builder.text()
    assert str(refusal.value) == (
        "JSON schema conversion failed:\n"
        "Invalid pattern ^(a$: unbalanced parentheses\nInvalid pattern ^*$: nothing to repeat"
    )


def test_a_repetition_after_a_character_of_several_bytes_gives_bytes_that_are_no_text() -> None:
    text = json_schema_to_grammar({"pattern": "^é*$"}).text
    assert b'"\xc3" "\xa9"*' in text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("text", "written"), [("", '""'), ("a", '"a"'), ('"\\\n\r', r'"\"\\\n\r"'), ("]-\té", '"]-\té"'), ("\\n", r'"\\n"')]
)
def test_a_literal_escapes_quotes_backslashes_and_line_ends(text: str, written: str) -> None:
    assert literal(text) == written
