"""Options and keep-alives of Ollama's requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from server.wire.golang import InvalidBody
from server.wire.ollama import parse_chat
from server.wire.ollama_options import FOREVER, Options, parse_keep_alive, parse_options

USER = {"role": "user", "content": "Hi"}


def refusal(parse: Callable[[bytes], object], body: object) -> str:
    with pytest.raises(InvalidBody) as error:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    return str(error.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        (0, 0.0),
        ("0", 0.0),
        ("0s", 0.0),
        (300, 300.0),
        (0.5, 0.5),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        (-1, FOREVER),
        ("-1m", FOREVER),
    ],
)
def test_keep_alive_is_a_go_duration_or_seconds(value: object, seconds: float | None) -> None:
    assert parse_keep_alive(value) == seconds
    assert parse_chat(json.dumps({"model": "x", "keep_alive": value}).encode()).request().keep_alive == seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("5", 'time: missing unit in duration "5"'),
        ("soon", 'time: invalid duration "soon"'),
        (True, "Unsupported type: 'bool'"),
        ([], "Unsupported type: '[]interface {}'"),
        ({}, "Unsupported type: 'map[string]interface {}'"),
    ],
)
def test_a_bad_keep_alive_gets_the_words_of_go(value: object, text: str) -> None:
    assert refusal(parse_chat, {"model": "x", "keep_alive": value}) == text


def test_no_options_leave_the_sampler_at_its_defaults() -> None:
    assert parse_options({}) == Options()
    assert parse_options({"temperature": None, "stop": None, "num_ctx": None}) == Options()


def test_sampling_options_go_to_the_sampler_by_their_name() -> None:
    given = {
        "temperature": 0,
        "top_k": 20.9,
        "top_p": 0.5,
        "min_p": 0.1,
        "min_keep": 1,
        "typical_p": 0.7,
        "seed": 42,
        "repeat_penalty": 1.1,
        "repeat_last_n": 32,
        "presence_penalty": 0.25,
        "frequency_penalty": 0.5,
        "mirostat": 2,
        "mirostat_tau": 4.5,
        "mirostat_eta": 0.2,
    }
    sampling = parse_options(given).sampling
    assert sampling == {**given, "top_k": 20}
    assert isinstance(sampling["temperature"], float)


@pytest.mark.parametrize(("seed", "wrapped"), [(-1, 2**32 - 1), (2**32 + 5, 5), (7.0, 7)])
def test_a_seed_has_32_bits(seed: float, wrapped: int) -> None:
    assert parse_options({"seed": seed}).sampling == {"seed": wrapped}


@pytest.mark.parametrize(("value", "limit"), [(5, 5), (0, -1), (-1, -1), (-2, -1), (3.7, 3)])
def test_num_predict_below_one_means_no_limit(value: float, limit: int) -> None:
    assert parse_options({"num_predict": value}).num_predict == limit


def test_stop_strings_and_num_ctx_are_kept() -> None:
    options = parse_options({"stop": ["a", "", "b"], "num_ctx": 1024})
    assert options.stop == ("a", "b")
    assert options.num_ctx == 1024


def test_options_that_change_no_token_are_named() -> None:
    given = {"num_gpu": 1, "use_mmap": True, "tfs_z": 1, "num_keep": 4}
    options = parse_options(given)
    assert options.ignored == tuple(given)
    assert options.sampling == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"temperature": "hot"}, 'option "temperature" must be of type float32'),
        ({"temperature": True}, 'option "temperature" must be of type float32'),
        ({"top_k": "x"}, 'option "top_k" must be of type integer'),
        ({"num_predict": []}, 'option "num_predict" must be of type integer'),
        ({"num_ctx": 2**40}, 'option "num_ctx" must be of type integer'),
        ({"use_mmap": 1}, 'option "use_mmap" must be of type boolean'),
        ({"stop": "x"}, 'option "stop" must be of type array'),
        ({"stop": [1]}, 'option "stop" must be of an array of strings'),
        ({"temprature": 1}, 'invalid option provided: "temprature"'),
        ({"mirostat": "2"}, 'option "mirostat" must be of type integer'),
        ({"tfs_z": 0.5}, 'option "tfs_z" is not supported'),
    ],
)
def test_a_bad_option_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidBody) as error:
        parse_options(options)
    assert str(error.value) == text
