"""`/v1/messages` with Anthropic's own client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from testing.oracles.converted_exchanges import TOLD, WEATHER, weather_in
from testing.server_process import BankmlServer

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]
SAID = "Hello there, welcome to"
GREEDY: dict[str, Any] = {"temperature": 0}


@pytest.fixture
def sdk(server: BankmlServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def calling_sdk(calling_server: BankmlServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=calling_server.url, api_key="none", max_retries=0) as sdk:
        yield sdk


def test_a_message(sdk: anthropic.Anthropic) -> None:
    answer = sdk.messages.create(model="any", max_tokens=5, messages=ASK, extra_body=GREEDY)
    [block] = answer.content
    assert block.type == "text"
    assert block.text == SAID
    assert (answer.stop_reason, answer.stop_sequence) == ("max_tokens", None)
    cached = answer.usage.cache_read_input_tokens or 0
    assert (cached + answer.usage.input_tokens, answer.usage.output_tokens) == (33, 5)
    assert answer.model_extra is not None
    assert answer.model_extra["bankml_receipt"]["completion_tokens"] == 5


def test_a_stop_sequence_is_named(sdk: anthropic.Anthropic) -> None:
    answer = sdk.messages.create(model="any", max_tokens=64, messages=ASK, extra_body=GREEDY, stop_sequences=[","])
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", ",")


def test_a_stream_of_text(sdk: anthropic.Anthropic) -> None:
    with sdk.messages.stream(model="any", max_tokens=5, messages=ASK, extra_body=GREEDY) as stream:
        assert "".join(stream.text_stream) == SAID
        answer = stream.get_final_message()
    assert [block.to_dict() for block in answer.content] == [{"type": "text", "text": SAID}]
    assert answer.stop_reason == "max_tokens"
    assert answer.usage.output_tokens == 5


def test_the_events_of_a_stream_and_the_receipt_in_the_last(sdk: anthropic.Anthropic) -> None:
    stream = sdk.messages.create(model="any", max_tokens=2, messages=ASK, extra_body=GREEDY, stream=True)
    events = list(stream)
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    extra = events[-1].model_extra
    assert extra is not None
    assert extra["bankml_receipt"]["completion_tokens"] == 2


def test_a_system_prompt_and_turns(sdk: anthropic.Anthropic) -> None:
    turns: list[Any] = [*ASK, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Again."}]
    system: list[Any] = [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]
    answer = sdk.messages.create(model="any", max_tokens=3, messages=turns, system=system, extra_body=GREEDY)
    assert answer.usage.output_tokens == 3


def test_tokens_are_counted(sdk: anthropic.Anthropic) -> None:
    assert sdk.messages.count_tokens(model="any", messages=ASK).input_tokens == 33


def test_errors_become_the_clients_exceptions(sdk: anthropic.Anthropic) -> None:
    long: list[Any] = [{"role": "user", "content": "word " * 9000}]
    with pytest.raises(anthropic.BadRequestError, match="exceeds the available context size"):
        sdk.messages.create(model="any", max_tokens=5, messages=long)
    with pytest.raises(anthropic.BadRequestError, match="exceeds the available context size"):
        sdk.messages.create(model="any", max_tokens=5, messages=long, stream=True)
    image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    with pytest.raises(anthropic.BadRequestError, match="image input is not supported"):
        sdk.messages.create(model="any", max_tokens=5, messages=[{"role": "user", "content": [image]}])
    with pytest.raises(anthropic.NotFoundError):
        sdk.get("/nowhere", cast_to=httpx.Response)


def test_a_stream_that_is_left_frees_the_server(sdk: anthropic.Anthropic) -> None:
    with sdk.messages.stream(model="any", max_tokens=4096, messages=ASK) as stream:
        next(iter(stream.text_stream))
    assert sdk.messages.create(model="any", max_tokens=1, messages=ASK).usage.output_tokens == 1


def test_a_tool_is_called_and_its_result_is_answered(calling_sdk: anthropic.Anthropic) -> None:
    tools: list[Any] = [WEATHER]
    turns: list[Any] = [*TOLD, weather_in("Paris")]
    answer = calling_sdk.messages.create(model="any", max_tokens=64, messages=turns, tools=tools, extra_body=GREEDY)
    assert answer.stop_reason == "tool_use"
    [call] = answer.content
    assert call.type == "tool_use"
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    turns += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    last = calling_sdk.messages.create(model="any", max_tokens=8, messages=turns, tools=tools, extra_body=GREEDY)
    assert last.content[0].type == "text"


def test_a_streamed_call_adds_up(calling_sdk: anthropic.Anthropic) -> None:
    tools: list[Any] = [WEATHER]
    turns: list[Any] = [*TOLD, weather_in("Paris")]
    with calling_sdk.messages.stream(
        model="any", max_tokens=64, messages=turns, tools=tools, extra_body=GREEDY
    ) as stream:
        pieces = "".join(event.partial_json for event in stream if event.type == "input_json")
        answer = stream.get_final_message()
    assert pieces == '{"city": "Paris"}'
    [call] = answer.content
    assert call.type == "tool_use"
    assert (call.name, call.input, answer.stop_reason) == ("get_weather", {"city": "Paris"}, "tool_use")
