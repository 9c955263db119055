"""Anthropic's Messages API as pure functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.chat_formats.messages import ChatMessage, ToolCall
from engine.chat_formats.reader import AnswerReader
from engine.chat_template import CHATML, ChatTemplate
from engine.generation import Final, Step
from engine.timings import Timings
from server.errors import BadRequest
from server.wire import anthropic, openai
from server.wire.fields import parse_fields
from server.wire.llama import Format

ASK: dict[str, Any] = {"role": "user", "content": "hi"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1.0, "é": [None, True]}}
FORM = Format("m", parse_fields({}))


def converted(*messages: Any, **fields: Any) -> dict[str, Any]:
    chat, _ = anthropic.chat_request({"messages": list(messages), **fields})
    return chat


def ignored(*messages: Any, **fields: Any) -> tuple[str, ...]:
    return anthropic.chat_request({"messages": list(messages), **fields})[1]


def step(text: str, n: int = 1, *, send: bool = True, last: Final | None = None) -> Step:
    return Step(text, 5, send, n, Timings(cache_n=2, prompt_n=3, predicted_n=n), last)


def streamed(*steps: Step) -> list[anthropic.Event]:
    form = openai.chat_form(openai.parse_chat({"messages": [ASK]}), ChatTemplate(CHATML))
    events = anthropic.MessageEvents(AnswerReader(form), FORM)
    found = []
    for one in steps:
        events.text_of(one)
        found += events.of_step(one)
    return [*found, events.last({"bankml": "1"})]


# -- requests ------------------------------------------------------------------------------------------------------


def test_messages_of_text_stay_as_they_are() -> None:
    assert converted(ASK)["messages"] == [ASK]
    assert converted({"role": "user"}, 5)["messages"] == [{"role": "user"}, 5]


def test_the_system_prompt_comes_first_its_blocks_one_behind_the_other() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert converted(ASK, system=blocks)["messages"][0] == {"role": "system", "content": "ab"}
    assert converted(ASK, system="s")["messages"][0] == {"role": "system", "content": "s"}
    assert converted(ASK, system=5)["messages"][0] == {"role": "system", "content": ""}
    assert converted(ASK, system=None)["messages"] == [ASK]


@pytest.mark.parametrize(
    ("stamped", "plain"),
    [
        ("v=1; cch=a5145;You", "v=1; cch=fffff;You"),
        ("cch=12345;", "cch=fffff;"),
        ("cch=ééx;You", "cch=fffff;You"),  # the stamp is five bytes
        ("cch=1234;You", "cch=1234;You"),
        ("cch=12345", "cch=12345"),
        ("v=1;You", "v=1;You"),
    ],
)
def test_a_billing_headers_stamp_is_the_same_for_all(stamped: str, plain: str) -> None:
    header = "x-anthropic-billing-header: "
    assert converted(ASK, system=header + stamped)["messages"][0]["content"] == header + plain
    assert converted(ASK, system="not a " + header + stamped)["messages"][0]["content"] == "not a " + header + stamped


def test_thinking_and_calls_are_parts_of_one_message() -> None:
    blocks = [{"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"}, CALL]
    [message] = converted({"role": "assistant", "content": blocks})["messages"]
    function = {"name": "f", "arguments": '{"x":1.0,"é":[null,true]}'}
    assert message == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "t1", "type": "function", "function": function}],
        "reasoning_content": "ab",
    }


def test_a_tools_results_are_messages_behind_the_users() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
        {"type": "text", "text": "There."},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": t} for t in "ab"]},
        {"type": "tool_result", "tool_use_id": "t3"},
    ]
    assert converted({"role": "user", "content": results})["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "There."}]},
        {"role": "tool", "tool_call_id": "t1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "t2", "content": "ab"},
        {"role": "tool", "tool_call_id": "t3", "content": ""},
    ]


def test_images_become_addresses() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    [message] = converted({"role": "user", "content": [image]})["messages"]
    assert message["content"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}, image]}
    [message] = converted({"role": "user", "content": [result]})["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "image_url"]


def test_an_assistant_without_content_is_left_out() -> None:
    assert converted({"role": "assistant"}, ASK)["messages"] == [ASK]


def test_tools_are_functions() -> None:
    tools = [{"name": "f", "description": "d", "input_schema": {"type": "object"}}, {"name": "g"}]
    assert [tool["function"] for tool in converted(ASK, tools=tools)["tools"]] == [
        {"name": "f", "description": "d", "parameters": {"type": "object"}},
        {"name": "g", "description": "", "parameters": {}},
    ]


@pytest.mark.parametrize(
    ("choice", "meant", "unused"),
    [
        ({"type": "auto"}, "auto", ()),
        ({"type": "any"}, "required", ()),
        ({"type": "tool", "name": "f"}, "required", ("tool_choice.name",)),
        ({"type": "none"}, None, ("tool_choice",)),
        ("auto", None, ("tool_choice",)),
    ],
)
def test_a_choice_of_tools(choice: Any, meant: str | None, unused: tuple[str, ...]) -> None:
    assert converted(ASK, tool_choice=choice).get("tool_choice") == meant
    assert ignored(ASK, tool_choice=choice) == unused


def test_other_fields() -> None:
    assert converted(ASK)["max_tokens"] == 4096
    chat = converted(ASK, max_tokens=5, stop_sequences=["x"], temperature=0.5, top_p=1, top_k=2, stream=True, seed=1)
    wanted = {"stop": ["x"], "max_tokens": 5, "temperature": 0.5, "top_p": 1, "top_k": 2, "stream": True}
    assert chat == {"messages": [ASK], **wanted}
    thinking = {"type": "enabled", "budget_tokens": 50}
    assert converted(ASK, thinking=thinking)["thinking_budget_tokens"] == 50
    assert converted(ASK, thinking={"type": "enabled"})["thinking_budget_tokens"] == 10000
    assert "thinking_budget_tokens" not in converted(ASK, thinking={"type": "disabled"})


def test_what_has_no_effect_is_named() -> None:
    content = [{"type": "document"}, {"type": "text", "text": "x"}, 5]
    unused = ignored({"role": "user", "content": content}, metadata={"user_id": "me"}, seed=1, thinking={"type": "zen"})
    assert unused == ("metadata", "seed", "messages[0].content[0]", "messages[0].content[2]", "thinking")


def test_messages_are_required() -> None:
    with pytest.raises(BadRequest, match="'messages' is required"):
        anthropic.chat_request({})


def test_an_input_nested_without_end_is_the_clients_fault() -> None:
    deep: Any = json.loads("[" * 900 + "]" * 900)
    with pytest.raises(BadRequest, match="nested too deep"):
        converted({"role": "assistant", "content": [{**CALL, "input": deep}]})


# -- answers -------------------------------------------------------------------------------------------------------


def test_a_whole_answers_blocks() -> None:
    message = ChatMessage("text", "thought", (ToolCall("f", '{"x": 1}', "t1"), ToolCall("g", '{"x', "t2")))
    final = Final("eos", tokens_evaluated=5)
    body = anthropic.message_body(message, final, Timings(cache_n=2, prompt_n=3, predicted_n=7), FORM)
    assert body["content"] == [
        {"type": "thinking", "thinking": "thought", "signature": ""},
        {"type": "text", "text": "text"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
    ]
    assert (body["stop_reason"], body["stop_sequence"]) == ("tool_use", None)
    assert body["usage"] == {"cache_read_input_tokens": 2, "input_tokens": 3, "output_tokens": 7}


@pytest.mark.parametrize(
    ("final", "reason"),
    [
        (Final("eos"), ("end_turn", None)),
        (Final("word", stopping_word="x"), ("end_turn", "x")),
        (Final("limit"), ("max_tokens", None)),
    ],
)
def test_why_an_answer_ended(final: Final, reason: tuple[str, str | None]) -> None:
    body = anthropic.message_body(ChatMessage("a"), final, Timings(), FORM)
    assert (body["stop_reason"], body["stop_sequence"]) == reason


def test_the_events_of_a_stream() -> None:
    events = streamed(step("a"), step("b", 2, last=Final("limit", text="ab")))
    assert [name for name, _ in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(name == data["type"] for name, data in events)
    assert events[0][1]["message"]["usage"] == {"cache_read_input_tokens": 2, "input_tokens": 3, "output_tokens": 0}
    assert events[-2][1]["usage"] == {"output_tokens": 2}
    assert events[-1][1] == {"type": "message_stop", "bankml_receipt": {"bankml": "1"}}


def test_a_stream_starts_once_though_its_first_character_is_held_back() -> None:
    events = streamed(step("", send=False), step("é", 2), step("!", 3, last=Final("eos", text="é!")))
    assert [name for name, _ in events].count("message_start") == 1
    assert events[0][0] == "message_start"


def test_a_stream_of_no_text_has_no_block() -> None:
    names = [name for name, _ in streamed(step("", send=False, last=Final("eos")))]
    assert names == ["message_start", "message_delta", "message_stop"]
