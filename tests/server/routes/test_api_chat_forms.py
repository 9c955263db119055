"""`/api/chat` and `/api/generate` with models whose templates know tools or reasoning: Ollama's shape of what
`/v1/chat/completions` says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.oracles.chat_exchanges import THINKING_TEMPLATE, write_model
from testing.oracles.converted_exchanges import weather_in
from testing.server_process import BankmlServer

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK = [{"role": "user", "content": "Say hi."}]


@pytest.fixture(scope="module")
def calling(calling_server: BankmlServer) -> httpx.Client:
    return calling_server.client


@pytest.fixture(scope="module")
def thinking(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    model = write_model(model_path, THINKING_TEMPLATE, tmp_path_factory.mktemp("thinking") / "model.gguf")
    with BankmlServer(model) as server:
        yield server.client


def told(city: str) -> list[dict[str, Any]]:
    """What a small model needs to have seen before it calls a tool, in Ollama's shape."""
    call = {"id": f"call-{city}", "function": {"index": 0, "name": "get_weather", "arguments": {"city": city}}}
    return [
        weather_in(city),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "sunny", "tool_name": "get_weather", "tool_call_id": f"call-{city}"},
        {"role": "assistant", "content": "It is sunny."},
    ]


def as_openai(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages in OpenAI's shape."""
    shown = []
    for message in messages:
        message = dict(message)
        if "tool_name" in message:
            message["name"] = message.pop("tool_name")
        if "tool_calls" in message:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {
                        "name": call["function"]["name"],
                        "arguments": json.dumps(call["function"]["arguments"]),
                    },
                }
                for call in message["tool_calls"]
            ]
        shown.append(message)
    return shown


CONVERSATION = [*told("London"), *told("Rome"), weather_in("Paris")]
TO_CALL = {"model": "model", "messages": CONVERSATION, "tools": [TOOL], "options": {"temperature": 0}}


def answer(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    response = client.post(path, json={"model": "model", "stream": False, **body})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def lines(client: httpx.Client, path: str, **body: Any) -> list[dict[str, Any]]:
    response = client.post(path, json={"model": "model", **body})
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "tool_calls": [{"function": call["function"]} for call in message["tool_calls"]]}


CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"index": 0, "name": "get_weather", "arguments": {"city": "Paris"}}}],
}


def test_a_call_comes_whole_with_its_arguments_as_an_object(calling: httpx.Client) -> None:
    whole = answer(calling, "/api/chat", **TO_CALL)
    assert without_ids(whole["message"]) == CALLED
    assert whole["done_reason"] == "stop"
    assert whole["message"]["tool_calls"][0]["id"]
    said = hashlib.sha256(b'{"city":"Paris"}').hexdigest()
    assert whole["bankml_receipt"]["response_sha256"] == said


def test_a_streamed_call_is_whole_in_the_last_line(calling: httpx.Client) -> None:
    streamed = lines(calling, "/api/chat", **TO_CALL)
    assert [line["message"].get("tool_calls") for line in streamed[:-1]] == [None] * (len(streamed) - 1)
    assert without_ids(streamed[-1]["message"]) == CALLED
    assert streamed[-1]["bankml_receipt"]["response_sha256"] == hashlib.sha256(b'{"city":"Paris"}').hexdigest()


def test_calls_and_results_are_the_tokens_that_v1_has_for_them(calling: httpx.Client) -> None:
    for messages in (CONVERSATION, [*CONVERSATION, *told("Paris")[1:3]]):
        mine = answer(calling, "/api/chat", **{**TO_CALL, "messages": messages})
        body = {"messages": as_openai(messages), "tools": [TOOL], "temperature": 0}
        theirs = calling.post("/v1/chat/completions", json=body).json()
        usage = theirs["usage"]
        assert (mine["prompt_eval_count"], mine["eval_count"]) == (usage["prompt_tokens"], usage["completion_tokens"])
        assert theirs["timings"]["cache_n"] == usage["prompt_tokens"] - 1
        message = theirs["choices"][0]["message"]
        assert mine["message"]["content"] == (message["content"] or "")
        calls = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", [])]
        assert [call["function"]["arguments"] for call in mine["message"].get("tool_calls", [])] == calls


