"""Ollama's answers as pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chat_formats.messages import ChatMessage
from server.wire.ollama_answers import Measured, final, nothing_done, part

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


@pytest.mark.parametrize(("api", "key"), [("generate", "response"), ("chat", "message")])
def test_fields_stand_in_the_order_ollama_has_them(api: Any, key: str) -> None:
    assert list(part(api, "m", ChatMessage("x"))) == ["model", "created_at", key, "done"]
    assert list(final(api, "m", ChatMessage(), MEASURED)) == [
        *("model", "created_at", key, "done", "done_reason", "total_duration", "load_duration"),
        *("prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"),
        *("bankml_cache_n", "bankml_receipt"),
    ]
    assert list(nothing_done(api, "m", "load")) == ["model", "created_at", key, "done", "done_reason"]


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


