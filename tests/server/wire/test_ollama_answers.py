"""Ollama's answers as pure functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.chat_formats.messages import ChatMessage, ToolCall, UnexpectedAnswer
from server.wire.ollama_answers import Api, Measured, arguments_text, final, nothing_done, part, rendered

MEASURED = Measured(
    done_reason="stop",
    total_ns=50,
    load_ns=10,
    prompt_n=7,
    cache_n=3,
    prompt_ns=20,
    predicted_n=4,
    predicted_ns=15,
    receipt={"bankml": "0.1.0"},
)


def test_fields_stand_in_the_order_ollama_has_them() -> None:
    durations = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration")
    counts = (*durations, "eval_count", "eval_duration")
    ours, logprobs = ("bankml_cache_n", "bankml_truncated", "bankml_receipt"), [{"token": "x", "logprob": -1.0}]
    measured = replace(MEASURED, context=[1, 2], dropped=1)
    head = ("model", "created_at")
    assert list(final("chat", "m", ChatMessage(), measured, logprobs)) == [
        *(*head, "message", "done", "done_reason", "logprobs", *counts, *ours)
    ]
    assert list(final("generate", "m", ChatMessage("x", "y"), measured, logprobs)) == [
        *(*head, "response", "thinking", "done", "done_reason", "context", *counts, "logprobs", *ours)
    ]
    apis: tuple[tuple[Api, str], ...] = (("generate", "response"), ("chat", "message"))
    for api, key in apis:
        assert list(part(api, "m", ChatMessage("x"))) == [*head, key, "done"]
        assert list(nothing_done(api, "m", "load")) == [*head, key, "done", "done_reason"]
        assert list(rendered(api, "m", "p")) == [*head, key, "done", "_debug_info"]


def test_calls_have_their_arguments_as_an_object() -> None:
    calls = (ToolCall("add", '{"b": 2, "a": 1}', "c1"), ToolCall("now", ""))
    message = final("chat", "m", ChatMessage("x", "y", calls), MEASURED)["message"]
    assert list(message) == ["role", "content", "thinking", "tool_calls"]
    assert message["tool_calls"] == [
        {"id": "c1", "function": {"index": 0, "name": "add", "arguments": {"b": 2, "a": 1}}},
        {"function": {"index": 1, "name": "now", "arguments": {}}},
    ]
    assert arguments_text(calls) == '{"b":2,"a":1}{}'


@pytest.mark.parametrize("arguments", ["[1]", '{"a"', "NaN"])
def test_arguments_that_are_no_object_are_the_models_fault(arguments: str) -> None:
    with pytest.raises(UnexpectedAnswer, match='call of "add" are no JSON object'):
        final("chat", "m", ChatMessage("", "", (ToolCall("add", arguments),)), MEASURED)


def test_a_rendered_prompt_is_all_there_is() -> None:
    shown = rendered("chat", "m", "<p>")
    assert (shown["message"], shown["done"]) == ({"role": "", "content": ""}, False)
    assert shown["_debug_info"] == {"rendered_template": "<p>"}


def test_a_part_has_the_text_where_its_api_has_it() -> None:
    assert part("generate", "m", ChatMessage("x"))["response"] == "x"
    assert part("chat", "m", ChatMessage("x"))["message"] == {"role": "assistant", "content": "x"}
    assert part("chat", "m", ChatMessage("x"))["done"] is False


def test_reasoning_stands_beside_the_text() -> None:
    thought = ChatMessage("", "hm")
    assert part("chat", "m", thought)["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert list(part("generate", "m", thought).items())[2:4] == [("response", ""), ("thinking", "hm")]


def test_the_last_object_says_what_was_measured() -> None:
    answer = final("generate", "m", ChatMessage("whole"), MEASURED)
    assert answer["response"] == "whole"
    assert answer["done"] is True
    assert answer["done_reason"] == "stop"
    assert answer["prompt_eval_count"] == 7
    assert answer["bankml_cache_n"] == 3
    assert answer["total_duration"] == 50
    assert "bankml_truncated" not in answer
