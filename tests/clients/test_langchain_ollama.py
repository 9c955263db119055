"""Ollama's endpoints as LangChain's Ollama integration uses them, unmodified."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import ollama
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM

from testing.oracles.converted_exchanges import weather_in
from testing.server_process import BankmlServer

MODEL = "smollm2"

# These classes never close their connections.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def connections_end_here() -> Iterator[None]:
    """What is left open is closed before another test sees it."""
    yield
    gc.collect()


def chat_model(server: BankmlServer, **options: Any) -> ChatOllama:
    return ChatOllama(**{"base_url": server.url, "model": MODEL, "temperature": 0, "num_predict": 8, **options})


@tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return "sunny"


def told(city: str, call_id: str) -> list[Any]:
    """What a small model needs to have seen before it calls a tool."""
    call = {"name": "get_weather", "args": {"city": city}, "id": call_id, "type": "tool_call"}
    return [
        HumanMessage(weather_in(city)["content"]),
        AIMessage("", tool_calls=[call]),
        ToolMessage("sunny", tool_call_id=call_id),
        AIMessage("It is sunny."),
    ]


TO_CALL = [*told("London", "c1"), *told("Rome", "c2"), HumanMessage(weather_in("Paris")["content"])]


def test_a_chat_and_its_stream_say_the_same(server: BankmlServer) -> None:
    llm = chat_model(server)
    asked = [SystemMessage("You are brief."), HumanMessage("Say hi."), AIMessage("Hi."), HumanMessage("Again.")]
    answer = llm.invoke(asked)
    assert answer.content
    assert answer.response_metadata["done_reason"] in ("stop", "length")
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] <= 8
    whole: Any = None
    for chunk in llm.stream(asked):
        whole = chunk if whole is None else whole + chunk
    assert whole.content == answer.content
    assert whole.usage_metadata == answer.usage_metadata


def test_async_answers(server: BankmlServer) -> None:
    async def ask() -> list[AIMessage]:
        return list(await asyncio.gather(*(chat_model(server).ainvoke(f"Say {n}.") for n in range(2))))

    assert all(answer.content for answer in asyncio.run(ask()))


def test_a_tool_is_called_and_answered(calling_server: BankmlServer) -> None:
    llm = chat_model(calling_server, model="model", num_predict=64).bind_tools([get_weather])
    answer = llm.invoke(TO_CALL)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("get_weather", {"city": "Paris"})]
    result = ToolMessage("sunny", tool_call_id=answer.tool_calls[0]["id"])
    assert llm.invoke([*TO_CALL, answer, result]).content


def test_structured_output(server: BankmlServer) -> None:
    schema = {
        "title": "Person",
        "description": "A person",
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 99}},
        "required": ["age"],
    }
    llm = chat_model(server, num_predict=32).with_structured_output(schema, method="json_schema")
    found = llm.invoke("How old is Ann?")
    assert isinstance(found, dict)
    assert 1 <= found["age"] <= 99


def test_logprobs(server: BankmlServer) -> None:
    answer = chat_model(server, logprobs=True, top_logprobs=2).invoke("Say hi.")
    tokens = answer.response_metadata["logprobs"]
    assert "".join(token["token"] for token in tokens) == answer.content
    assert {len(token["top_logprobs"]) for token in tokens} == {2}


def test_the_completion_class(server: BankmlServer) -> None:
    llm = OllamaLLM(base_url=server.url, model=MODEL, temperature=0, num_predict=8)
    assert llm.invoke("Say hi.") == "".join(llm.stream("Say hi."))


def test_embeddings(embedding_server: BankmlServer) -> None:
    embedder = OllamaEmbeddings(base_url=embedding_server.url, model=MODEL)
    documents = embedder.embed_documents(["Hello", "Goodbye"])
    assert embedder.embed_query("Hello") == documents[0]
    assert [len(vector) for vector in documents] == [576, 576]


def test_errors_are_the_clients(server: BankmlServer) -> None:
    with pytest.raises(ollama.ResponseError, match="model 'nosuch' not found"):
        chat_model(server, model="nosuch").invoke("Hi")
