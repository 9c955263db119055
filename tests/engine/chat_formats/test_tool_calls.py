"""Answers with calls: the grammar they are held to, and how they are read, whole and piece by piece."""

from __future__ import annotations

import json

import pytest

from engine.chat_formats.formats import ChatFormat, chat_format
from engine.chat_formats.messages import ChatMessage, ToolCall, UnexpectedAnswer
from engine.chat_formats.reader import AnswerReader
from engine.chat_formats.tools import NO_TOOLS, Tool, ToolUse
from engine.chat_template import CHATML, ChatTemplate
from engine.errors import InvalidRequest
from engine.grammar import GrammarTrigger, TriggerType
from testing.oracles.chat_templates import TEMPLATES

USER = [{"role": "user", "content": "Hi"}]
HERMES = TEMPLATES["calls as JSON in tags"]
ARRAY = TEMPLATES["calls as an array of JSON"]
TAGS = TEMPLATES["calls with arguments in tags"]
WEATHER = Tool(
    "weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
AUTO = ToolUse((WEATHER, Tool("now", "", {})), "auto", parallel=True)
REQUIRED = ToolUse(AUTO.tools, "required")
NONE = ToolUse(AUTO.tools, "none")


def form(source: str, use: ToolUse = AUTO) -> ChatFormat:
    return chat_format(ChatTemplate(source), USER, variables={}, tools=use)


def read(source: str, text: str, use: ToolUse = AUTO) -> ChatMessage:
    return form(source, use).parse(text, partial=False)


CALLS = {
    HERMES: '<tool_call>\n{"name": "weather", "arguments": {"city": "Ulm"}}\n</tool_call>',
    ARRAY: '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Ulm"}, "id": "123456789"}]',
    TAGS: "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</tool_call>\n",
}


@pytest.mark.parametrize(("source", "text"), CALLS.items())
def test_a_call_is_read_in_each_form(source: str, text: str) -> None:
    (call,) = read(source, text).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Ulm"})
    assert call.id == ("123456789" if "123456789" in text else "")


@pytest.mark.parametrize(("source", "text"), CALLS.items())
def test_a_stream_of_a_call_adds_up_and_names_it_first(source: str, text: str) -> None:
    reader = AnswerReader(form(source))
    found = [delta for char in text for delta in reader.add(char)] + reader.end()
    calls = [delta.tool_call for delta in found if delta.tool_call is not None]
    assert calls[0].name == "weather"
    assert len(calls[0].id) in (9, 32)
    assert not any(call.name or call.id for call in calls[1:])
    assert "".join(call.arguments for call in calls) == read(source, text).tool_calls[0].arguments
    assert len(calls) > 2


def test_text_and_reasoning_stand_before_calls() -> None:
    message = read(HERMES, f"<think>\nhm\n</think>\n\nLet me see. {CALLS[HERMES]}")
    assert (message.reasoning, message.content, len(message.tool_calls)) == ("hm\n", "Let me see. ", 1)


def test_several_calls_are_read_in_their_order() -> None:
    message = read(HERMES, CALLS[HERMES] + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>')
    assert [call.name for call in message.tool_calls] == ["weather", "now"]


def test_an_answer_without_calls_is_text() -> None:
    for use in (AUTO, REQUIRED):
        assert read(HERMES, "Hello", use) == ChatMessage("Hello")
    with pytest.raises(UnexpectedAnswer):
        read(HERMES, '<tool_call>\n{"name": "nobody"', REQUIRED)


def test_arguments_in_tags_become_json() -> None:
    text = (
        '<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>a "b"\nc</arg_value>\n'
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n"
    )
    assert read(TAGS, text).tool_calls == (ToolCall("weather", '{"city":"a \\"b\\"\\nc","days":3}'),)


def test_calls_that_may_come_start_the_grammar_and_calls_that_must_have_it_from_the_start() -> None:
    maybe, must = form(HERMES), form(HERMES, REQUIRED)
    assert (maybe.lazy, must.lazy, must.triggers) == (True, False, ())
    assert maybe.triggers == (GrammarTrigger(TriggerType.WORD, "<tool_call>\n"),)
    assert "root ::= tool-call" in maybe.grammar
    assert "tool-call ::=" in must.grammar


def test_without_a_choice_or_tools_an_answer_is_text_but_the_template_shows_the_tools() -> None:
    assert "weather" in form(HERMES, NONE).prompt
    assert form(HERMES, NONE).grammar == form(HERMES, NO_TOOLS).grammar == ""
    assert read(HERMES, CALLS[HERMES], NONE) == ChatMessage(CALLS[HERMES])


def test_a_template_that_knows_no_tools_answers_in_text() -> None:
    for use in (AUTO, REQUIRED):
        assert form(CHATML, use).grammar == ""
        assert read(CHATML, CALLS[HERMES], use) == ChatMessage(CALLS[HERMES])


def test_a_wanted_form_goes_before_calls() -> None:
    wanted = chat_format(ChatTemplate(HERMES), USER, variables={}, tools=AUTO, schema={"type": "object"})
    assert not wanted.lazy
    assert wanted.parse('{"a": 1}', partial=False) == ChatMessage('{"a": 1}')


def test_a_schema_that_cannot_be_is_refused_and_one_that_drops_a_keyword_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"Unable to generate parser .* schema must be an object"):
        form(HERMES, ToolUse((Tool("f", "", 5),)))
    text = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 2}}}
    assert any("multipleOf" in warning for warning in form(HERMES, ToolUse((Tool("f", "", text),))).warnings)


def test_a_kind_of_template_whose_calls_are_not_built_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="tools are not supported for Ling 3 templates"):
        form(TEMPLATES["Ling 3"])
    assert form(TEMPLATES["Ling 3"], NONE).grammar == ""
    channels = ChatTemplate(CHATML + "{# <|channel|> #}")
    call = {"type": "function", "function": {"name": "now", "arguments": "{}"}}
    called = [*USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(InvalidRequest, match="tools are not supported for gpt-oss templates"):
        chat_format(channels, called, variables={})


def test_a_tool_with_the_name_of_a_rule_ends_in_an_error_of_its_own() -> None:
    nested = form(TEMPLATES["calls with JSON arguments"], ToolUse((Tool("call", "", {}),), "required"))
    with pytest.raises(UnexpectedAnswer):
        nested.parse("x", partial=False)