def test_a_call_that_is_cut_is_an_error_and_the_next_request_is_served(calling: httpx.Client) -> None:
    body = {**TO_CALL, "options": {"temperature": 0, "num_predict": 22}}
    response = calling.post("/api/chat", json={**body, "stream": False})
    assert response.status_code == 500
    assert response.json() == {"error": 'the arguments of the model\'s call of "get_weather" are no JSON object'}
    assert lines(calling, "/api/chat", **body)[-1] == response.json()
    assert without_ids(answer(calling, "/api/chat", **TO_CALL)["message"]) == CALLED


def test_tools_with_logprobs_are_refused_as_llama_servers_stream_refuses_them(calling: httpx.Client) -> None:
    for stream in (True, False):
        response = calling.post("/api/chat", json={**TO_CALL, "logprobs": True, "stream": stream})
        assert response.status_code == 400
        assert response.json() == {"error": "logprobs is not supported with tools + stream"}


def test_a_tool_that_is_none_is_refused(calling: httpx.Client) -> None:
    for tool in ({}, {"type": "function"}, {"type": "function", "function": {}}):
        response = calling.post("/api/chat", json={**TO_CALL, "tools": [tool]})
        assert response.status_code == 400
        assert response.json()["error"].startswith("Failed to parse tools: ")


def test_reasoning_stands_in_thinking_on_both_endpoints_and_in_streams(thinking: httpx.Client) -> None:
    options = {"temperature": 0, "num_predict": 24}
    body = {"messages": ASK, "temperature": 0, "max_tokens": 24}
    theirs = thinking.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    for think in (None, True, "high"):
        mine = answer(thinking, "/api/chat", messages=ASK, options=options, think=think)["message"]
        assert mine == {"role": "assistant", "content": theirs["content"], "thinking": theirs["reasoning_content"]}
    streamed = lines(thinking, "/api/chat", messages=ASK, options=options)
    assert "".join(line["message"].get("thinking", "") for line in streamed) == theirs["reasoning_content"]
    generated = answer(thinking, "/api/generate", prompt="Say hi.", options=options)
    assert generated["thinking"] == theirs["reasoning_content"]


def test_think_false_turns_reasoning_off(thinking: httpx.Client) -> None:
    options = {"temperature": 0, "num_predict": 8}
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    body = {"messages": ASK, "temperature": 0, "max_tokens": 8, **off}
    theirs = thinking.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    mine = answer(thinking, "/api/chat", messages=ASK, options=options, think=False)["message"]
    assert mine == {"role": "assistant", "content": theirs["content"]}


def test_earlier_thinking_reaches_the_template(thinking: httpx.Client) -> None:
    messages = [*ASK, {"role": "assistant", "content": "Hi.", "thinking": "Short."}, *ASK]
    shown = answer(thinking, "/api/chat", messages=messages, _debug_render_only=True)
    assert "<think>\nShort.\n</think>\n\nHi." in shown["_debug_info"]["rendered_template"]


def test_what_the_template_does_not_know_is_refused_in_ollamas_words(
    calling: httpx.Client, thinking: httpx.Client
) -> None:
    full = "registry.ollama.ai/library/model:latest"
    for client, body, text in (
        (calling, {"messages": ASK, "think": True}, '"model" does not support thinking'),
        (calling, {"messages": [], "think": "low"}, '"model" does not support thinking'),
        (thinking, {"messages": ASK, "tools": [TOOL]}, f"{full} does not support tools"),
    ):
        response = client.post("/api/chat", json={"model": "model", **body})
        assert (response.status_code, response.json()) == (400, {"error": text})
