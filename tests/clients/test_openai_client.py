"""OpenAI's endpoints with OpenAI's own client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pydantic
import pytest

from server.receipts import BUILD
from testing.oracles.converted_exchanges import FUNCTION, TOLD_ITEMS, weather_in
from testing.server_process import BankmlServer

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]
SAID = "Hello there, welcome to"


class City(pydantic.BaseModel):
    """What an answer is parsed into."""

    city: str
    people: int


def client_of(server: BankmlServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.fixture
def sdk(server: BankmlServer) -> Iterator[openai.OpenAI]:
    with client_of(server) as sdk:
        yield sdk


@pytest.fixture
def calling_sdk(calling_server: BankmlServer) -> Iterator[openai.OpenAI]:
    with client_of(calling_server) as sdk:
        yield sdk


@pytest.fixture
def embedding_sdk(embedding_server: BankmlServer) -> Iterator[openai.OpenAI]:
    with client_of(embedding_server) as sdk:
        yield sdk


def told() -> list[Any]:
    """Messages in which a tool was called, and a question that asks for it again."""
    messages: list[Any] = []
    for city, call in (("London", "c1"), ("Rome", "c2")):
        function = {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'}
        messages += [
            weather_in(city),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call, "content": "sunny"},
            {"role": "assistant", "content": "It is sunny."},
        ]
    return [*messages, weather_in("Paris")]


TOOLS: list[Any] = [{"type": "function", "function": {name: FUNCTION[name] for name in FUNCTION if name != "type"}}]


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
    hot: Any = "hot"
    with pytest.raises(openai.BadRequestError, match="type must be number, but is string"):
        sdk.chat.completions.create(model="any", messages=ASK, temperature=hot)
    assert sdk.chat.completions.create(model="any", messages=ASK, max_tokens=1).choices


def test_the_client_reads_logprobs(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="any", messages=ASK, max_tokens=3, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(one.token for one in logprobs.content) == answer.choices[0].message.content
    assert all(len(one.top_logprobs) == 2 and one.logprob <= 0 for one in logprobs.content)


def test_every_chunk_with_text_to_come_has_logprobs(sdk: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "any", "messages": ASK, "max_tokens": 3, "temperature": 0}
    stream = sdk.chat.completions.create(**asked, logprobs=True, stream=True)
    role, *chunks = [chunk.choices[0] for chunk in stream if chunk.choices]
    assert role.delta.role == "assistant"
    going_on = [choice.logprobs for choice in chunks if choice.finish_reason is None]
    assert len(going_on) == 4  # the receipt's among them
    assert [len(one.content) for one in going_on if one is not None and one.content is not None] == [1, 1, 1, 0]


def test_an_answer_is_parsed_into_a_model(sdk: openai.OpenAI) -> None:
    ask: list[Any] = [{"role": "user", "content": "Name one city."}]
    answer = sdk.chat.completions.parse(model="any", messages=ask, temperature=0, max_tokens=64, response_format=City)
    assert isinstance(answer.choices[0].message.parsed, City)


def test_a_stream_that_is_left_frees_the_server(sdk: openai.OpenAI) -> None:
    stream = sdk.chat.completions.create(
        model="any", messages=ASK, max_tokens=4096, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    assert sdk.chat.completions.create(model="any", messages=ASK, max_tokens=1).choices


def test_a_response(sdk: openai.OpenAI) -> None:
    answer = sdk.responses.create(model="any", input="Say hi.", max_output_tokens=5, temperature=0)
    assert answer.output_text == SAID
    assert answer.status == "completed"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (33, 5, 38)
    assert answer.model_extra is not None
    assert answer.model_extra["bankml_receipt"]["completion_tokens"] == 5


def test_a_streamed_response(sdk: openai.OpenAI) -> None:
    stream = sdk.responses.create(model="any", input=ASK, max_output_tokens=2, temperature=0, stream=True)
    events = list(stream)
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello there"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Hello there"
    assert last.response.model_extra is not None
    assert last.response.model_extra["bankml_receipt"]["completion_tokens"] == 2


def test_the_items_of_one_response_belong_together(sdk: openai.OpenAI) -> None:
    stream = sdk.responses.create(model="any", input=ASK, max_output_tokens=2, temperature=0, stream=True)
    ids: dict[str, set[str]] = {"resp": set(), "msg": set()}
    for event in stream:
        if event.type in ("response.created", "response.in_progress", "response.completed"):
            ids["resp"].add(event.response.id)
        elif event.type in ("response.output_item.added", "response.output_item.done"):
            ids["msg"].add(str(event.item.id))
        else:
            ids["msg"].add(event.item_id)
    assert {name: len(found) for name, found in ids.items()} == {"resp": 1, "msg": 1}


def test_a_response_goes_on_from_items(sdk: openai.OpenAI) -> None:
    first = sdk.responses.create(model="any", input="Say hi.", max_output_tokens=5, temperature=0)
    said: list[Any] = [item.model_dump() for item in first.output]
    second = sdk.responses.create(
        model="any", input=[*ASK, *said, {"role": "user", "content": "Again."}], max_output_tokens=2, temperature=0
    )
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens >= 33


def test_the_tokens_of_an_input_are_counted(sdk: openai.OpenAI) -> None:
    assert sdk.responses.input_tokens.count(model="any", input="Say hi.").input_tokens == 33


def test_errors_of_responses_become_the_clients_exceptions(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        sdk.responses.create(model="any", input="x", previous_response_id="resp_1")
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        sdk.responses.create(model="any", input="word " * 9000, stream=True)
    with pytest.raises(openai.NotFoundError):
        sdk.get("/nowhere", cast_to=httpx.Response)


def test_a_tool_is_called_and_its_result_is_answered(calling_sdk: openai.OpenAI) -> None:
    turns = told()
    answer = calling_sdk.chat.completions.create(model="any", messages=turns, tools=TOOLS, max_tokens=64, temperature=0)
    assert answer.choices[0].finish_reason == "tool_calls"
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    [call] = calls
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city": "Paris"}')
    turns += [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    last = calling_sdk.chat.completions.create(model="any", messages=turns, tools=TOOLS, max_tokens=8, temperature=0)
    assert last.choices[0].message.content


def test_a_streamed_call_adds_up(calling_sdk: openai.OpenAI) -> None:
    with calling_sdk.chat.completions.stream(
        model="any", messages=told(), tools=TOOLS, max_tokens=64, temperature=0
    ) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert (calls[0].function.name, calls[0].function.arguments) == ("get_weather", '{"city": "Paris"}')


def test_a_response_calls_a_function(calling_sdk: openai.OpenAI) -> None:
    tools: list[Any] = [FUNCTION]
    items: list[Any] = [*TOLD_ITEMS, weather_in("Paris")]
    answer = calling_sdk.responses.create(model="any", input=items, tools=tools, max_output_tokens=64, temperature=0)
    [call] = answer.output
    assert call.type == "function_call"
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Paris"}')
    items += [call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    last = calling_sdk.responses.create(model="any", input=items, tools=tools, max_output_tokens=8, temperature=0)
    assert last.output_text


def test_embeddings(embedding_sdk: openai.OpenAI) -> None:
    vectors = embedding_sdk.embeddings.create(model="any", input=["hello", "world"])  # asks for base64
    floats = embedding_sdk.embeddings.create(model="any", input=["hello", "world"], encoding_format="float")
    assert [len(one.embedding) for one in vectors.data] == [576, 576]
    assert vectors.usage.prompt_tokens == floats.usage.prompt_tokens > 0
    for packed, plain in zip(vectors.data, floats.data, strict=True):
        assert packed.embedding == np.array(plain.embedding, np.float32).tolist()


def test_logprobs_of_a_completion_are_openais_legacy_ones_too(sdk: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "any", "prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}
    choice = sdk.completions.create(**asked, logprobs=2).choices[0]
    found = choice.logprobs
    assert found is not None
    assert "".join(found.tokens or []) == choice.text
    assert found.text_offset == [choice.text.index(token, at) for at, token in enumerate(found.tokens or [])]
    content = found.model_dump()["content"]
    assert found.token_logprobs == [one["logprob"] for one in content]
    assert found.top_logprobs == [{best["token"]: best["logprob"] for best in one["top_logprobs"]} for one in content]
    chunks = [chunk.choices[0].logprobs for chunk in sdk.completions.create(**asked, logprobs=2, stream=True)]
    shown = [chunk for chunk in chunks if chunk is not None]
    assert [offset for chunk in shown for offset in chunk.text_offset or []] == found.text_offset
    assert [token for chunk in shown for token in chunk.tokens or []] == found.tokens
