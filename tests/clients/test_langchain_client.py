"""OpenAI's endpoints as LangChain's OpenAI integration uses them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from testing.oracles.converted_exchanges import weather_in
from testing.server_process import BankmlServer

SAID = "Hello there, welcome to"


def chat_model(server: BankmlServer, **options: Any) -> ChatOpenAI:
    given = {"model": "any", "temperature": 0, "max_completion_tokens": 5, "max_retries": 0, **options}
    return ChatOpenAI(base_url=f"{server.url}/v1", api_key="none", **given)


@pytest.fixture
def make_llm(server: BankmlServer) -> Any:
    """Makes a chat model."""
    return partial(chat_model, server)


@tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return "sunny"


def test_a_chat(make_llm: Any) -> None:
    answer = make_llm().invoke("Say hi.")
    assert answer.content == SAID
    assert answer.response_metadata["finish_reason"] == "length"
    assert answer.usage_metadata["total_tokens"] == 38


def test_a_stream_adds_up_and_counts_its_tokens(make_llm: Any) -> None:
    whole = None
    for chunk in make_llm(stream_usage=True).stream("Say hi."):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    assert whole.content == SAID
    assert whole.response_metadata["finish_reason"] == "length"
    assert whole.usage_metadata["output_tokens"] == 5


def test_a_chain_of_messages(make_llm: Any) -> None:
    chain = ChatPromptTemplate.from_messages([("system", "You are brief."), ("user", "Say {what}.")]) | make_llm()
    assert chain.invoke({"what": "hi"}).content
    turns = [SystemMessage("You are brief."), HumanMessage("Say hi."), AIMessage("Hi."), HumanMessage("Again.")]
    assert make_llm().invoke(turns).content


def test_several_at_once(make_llm: Any) -> None:
    async def both() -> list[str]:
        return [answer.content for answer in await make_llm().abatch(["Say hi.", "Say hi."])]

    assert asyncio.run(both()) == [SAID, SAID]


def test_logprobs(make_llm: Any) -> None:
    answer = make_llm(logprobs=True, top_logprobs=2).invoke("Say hi.")
    tokens = answer.response_metadata["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens) == SAID
    assert {len(token["top_logprobs"]) for token in tokens} == {2}


def test_an_answer_of_a_schema(make_llm: Any) -> None:
    schema = {
        "title": "city",
        "description": "A city",
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    llm = make_llm(max_completion_tokens=64).with_structured_output(schema, method="json_schema")
    assert isinstance(llm.invoke("Name one city.")["city"], str)


def test_the_responses_api(make_llm: Any) -> None:
    llm = make_llm(use_responses_api=True)
    assert llm.invoke("Say hi.").text == SAID
    assert "".join(chunk.text for chunk in llm.stream("Say hi.")) == SAID


def test_errors_become_the_clients_exceptions(make_llm: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        make_llm().invoke("word " * 9000)


def test_a_tool_is_called_and_its_result_is_answered(calling_server: BankmlServer) -> None:
    llm = chat_model(calling_server, max_completion_tokens=64).bind_tools([get_weather])
    turns: list[Any] = []
    for city in ("London", "Rome"):
        call = {"name": "get_weather", "args": {"city": city}, "id": city}
        turns += [weather_in(city), AIMessage("", tool_calls=[call]), ToolMessage("sunny", tool_call_id=city)]
        turns.append(AIMessage("It is sunny."))
    turns.append(weather_in("Paris"))
    answer = llm.invoke(turns)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("get_weather", {"city": "Paris"})]
    whole: Any = None
    for chunk in llm.stream(turns):
        whole = chunk if whole is None else whole + chunk
    assert [call["args"] for call in whole.tool_calls] == [{"city": "Paris"}]
    turns += [answer, get_weather.invoke(answer.tool_calls[0])]
    assert llm.invoke(turns).content


def test_embeddings(embedding_server: BankmlServer) -> None:
    given = {"model": "any", "api_key": "none", "check_embedding_ctx_length": False}
    embeddings = OpenAIEmbeddings(base_url=f"{embedding_server.url}/v1", **given)
    one, two = embeddings.embed_documents(["hello", "world"])
    assert (len(one), len(two)) == (576, 576)
    assert embeddings.embed_query("hello") == one
