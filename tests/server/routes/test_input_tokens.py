"""How many tokens a prompt has."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions/input_tokens", {"messages": ASK}),
        ("/chat/completions/input_tokens", {"messages": ASK}),
        ("/v1/responses/input_tokens", {"input": "Say hi."}),
        ("/responses/input_tokens", {"input": ASK}),
    ],
)
def test_openais_counts_say_what_they_are(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    assert client.post(path, json=body).json() == {"input_tokens": 33, "object": "response.input_tokens"}


def test_anthropics_count_is_a_number_alone(client: httpx.Client) -> None:
    assert client.post("/v1/messages/count_tokens", json={"messages": ASK}).json() == {"input_tokens": 33}


def test_a_count_is_what_the_answer_reads(client: httpx.Client) -> None:
    body: dict[str, Any] = {"messages": ASK, "system": "You are brief."}
    count = client.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
    usage = client.post("/v1/messages", json={**body, "max_tokens": 1}).json()["usage"]
    assert usage["cache_read_input_tokens"] + usage["input_tokens"] == count


def test_what_does_not_make_the_prompt_is_not_looked_at(client: httpx.Client) -> None:
    body = {"messages": ASK, "temperature": "hot", "n": 5, "stream": 1}
    assert client.post("/v1/chat/completions/input_tokens", json=body).status_code == 200


def test_a_prompt_longer_than_the_context_is_counted(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 9000}]}
    assert client.post("/v1/messages/count_tokens", json=body).json()["input_tokens"] > 9000
