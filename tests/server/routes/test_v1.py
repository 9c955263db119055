"""OpenAI's endpoints with OpenAI's own client, unmodified, and the receipt beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from server.receipts import BUILD
from testing.oracles.http_shapes import events
from testing.server_process import BankmlServer

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]
SAID = "Hello there, welcome to"


@pytest.fixture
def sdk(server: BankmlServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as sdk:
        yield sdk


def test_a_chat(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="any", messages=ASK, max_tokens=5, temperature=0)
    assert answer.choices[0].message.content == SAID
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.usage.prompt_tokens) == (5, 33)
    assert answer.system_fingerprint == BUILD


def test_a_streamed_chat_read_in_the_simplest_way(sdk: openai.OpenAI) -> None:
    stream = sdk.chat.completions.create(model="any", messages=ASK, max_tokens=5, temperature=0, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == SAID


def test_a_streamed_chat_with_usage(sdk: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    stream = sdk.chat.completions.create(
        model="any", messages=ASK, max_tokens=5, temperature=0, stream=True, stream_options=options
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == SAID
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [38]


def test_the_stream_helper_puts_the_answer_together(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model="any", messages=ASK, max_tokens=64, temperature=0, stop=[","]) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == "Hello there"
    assert answer.choices[0].finish_reason == "stop"


def test_completions(sdk: openai.OpenAI) -> None:
    whole = sdk.completions.create(model="any", prompt=["Once upon a time", "One"], max_tokens=4, temperature=0)
    assert whole.choices[0].text == ", the city of"
    assert [choice.index for choice in whole.choices] == [0, 1]
    stream = sdk.completions.create(model="any", prompt="Once upon a time", max_tokens=4, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == ", the city of"


def test_models(sdk: openai.OpenAI) -> None:
    assert len(sdk.models.list().data) == 1


def test_errors_become_the_clients_exceptions(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        sdk.chat.completions.create(model="any", messages=[{"role": "user", "content": "word " * 9000}], stream=True)
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with pytest.raises(openai.BadRequestError, match="tools is not supported"):
        sdk.chat.completions.create(model="any", messages=ASK, tools=tools)
    assert sdk.chat.completions.create(model="any", messages=ASK, max_tokens=1).choices


def test_the_client_reads_logprobs(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="any", messages=ASK, max_tokens=3, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(one.token for one in logprobs.content) == answer.choices[0].message.content
    assert all(len(one.top_logprobs) == 2 and one.logprob <= 0 for one in logprobs.content)


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
