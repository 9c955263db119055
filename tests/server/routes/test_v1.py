"""What stands beside OpenAI's answers, and what a conversation reuses."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from testing.oracles.http_shapes import events

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_the_receipt_is_an_event_of_its_own_before_the_end(client: httpx.Client, path: str) -> None:
    body = {"messages": ASK, "max_tokens": 5, "temperature": 0, "stream": True, "user": "me"}
    *chunks, receipt, done = events(client.post(path, json=body).text)
    assert done == "[DONE]"
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    found = receipt["bankml_receipt"]
    assert found["response_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (found["prompt_tokens"], found["completion_tokens"], found["ignored"]) == (33, 5, ["user"])
    assert not any("bankml_receipt" in chunk for chunk in chunks)


def test_the_receipt_of_a_whole_answer_covers_the_prefill(client: httpx.Client) -> None:
    body = {"messages": [*ASK, {"role": "assistant", "content": "Hello, I"}], "max_tokens": 4, "temperature": 0}
    whole = client.post("/v1/chat/completions", json=body).json()
    content = whole["choices"][0]["message"]["content"]
    assert content == "Hello, I'm here to help"
    assert whole["bankml_receipt"]["response_sha256"] == hashlib.sha256(content.encode()).hexdigest()
    *chunks, receipt, _ = events(client.post("/v1/chat/completions", json={**body, "stream": True}).text)
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == content
    assert receipt["bankml_receipt"]["response_sha256"] == whole["bankml_receipt"]["response_sha256"]


def test_the_warmers_lone_system_message_is_taken(client: httpx.Client) -> None:
    body = {"messages": [{"role": "system", "content": "You are brief."}], "max_tokens": 1, "temperature": 0}
    assert client.post("/v1/chat/completions", json=body).status_code == 200


def test_a_second_turn_reuses_the_first(client: httpx.Client) -> None:
    first = client.post("/v1/chat/completions", json={"messages": ASK, "max_tokens": 8, "temperature": 0}).json()
    said = first["choices"][0]["message"]
    messages = [*ASK, said, {"role": "user", "content": "Again."}]
    second = client.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1, "temperature": 0}).json()
    assert second["timings"]["cache_n"] >= first["usage"]["prompt_tokens"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == second["timings"]["cache_n"]


def test_n_answers_of_a_chat_are_choices_and_their_prompt_counts_once(client: httpx.Client) -> None:
    asked = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "seed": 3, "cache_prompt": False}
    alone = [client.post("/v1/chat/completions", json={**asked, "seed": seed}).json() for seed in (3, 4, 5)]
    answer = client.post("/v1/chat/completions", json={**asked, "n": 3}).json()
    assert [one["index"] for one in answer["choices"]] == [0, 1, 2]
    assert [one["message"] for one in answer["choices"]] == [one["choices"][0]["message"] for one in alone]
    usage = {name: answer["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    n_prompt = alone[0]["usage"]["prompt_tokens"]
    assert usage == {"prompt_tokens": n_prompt, "completion_tokens": 15, "total_tokens": n_prompt + 15}
    assert answer["bankml_receipt"]["prompt_tokens"] == n_prompt
    streamed = events(client.post("/v1/chat/completions", json={**asked, "n": 3, "stream": True}).text)
    assert len({event["id"] for event in streamed[:-1]}) == 1
    texts = ["", "", ""]
    for event in streamed[:-1]:
        choice = event["choices"][0]
        texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == [one["message"]["content"] for one in answer["choices"]]


def test_n_answers_to_each_prompt_of_a_completion_are_choices(client: httpx.Client) -> None:
    asked = {"prompt": ["One day", "The sea"], "max_tokens": 4, "seed": 3, "cache_prompt": False}
    alone = [
        client.post("/v1/completions", json={**asked, "prompt": prompt, "seed": seed}).json()
        for prompt in asked["prompt"]
        for seed in (3, 4)
    ]
    answer = client.post("/v1/completions", json={**asked, "n": 2}).json()
    assert [one["index"] for one in answer["choices"]] == [0, 1, 2, 3]
    assert [one["text"] for one in answer["choices"]] == [one["choices"][0]["text"] for one in alone]
    assert answer["usage"]["prompt_tokens"] == sum(one["usage"]["prompt_tokens"] for one in alone[::2])
    assert answer["usage"]["completion_tokens"] == 16


def test_tools_that_the_template_has_no_place_for_are_named_in_the_receipt(client: httpx.Client) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    assert client.post("/v1/chat/completions", json=body).json()["bankml_receipt"]["ignored"] == []
    answer = client.post("/v1/chat/completions", json={**body, "tools": [tool]})
    assert answer.json()["bankml_receipt"]["ignored"] == ["tools"]
