"""server/wire/layers.py: what a derived model adds to a request."""

from __future__ import annotations

from typing import Any

import pytest

from registry.derived import Layer, Message
from server.errors import BadRequest
from server.wire import layers

SHA256 = "ab" * 32
LAYER = Layer(
    SHA256,
    system="Be Mario.",
    parameters={"temperature": 0.5, "num_predict": 7, "num_ctx": 64, "repeat_last_n": -1},
    stop=("a", "b"),
    messages=(Message("user", "Hi"), Message("assistant", "It's-a me")),
)
SYSTEM = {"role": "system", "content": "Be Mario."}
TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It's-a me"}]
ASK = {"role": "user", "content": "Who?"}
OWN = {"role": "system", "content": "Be Luigi."}


def test_a_chat_begins_with_the_system_message_and_the_turns_of_the_model() -> None:
    assert layers.chat_messages(LAYER, [ASK]) == [SYSTEM, *TURNS, ASK]


def test_a_chat_that_begins_with_a_system_message_has_that_one_behind_the_model_s_turns() -> None:
    assert layers.chat_messages(LAYER, [OWN, ASK]) == [*TURNS, OWN, ASK]


def test_a_later_system_message_does_not_count() -> None:
    assert layers.chat_messages(LAYER, [ASK, OWN]) == [SYSTEM, *TURNS, ASK, OWN]


def test_a_prompt_s_system_message_takes_the_model_s_place() -> None:
    assert layers.prompt_messages(LAYER, [ASK]) == [SYSTEM, *TURNS, ASK]
    assert layers.prompt_messages(LAYER, [OWN, ASK]) == [OWN, *TURNS, ASK]
    assert layers.prompt_messages(LAYER, [ASK], goes_on=True) == [SYSTEM, ASK]


@pytest.mark.parametrize("build", [layers.chat_messages, layers.prompt_messages])
def test_nothing_is_added_to_nothing_nor_by_nothing(build: Any) -> None:
    assert build(LAYER, []) == []
    assert build(None, [ASK]) == [ASK]
    assert build(Layer(SHA256), [ASK]) == [ASK]


def test_options_are_defaults_one_by_one_and_stop_is_one_list() -> None:
    assert layers.options_under(LAYER, {}) == {**LAYER.parameters, "stop": ["a", "b"]}
    given = {"temperature": 0, "stop": ["c"], "num_predict": None, "seed": 1}
    under = layers.options_under(LAYER, given)
    assert under == {"temperature": 0, "num_predict": 7, "num_ctx": 64, "repeat_last_n": -1, "stop": ["c"], "seed": 1}


def test_a_body_gets_the_parameters_under_its_own_names_and_not_the_context() -> None:
    body = layers.body_under(LAYER, {"messages": [ASK], "stream": True})
    assert body == {
        "temperature": 0.5,
        "repeat_last_n": 64,
        "stop": ["a", "b"],
        "n_predict": 7,
        "messages": [SYSTEM, *TURNS, ASK],
        "stream": True,
    }
    assert layers.context_of(LAYER) == 64


def test_the_parameters_of_a_layer_are_parsed_once() -> None:
    layer = Layer(SHA256, parameters={"num_ctx": 64})
    assert layers.options_of(layer) is layers.options_of(layer)
    other = Layer(SHA256, parameters={"num_ctx": 65})
    assert [layers.context_of(each) for each in (layer, other)] == [64, 65]


@pytest.mark.parametrize("name", ["max_tokens", "n_predict", "max_completion_tokens"])
def test_any_name_of_the_limit_beats_the_model_s(name: str) -> None:
    body = layers.body_under(LAYER, {name: 3, "stop": "c", "temperature": 1})
    assert {key: body[key] for key in body if key in ("max_tokens", "n_predict", "max_completion_tokens")} == {name: 3}
    assert (body["stop"], body["temperature"]) == ("c", 1)


@pytest.mark.parametrize("limit", [-1, -2, 0])
def test_no_limit_of_the_model_is_none_of_the_body(limit: int) -> None:
    assert layers.body_under(Layer(SHA256, parameters={"num_predict": limit}), {"prompt": "a"}) == {"prompt": "a"}


def test_a_parameter_that_cannot_be_played_is_a_400() -> None:
    with pytest.raises(BadRequest, match=r'^a parameter of this model cannot be played: option "tfs_z"'):
        layers.body_under(Layer(SHA256, parameters={"tfs_z": 0.5}), {})


def test_a_context_is_four_tokens_at_the_least_and_no_more_than_there_are() -> None:
    assert [layers.served_context(asked, 256) for asked in (None, 1, 100, 256)] == [256, 4, 100, 256]
    with pytest.raises(BadRequest, match=r"^num_ctx 257 is more than the context of 256 tokens that is served$"):
        layers.served_context(257, 256)
