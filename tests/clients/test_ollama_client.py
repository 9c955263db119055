"""Ollama's endpoints with Ollama's own client for Python, unmodified."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from testing.server_process import BankmlServer

MODEL = "smollm2"
GREEDY = {"temperature": 0, "num_predict": 12}
ASK = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def client(server: BankmlServer) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def calling(calling_server: BankmlServer) -> Iterator[ollama.Client]:
    with ollama.Client(host=calling_server.url) as client:
        yield client


@pytest.fixture(scope="module")
def embedding(embedding_server: BankmlServer) -> Iterator[ollama.Client]:
    with ollama.Client(host=embedding_server.url) as client:
        yield client


def get_weather(city: str) -> str:
    """The weather of a city

    Args:
        city: which one

    Returns:
        the weather
    """
    return "sunny" if city else "none"


def told(city: str) -> list[dict[str, Any]]:
    """What a small model needs to have seen before it calls a tool."""
    return [
        {"role": "user", "content": f"What is the weather in {city}?"},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": city}}}],
        },
        {"role": "tool", "content": "sunny", "tool_name": "get_weather"},
        {"role": "assistant", "content": "It is sunny."},
    ]


TO_CALL: list[Any] = [*told("London"), *told("Rome"), told("Paris")[0]]


def test_the_client_chats(client: ollama.Client) -> None:
    answer = client.chat(MODEL, messages=ASK, options=GREEDY)
    assert answer.message.role == "assistant"
    assert answer.message.content
    assert answer.done is True
    assert answer.done_reason in ("stop", "length")
    assert answer.model == MODEL


def test_a_streamed_chat_says_what_a_whole_one_says(client: ollama.Client) -> None:
    whole = client.chat(MODEL, messages=ASK, options=GREEDY)
    parts = list(client.chat(MODEL, messages=ASK, options=GREEDY, stream=True))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == whole.eval_count == 12
    assert len(parts) > 3


def test_the_client_generates(client: ollama.Client) -> None:
    answer = client.generate(MODEL, prompt="Say hello.", options=GREEDY)
    parts = list(client.generate(MODEL, prompt="Say hello.", options=GREEDY, stream=True))
    assert answer.response
    assert "".join(part.response or "" for part in parts) == answer.response


def test_an_answer_follows_its_format(client: ollama.Client) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}, "required": ["age"]}
    options = {"seed": 3, "num_predict": 60}
    whole = client.chat(MODEL, messages=ASK, format=schema, options=options)
    assert json.loads(whole.message.content or "")["age"] <= 99
    parts = list(client.chat(MODEL, messages=ASK, format=schema, options=options, stream=True))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert client.generate(MODEL, prompt="Say hello.", format=schema, options=options).response == whole.message.content
    raw = client.generate(MODEL, prompt="Age: ", raw=True, format={"type": "integer"}, options=options)
    assert isinstance(json.loads(raw.response), int)
    assert client.generate(MODEL, prompt="Age", format="json", options=GREEDY).response.startswith("{")


def test_generate_says_what_chat_says(client: ollama.Client) -> None:
    chatted = client.chat(MODEL, messages=[{"role": "system", "content": "You are terse."}, *ASK], options=GREEDY)
    generated = client.generate(MODEL, prompt="Say hello.", system="You are terse.", options=GREEDY)
    assert generated.response == chatted.message.content
    assert generated.prompt_eval_count == chatted.prompt_eval_count


async def test_the_async_client_streams(server: BankmlServer) -> None:
    async with ollama.AsyncClient(host=server.url) as client:
        whole = await client.chat(MODEL, messages=ASK, options=GREEDY)
        parts = [part async for part in await client.chat(MODEL, messages=ASK, options=GREEDY, stream=True)]
        assert "".join(part.message.content or "" for part in parts) == whole.message.content


async def test_requests_that_come_together_are_all_answered(server: BankmlServer) -> None:
    async with ollama.AsyncClient(host=server.url) as client:
        asked = (client.generate(MODEL, prompt=f"Count to {n}.", options=GREEDY) for n in range(4))
        answers = await asyncio.gather(*asked)
        assert all(answer.response for answer in answers)


def test_the_client_raises_what_the_server_says(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="model 'nosuch' not found") as error:
        client.chat("nosuch", messages=ASK)
    assert error.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="library/smollm2:latest does not support tools"):
        client.chat(MODEL, messages=ASK, tools=[get_weather])
    with pytest.raises(ollama.ResponseError, match="does not support images"):
        client.generate(MODEL, prompt="What is it?", images=[b"\x89PNG"])


def test_a_python_function_is_called_and_its_result_answered(calling: ollama.Client) -> None:
    options = {"temperature": 0, "num_predict": 64}
    answer = calling.chat("model", messages=TO_CALL, tools=[get_weather], options=options)
    (call,) = answer.message.tool_calls or ()
    assert (call.function.name, dict(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    result = {"role": "tool", "content": get_weather(**call.function.arguments), "tool_name": call.function.name}
    after = calling.chat("model", messages=[*TO_CALL, answer.message, result], tools=[get_weather], options=options)
    assert after.message.content
    assert not after.message.tool_calls


async def test_a_streamed_call_comes_whole(calling_server: BankmlServer) -> None:
    options = {"temperature": 0, "num_predict": 64}
    async with ollama.AsyncClient(host=calling_server.url) as client:
        stream = await client.chat("model", messages=TO_CALL, tools=[get_weather], options=options, stream=True)
        parts = [part async for part in stream]
    calls = [call for part in parts for call in part.message.tool_calls or ()]
    assert [(call.function.name, dict(call.function.arguments)) for call in calls] == [
        ("get_weather", {"city": "Paris"})
    ]


def test_a_conversation_goes_on_from_its_context(client: ollama.Client) -> None:
    first = client.generate(MODEL, prompt="Say hello.", options=GREEDY)
    second = client.generate(MODEL, prompt="Again.", context=first.context, options=GREEDY)
    assert first.context is not None
    assert second.context is not None
    assert second.context[: len(first.context)] == first.context
    assert second.response


def test_the_client_embeds(embedding: ollama.Client) -> None:
    one = embedding.embed(MODEL, "Hello")
    two = embedding.embed(MODEL, ["Hello", "Goodbye"], dimensions=None, truncate=True)
    assert one.embeddings == two.embeddings[:1]
    assert [len(vector) for vector in two.embeddings] == [576, 576]
    assert two.prompt_eval_count == 3
    assert len(embedding.embed(MODEL, "Hello", dimensions=16).embeddings[0]) == 16
    assert len(embedding.embeddings(MODEL, prompt="Hello").embedding) == 576


async def test_the_async_client_embeds(embedding_server: BankmlServer) -> None:
    async with ollama.AsyncClient(host=embedding_server.url) as client:
        assert len((await client.embed(MODEL, "Hello")).embeddings[0]) == 576


def test_the_client_lists_shows_and_loads(client: ollama.Client) -> None:
    assert client.generate(MODEL).done_reason == "load"
    names = [model.model for model in client.list().models]
    assert [model.model for model in client.ps().models] == names
    assert len(names) == 1
    shown = client.show(MODEL)
    assert shown.capabilities is not None
    assert "completion" in shown.capabilities


def test_the_address_comes_from_the_environment(server: BankmlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    with ollama.Client() as client:
        assert client.generate(MODEL, prompt="Hi", options={"num_predict": 1}).eval_count == 1
