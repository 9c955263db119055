"""How many messages fit, and what becomes of a prompt that is too long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

MODEL = "smollm2"
CONTEXT = 512
GREEDY = {"temperature": 0, "num_predict": 12}


@pytest.fixture(scope="module")
def http(start_server: Any) -> Iterator[httpx.Client]:
    with start_server("-c", str(CONTEXT)) as process:
        yield process.client


def post(http: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    response = http.post(path, json={"model": MODEL, "stream": False, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def conversation(turns: int) -> list[dict[str, str]]:
    said = [{"role": "system", "content": "You are terse."}]
    for turn in range(turns):
        said.append({"role": "user", "content": f"Question {turn}: what is {turn} and {turn}?"})
        said.append({"role": "assistant", "content": f"It is {2 * turn}, as everybody knows."})
    return [*said, {"role": "user", "content": "And what is one and one?"}]


def test_num_ctx_drops_the_oldest_messages_and_says_so(http: httpx.Client) -> None:
    messages = conversation(10)
    whole = post(http, "/api/chat", messages=messages, options=GREEDY)
    assert "bankml_truncated" not in whole
    cut = post(http, "/api/chat", messages=messages, options={**GREEDY, "num_ctx": 128})
    dropped = cut["bankml_truncated"]
    assert cut["prompt_eval_count"] < 128 < whole["prompt_eval_count"]
    left = [messages[0], *messages[1 + dropped :]]
    same = post(http, "/api/chat", messages=left, options=GREEDY)
    assert same["prompt_eval_count"] == cut["prompt_eval_count"]
    assert same["message"]["content"].startswith(cut["message"]["content"])


def test_an_answer_ends_where_a_context_of_num_ctx_would_be_full(http: httpx.Client) -> None:
    options = {"temperature": 0, "num_ctx": 64, "stop": ["never"]}
    answer = post(http, "/api/chat", messages=conversation(1), options=options)
    assert answer["done_reason"] == "length"
    assert answer["prompt_eval_count"] + answer["eval_count"] == 64


def test_a_conversation_longer_than_the_context_loses_its_oldest_messages(http: httpx.Client) -> None:
    answer = post(http, "/api/chat", messages=conversation(30), options=GREEDY)
    assert answer["bankml_truncated"] > 0
    assert answer["prompt_eval_count"] < CONTEXT


def test_a_conversation_of_exactly_num_ctx_tokens_loses_a_message_more_as_it_leaves_no_room(http: httpx.Client) -> None:
    messages = conversation(4)
    n_tokens = post(http, "/api/chat", messages=messages, options=GREEDY)["prompt_eval_count"]
    fits = post(http, "/api/chat", messages=messages, options={**GREEDY, "num_ctx": n_tokens + 1})
    assert "bankml_truncated" not in fits
    cut = post(http, "/api/chat", messages=messages, options={**GREEDY, "num_ctx": n_tokens})
    assert cut["bankml_truncated"] == 1


def test_a_conversation_that_must_not_be_cut_is_refused(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": conversation(10), "options": {"num_ctx": 128}, "truncate": False}
    response = http.post("/api/chat", json=body)
    assert response.status_code == 400
    assert "exceeds the available context size (128 tokens)" in response.json()["error"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("raw", [True, False])
def test_a_prompt_longer_than_the_context_is_a_400(http: httpx.Client, raw: bool, stream: bool) -> None:
    body = {"model": MODEL, "prompt": "word " * 1000, "raw": raw, "stream": stream}
    response = http.post("/api/generate", json=body)
    assert response.status_code == 400
    assert re.search(r"request \(\d+ tokens\) exceeds the available context size", response.json()["error"])
    assert post(http, "/api/generate", prompt="Hi", options=GREEDY)["response"]


def test_a_num_ctx_above_the_served_context_is_a_400(http: httpx.Client) -> None:
    response = http.post("/api/generate", json={"model": MODEL, "prompt": "Hi", "options": {"num_ctx": 1024}})
    assert response.status_code == 400
    assert response.json() == {"error": "num_ctx 1024 is more than the context of 512 tokens that is served"}
