"""Ollama's requests for answers as pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from server.wire.golang import InvalidBody
from server.wire.ollama import Given, Request, parse_chat, parse_generate

USER = {"role": "user", "content": "Hi"}


def generate(**fields: Any) -> Request:
    return parse_generate(json.dumps({"model": "smollm2", **fields}).encode()).request()


def chat(**fields: Any) -> Request:
    return parse_chat(json.dumps({"model": "smollm2", **fields}).encode()).request()


def refusal(parse: Callable[[bytes], object], body: object) -> str:
    """What is told of a body before its model is looked for."""
    with pytest.raises(InvalidBody) as error:
        parse(json.dumps(body).encode())
    return str(error.value)


def refusal_then(parse: Callable[[bytes], Given], body: object) -> str:
    """What is told of a body once its model is known to be there."""
    given = parse(json.dumps(body).encode())
    for step in (given.check, given.request):
        try:
            step()
        except InvalidBody as error:
            return str(error)
    pytest.fail("nothing is wrong with it")


def test_a_prompt_becomes_a_conversation() -> None:
    assert generate(prompt="Hi").messages == (USER,)
    assert generate(prompt="Hi", system="Be brief.").messages == ({"role": "system", "content": "Be brief."}, USER)
    assert generate(prompt="Hi").prompt is None


def test_a_raw_prompt_stays_as_it_is() -> None:
    request = generate(prompt="Once", raw=True)
    assert request.prompt == "Once"
    assert request.messages == ()
    assert not request.only_loads


def test_answers_stream_unless_told_otherwise() -> None:
    assert generate(prompt="Hi").stream
    assert chat(messages=[USER], stream=None).stream
    assert not chat(messages=[USER], stream=False).stream


def test_without_a_prompt_a_request_only_loads() -> None:
    assert generate().only_loads
    assert generate(prompt="", system="x").only_loads
    assert generate(prompt="", raw=True).only_loads
    assert chat().only_loads
    assert chat(messages=None).only_loads
    assert not chat(messages=[{"role": "user", "content": ""}]).only_loads


def test_messages_become_those_of_llama_server_and_roles_are_lowered() -> None:
    call = {"function": {"index": 3, "name": "add", "arguments": {"b": 2, "a": [1.5, "é"]}}}
    request = chat(
        messages=[
            {"role": "System", "content": "x"},
            USER,
            {"role": "assistant", "thinking": "hm", "tool_calls": [{"id": "c1", **call}, call, {"function": {}}]},
            {"role": "tool", "content": "3", "tool_name": "add", "tool_call_id": "c1"},
        ]
    )
    function = {"name": "add", "arguments": '{"b":2,"a":[1.5,"é"]}'}
    assert request.messages == (
        {"role": "system", "content": "x"},
        USER,
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"type": "function", "function": function},
                {"type": "function", "function": {"name": "", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "3", "tool_call_id": "c1", "name": "add"},
    )


def test_what_changes_nothing_is_named() -> None:
    request = chat(
        messages=[{**USER, "name": "Ann"}, {**USER, "name": "Bob", "thinking": "hm"}],
        options={"num_thread": 4, "top_k": 3},
        colour="red",
    )
    assert request.ignored == ("colour", "messages.name", "options.num_thread")
    assert generate(prompt="x", suffix="y", system="z", think=True).ignored == ("system", "think")
    assert generate(prompt="x", raw=True, think=True).ignored == ("think",)


def test_empty_values_ask_for_nothing() -> None:
    nothing = {"suffix": "", "template": "", "context": [], "images": [], "format": "", "shift": False}
    request = generate(prompt="Hi", logprobs=False, _debug_render_only=False, **nothing)
    assert request == generate(prompt="Hi")
    assert chat(messages=[{**USER, "images": [], "tool_calls": []}], tools=[], format=None) == chat(messages=[USER])


def test_a_prompt_with_a_suffix_is_no_conversation() -> None:
    request = generate(prompt="a", suffix="b")
    assert (request.messages, request.prompt, request.suffix, request.raw) == ((), "a", "b", False)
    assert generate(suffix="b").only_loads


def test_the_chat_request_has_what_the_template_and_the_answer_need() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "minProperties": 1}}}
    assert chat(messages=[USER]).chat_body([USER]) == {"messages": [USER], "json_schema": None}
    assert chat(tools=[tool], logprobs=True).chat_body([]) == {
        "messages": [],
        "json_schema": None,
        "tools": [tool],
        "logprobs": True,
        "stream": True,
    }


@pytest.mark.parametrize(
    ("think", "variables"),
    [
        (None, None),
        (True, {"enable_thinking": True}),
        (False, {"enable_thinking": False}),
        ("max", {"enable_thinking": True, "reasoning_effort": "max"}),
    ],
)
def test_think_reaches_the_template(think: object, variables: object) -> None:
    assert chat(think=think).chat_body([]).get("chat_template_kwargs") == variables
    assert generate(prompt="x", think=think).chat_body([]).get("chat_template_kwargs") == variables


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"raw": True, "system": "x"}, "raw mode does not support template, system, or context"),
        ({"raw": True, "template": "x"}, "raw mode does not support template, system, or context"),
        ({"raw": True, "context": [1]}, "raw mode does not support template, system, or context"),
        ({"raw": True, "suffix": "x"}, "raw mode does not support suffix"),
        ({"template": "x"}, "template is not supported"),
        ({"images": ["aGk="]}, '"smollm2" does not support images'),
        ({"shift": True}, "shift is not supported"),
        ({"format": "xml"}, 'invalid format: "\\"xml\\""; expected "json" or a valid JSON Schema object'),
        ({"format": ["json"]}, 'invalid format: "[\\"json\\"]"; expected "json" or a valid JSON Schema object'),
    ],
)
def test_what_is_not_played_is_refused_with_its_reason(fields: dict[str, Any], text: str) -> None:
    assert refusal_then(parse_generate, {"model": "smollm2", "prompt": "Hi", **fields}).startswith(text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"messages": [{**USER, "images": ["aGk="]}]}, '"smollm2" does not support images'),
        ({"messages": [{"content": "x"}]}, "message role is required"),
        ({"shift": True}, "shift is not supported"),
        ({"format": 1}, 'invalid format: "1"; expected "json" or a valid JSON Schema object'),
    ],
)
def test_what_a_chat_cannot_have_is_refused_with_its_reason(fields: dict[str, Any], text: str) -> None:
    assert refusal_then(parse_chat, {"model": "smollm2", "messages": [USER], **fields}).startswith(text)


def test_top_logprobs_counts_with_logprobs_only() -> None:
    assert generate(prompt="Hi", logprobs=True).top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=3).top_logprobs == 3
    assert chat(logprobs=False).top_logprobs is None
    ignored = chat(top_logprobs=3)
    assert (ignored.top_logprobs, ignored.ignored) == (None, ("top_logprobs",))


@pytest.mark.parametrize("value", [-1, 21])
def test_top_logprobs_has_a_range(value: int) -> None:
    assert refusal(parse_chat, {"model": "x", "top_logprobs": value}) == "top_logprobs must be between 0 and 20"


@pytest.mark.parametrize("parse", [parse_generate, parse_chat])
def test_format_is_any_object_or_a_schema(parse: Any) -> None:
    def schema(given: Any) -> Any:
        body = {"model": "smollm2", "prompt": "Hi", "messages": [USER], "format": given}
        return parse(json.dumps(body).encode()).request().schema

    assert schema("json") == schema({}) == {"type": "object"}
    assert schema({"type": "number"}) == {"type": "number"}
    assert schema("") is schema(None) is None
