"""OpenAI's endpoints as LangChain's OpenAI integration uses them."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

from testing.server_process import BankmlServer

SAID = "Hello there, welcome to"


@pytest.fixture
def make_llm(server: BankmlServer) -> Any:
    """Makes a chat model."""

    def make(**options: Any) -> ChatOpenAI:
        given = {"model": "any", "temperature": 0, "max_completion_tokens": 5, "max_retries": 0, **options}
        return ChatOpenAI(base_url=f"{server.url}/v1", api_key="none", **given)

    return make


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
