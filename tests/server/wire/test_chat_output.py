"""The wanted form of a chat answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.chat_formats.formats import chat_format
from engine.chat_template import CHATML, ChatTemplate
from engine.json_schema import SchemaGrammar
from server.errors import BadRequest
from server.wire.chat_output import formed, parse_output
from server.wire.fields import parse_fields

ANY: dict[str, Any] = {"type": "object"}
ONE: dict[str, Any] = {"const": 1}


@pytest.mark.parametrize(
    ("body", "schema"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, ANY),
        ({"response_format": {"type": "json_object", "schema": ONE}}, ONE),
        ({"response_format": {"type": "json_object"}, "json_schema": ONE}, ONE),
        ({"response_format": {"type": "json_object", "schema": {}}, "json_schema": ONE}, ANY),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": ONE}}}, ONE),
        ({"response_format": {"type": "json_schema"}}, ANY),
        ({"json_schema": {}}, ANY),
        ({"json_schema": True}, None),
        ({"grammar": "root ::= x"}, None),
    ],
)
def test_the_schema_of_a_request(body: dict[str, Any], schema: Any) -> None:
    assert parse_output(body).schema == schema


def test_fields_without_effect_are_named() -> None:
    assert parse_output({"response_format": {"type": "json_object"}, "grammar": "x"}).ignored == ("grammar",)
    form = {"type": "json_schema", "json_schema": {"schema": True}}
    assert parse_output({"response_format": form}).ignored == ("response_format",)
    assert parse_output({"grammar_lazy": True, "chat_parser": "x"}).ignored == ("chat_parser", "grammar_lazy")


def test_a_schema_and_a_grammar_together_are_refused() -> None:
    with pytest.raises(BadRequest, match="Cannot use both json_schema and grammar"):
        parse_output({"json_schema": {}, "grammar": "x"})


def test_the_form_of_an_answer_becomes_completion_fields() -> None:
    form = chat_format(ChatTemplate(CHATML), [{"role": "user", "content": "x"}], variables={}, schema=ONE)
    fields = formed(parse_fields({"stop": "a"}), form)
    assert fields.json_schema == SchemaGrammar(form.grammar, form.warnings)
    assert (fields.generation_prompt, fields.stop) == ("<|im_start|>assistant\n", ("a",))


def test_the_markers_of_reasoning_become_completion_fields() -> None:
    form = replace(
        chat_format(ChatTemplate(CHATML), [{"role": "user", "content": "x"}], variables={}),
        thinking=("<think>", "</think>", "<call>"),
    )
    fields = formed(parse_fields({}), form, "Enough.")
    assert fields.reasoning_budget_start_tag == "<think>"
    assert fields.reasoning_budget_end_tags == ("</think>", "<call>")
    assert fields.reasoning_budget_message == "Enough."
    asked = parse_fields({"reasoning_budget_message": "So."})
    assert formed(asked, form, "Enough.").reasoning_budget_message == "So."
