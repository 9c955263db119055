"""Ollama's endpoints as LiteLLM's two Ollama providers use them, unmodified."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from typing import Any

import pytest

from testing.oracles.converted_exchanges import weather_in
from testing.server_process import BankmlServer

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own making
    import litellm

pytestmark = pytest.mark.filterwarnings("ignore")

ASK = [{"role": "user", "content": "Say hi."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def told(city: str, call_id: str) -> list[dict[str, Any]]:
    """What a small model needs to have seen before it calls a tool."""
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return [
        weather_in(city),
        {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "type": "function", "function": function}]},
        {"role": "tool", "content": "sunny", "tool_call_id": call_id},
        {"role": "assistant", "content": "It is sunny."},
    ]


def complete(server: BankmlServer, **options: Any) -> Any:
    given = {"model": "ollama_chat/smollm2", "messages": ASK, "temperature": 0, "max_tokens": 8, **options}
    return litellm.completion(api_base=server.url, **given)


@pytest.mark.parametrize("provider", ["ollama_chat", "ollama"])
def test_an_answer_and_its_stream_say_the_same(server: BankmlServer, provider: str) -> None:
    whole = complete(server, model=f"{provider}/smollm2")
    assert whole.choices[0].message.content
    assert whole.usage.completion_tokens <= 8
    stream = complete(server, model=f"{provider}/smollm2", stream=True)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(parts) == whole.choices[0].message.content


def test_an_async_answer(server: BankmlServer) -> None:
    given = {"model": "ollama_chat/smollm2", "messages": ASK, "max_tokens": 4}
    answer = asyncio.run(litellm.acompletion(api_base=server.url, **given))
    assert answer.choices[0].message.content


def test_a_tool_is_called(calling_server: BankmlServer) -> None:
    messages = [*told("London", "c1"), *told("Rome", "c2"), weather_in("Paris")]
    answer = complete(
        calling_server, model="ollama_chat/model", messages=messages, tools=[TOOL], max_tokens=64
    ).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})


def test_an_answer_of_a_schema(server: BankmlServer) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    answer = complete(server, response_format=form, max_tokens=40)
    assert isinstance(json.loads(answer.choices[0].message.content)["age"], int)


def test_embeddings(embedding_server: BankmlServer) -> None:
    answer = litellm.embedding(model="ollama/smollm2", input=["Hello", "Goodbye"], api_base=embedding_server.url)
    assert [len(one["embedding"]) for one in answer.data] == [576, 576]


def test_errors_are_the_clients(server: BankmlServer) -> None:
    with pytest.raises(Exception, match="model 'nosuch' not found") as error:
        complete(server, model="ollama_chat/nosuch")
    assert isinstance(error.value, litellm.exceptions.APIConnectionError | litellm.exceptions.NotFoundError)
