"""OpenAI's Responses API as pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chat_formats.messages import ChatMessage, ToolCall
from engine.chat_formats.reader import AnswerReader
from engine.chat_template import CHATML, ChatTemplate
from engine.generation import Final, Step
from engine.timings import Timings
from server.errors import BadRequest
from server.wire import openai, responses
from server.wire.fields import parse_fields
from server.wire.llama import Format

ASK: dict[str, Any] = {"role": "user", "content": "hi"}
ASKED = {"role": "user", "content": [{"text": "hi", "type": "text"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
CALLED = {"function": {"arguments": "{}", "name": "f"}, "id": "c1", "type": "function"}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
FORM = Format("m", parse_fields({}))


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def messages(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    chat, _ = responses.chat_request({"input": list(items), **fields})
    found: list[dict[str, Any]] = chat["messages"]
    return found


def step(text: str, n: int = 1, *, send: bool = True, last: Final | None = None) -> Step:
    return Step(text, 5, send, n, Timings(cache_n=2, prompt_n=3, predicted_n=n), last)


def streamed(*steps: Step, **fields: Any) -> list[responses.Event]:
    form = openai.chat_form(openai.parse_chat({"messages": [ASK]}), ChatTemplate(CHATML))
    events = responses.ResponseEvents(AnswerReader(form), Format("m", parse_fields(fields)))
    found = []
    for one in steps:
        events.text_of(one)
        found += events.of_step(one)
    return [*found, events.last({"bankml": "1"})]


# -- requests ------------------------------------------------------------------------------------------------------


def test_a_text_is_the_users_message_behind_the_instructions() -> None:
    chat, _ = responses.chat_request({"input": "hi", "instructions": "s", "max_output_tokens": 5, "temperature": 0})
    assert chat == {
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
        "max_tokens": 5,
        "temperature": 0,
    }


def test_items_become_messages() -> None:
    assert messages(ASK) == [ASKED]
    assert messages({**ASK, "type": "message", "status": "completed", "id": "i"}) == [{**ASKED, "id": "i"}]
    assert messages(said("a")) == [{"role": "assistant", "content": [{"text": "a", "type": "text"}]}]


def test_what_the_assistant_did_in_a_row_is_one_message() -> None:
    [message] = messages(THOUGHT, said("a"), said("b"), CALL, CALL)
    assert message == {
        "role": "assistant",
        "content": [{"text": "a", "type": "text"}, {"text": "b", "type": "text"}],
        "reasoning_content": "hm",
        "tool_calls": [CALLED, CALLED],
    }


def test_a_call_alone_has_no_content_and_a_text_may_follow() -> None:
    assert messages(CALL) == [{"role": "assistant", "tool_calls": [CALLED]}]
    [message] = messages(CALL, said("a"))
    assert message["content"] == [{"text": "a", "type": "text"}]


def test_a_functions_output_is_a_tools_message() -> None:
    output = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
    assert messages(output) == [{"content": "sunny", "role": "tool", "tool_call_id": "c1"}]
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]
    [message] = messages({**output, "output": parts})
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]


def test_the_request_is_left_as_it_was() -> None:
    item = said("a")
    messages(item, CALL)
    assert item == said("a")


def test_tools_that_are_no_functions_are_named_and_left_out() -> None:
    function = {"type": "function", "name": "f", "parameters": {}, "strict": None}
    chat, ignored = responses.chat_request({"input": "x", "tools": [{"type": "web_search"}, function]})
    assert chat["tools"] == [{"type": "function", "function": {"name": "f", "parameters": {}, "strict": None}}]
    assert ignored == ("tools[0]",)
    assert "tools" not in responses.chat_request({"input": "x", "tools": [5]})[0]


def test_of_reasoning_only_the_effort_counts() -> None:
    chat, ignored = responses.chat_request({"input": "x", "reasoning": {"effort": "low", "summary": "auto"}})
    assert chat["reasoning_effort"] == "low"
    assert ignored == ("reasoning.summary",)
    assert responses.chat_request({"input": "x", "reasoning": "low"})[1] == ("reasoning",)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "'input' is required"),
        ({"input": 5}, "'input' must be a string or array of objects"),
        ({"input": [5]}, "Cannot determine type of 'item'"),
        ({"input": [{**CALL, "arguments": {}}]}, "Cannot determine type of 'item'"),
        ({"input": "x", "previous_response_id": "r"}, "llama.cpp does not support 'previous_response_id'."),
        ({"input": "x", "tools": {}}, "'tools' must be an array of objects"),
        ({"input": [{**THOUGHT, "content": []}]}, "item['content'] is empty"),
    ],
)
def test_what_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        responses.chat_request(body)
    assert refusal.value.message == message


# -- answers -------------------------------------------------------------------------------------------------------


def test_a_whole_answers_items() -> None:
    message = ChatMessage("text", "thought", (ToolCall("f", '{"x": 1}', "t1"),))
    timings = Timings(cache_n=2, prompt_n=3, predicted_n=7)
    body = responses.response_body(message, Final("eos", tokens_evaluated=5), timings, FORM)
    assert [item["type"] for item in body["output"]] == ["reasoning", "message", "function_call"]
    assert body["output"][2] == {
        "id": "fc_t1",
        "type": "function_call",
        "status": "completed",
        "arguments": '{"x": 1}',
        "call_id": "call_t1",
        "name": "f",
    }
    assert body["usage"] == {
        "input_tokens": 5,
        "output_tokens": 7,
        "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 2},
    }


def test_a_stream_begins_once_though_its_first_character_is_held_back() -> None:
    names = [name for name, _ in streamed(step("", send=False), step("é", 2), step("!", 3, last=Final("eos")))]
    assert names.count("response.created") == 1
    assert names[:2] == ["response.created", "response.in_progress"]


def test_the_last_event_has_the_whole_answer_and_the_receipt() -> None:
    name, data = streamed(step("a"), step("b", 2, last=Final("limit", text="ab", tokens_evaluated=5)))[-1]
    assert name == data["type"] == "response.completed"
    assert data["response"]["output"][0]["content"][0]["text"] == "ab"
    assert data["response"]["bankml_receipt"] == {"bankml": "1"}
    assert data["timings"]["predicted_n"] == 2


def test_timings_of_each_token_are_on_the_last_event_it_brings() -> None:
    events = streamed(step("a"), step("b", 2, last=Final("limit")), timings_per_token=True)
    timed = [name for name, data in events if "timings" in data]
    assert timed == ["response.output_text.delta", "response.output_text.delta", "response.completed"]
