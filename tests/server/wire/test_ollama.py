"""Ollama's requests and answers as pure functions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from engine.chat_formats.messages import ChatMessage
from server.wire.golang import InvalidBody
from server.wire.ollama import (
    CHAT_FIELDS,
    GENERATE_FIELDS,
    Measured,
    Request,
    final,
    fit_messages,
    is_model_name,
    nothing_done,
    parse_chat,
    parse_generate,
    parse_show,
    part,
)
from server.wire.ollama_options import FOREVER, Options, parse_keep_alive, parse_options

USER = {"role": "user", "content": "Hi"}
Parse = Callable[[bytes], Request]


def generate(**fields: Any) -> Request:
    return parse_generate(json.dumps({"model": "smollm2", **fields}).encode())


def chat(**fields: Any) -> Request:
    return parse_chat(json.dumps({"model": "smollm2", **fields}).encode())


def refusal(parse: Callable[[bytes], object], body: object) -> str:
    with pytest.raises(InvalidBody) as error:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    return str(error.value)


def test_a_prompt_becomes_a_conversation() -> None:
    assert generate(prompt="Hi").messages == (USER,)
    assert generate(prompt="Hi", system="Be brief.").messages == ({"role": "system", "content": "Be brief."}, USER)
    assert generate(prompt="Hi").prompt is None


def test_a_raw_prompt_stays_as_it_is() -> None:
    request = generate(prompt="Once", raw=True)
    assert request.prompt == "Once"
    assert request.messages == ()
    assert not request.only_loads


def test_answers_stream_unless_told_otherwise() -> None:
    assert generate(prompt="Hi").stream
    assert chat(messages=[USER], stream=None).stream
    assert not chat(messages=[USER], stream=False).stream


def test_without_a_prompt_a_request_only_loads() -> None:
    assert generate().only_loads
    assert generate(prompt="", system="x").only_loads
    assert generate(prompt="", raw=True).only_loads
    assert chat().only_loads
    assert chat(messages=None).only_loads
    assert not chat(messages=[{"role": "user", "content": ""}]).only_loads


def test_messages_keep_role_and_content_and_roles_are_lowered() -> None:
    request = chat(messages=[{"role": "System", "content": "x"}, USER, {"role": "assistant"}])
    assert request.messages == (
        {"role": "system", "content": "x"},
        USER,
        {"role": "assistant", "content": ""},
    )


def test_what_changes_nothing_is_named() -> None:
    request = chat(
        messages=[{**USER, "name": "Ann", "thinking": "hm"}, {**USER, "name": "Bob"}],
        options={"num_thread": 4, "top_k": 3},
        colour="red",
    )
    assert request.ignored == ("colour", "messages.name", "messages.thinking", "options.num_thread")


def test_empty_values_of_what_is_not_built_are_no_request_for_it() -> None:
    nothing = {"suffix": "", "template": "", "context": [], "images": [], "format": "", "think": False}
    request = generate(prompt="Hi", logprobs=False, _debug_render_only=False, **nothing)
    assert request.messages == (USER,)
    assert request.ignored == ()
    assert chat(messages=[{**USER, "images": [], "tool_calls": []}], tools=[], format=None).messages == (USER,)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"raw": True, "system": "x"}, "raw mode does not support template, system, or context"),
        ({"raw": True, "template": "x"}, "raw mode does not support template, system, or context"),
        ({"raw": True, "context": [1]}, "raw mode does not support template, system, or context"),
        ({"suffix": "x"}, '"smollm2" does not support insert'),
        ({"template": "x"}, "template is not supported"),
        ({"context": [1, 2]}, "context is not supported"),
        ({"images": ["aGk="]}, '"smollm2" does not support images'),
        ({"think": True}, '"smollm2" does not support thinking'),
        ({"think": "low"}, '"smollm2" does not support thinking'),
        ({"format": "xml"}, 'invalid format: "\\"xml\\""; expected "json" or a valid JSON Schema object'),
        ({"format": ["json"]}, 'invalid format: "[\\"json\\"]"; expected "json" or a valid JSON Schema object'),
        ({"_debug_render_only": True}, "_debug_render_only is not supported"),
    ],
)
def test_what_is_not_built_is_refused_with_its_reason(fields: dict[str, Any], text: str) -> None:
    assert refusal(parse_generate, {"model": "smollm2", "prompt": "Hi", **fields}).startswith(text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tools": [{"type": "function"}]}, '"smollm2" does not support tools'),
        ({"messages": [{**USER, "images": ["aGk="]}]}, '"smollm2" does not support images'),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            '"smollm2" does not support tools',
        ),
        ({"think": "high"}, '"smollm2" does not support thinking'),
        ({"format": 1}, 'invalid format: "1"; expected "json" or a valid JSON Schema object'),
    ],
)
def test_what_a_chat_cannot_have_yet_is_refused_with_its_reason(fields: dict[str, Any], text: str) -> None:
    assert refusal(parse_chat, {"model": "smollm2", "messages": [USER], **fields}).startswith(text)


@pytest.mark.parametrize("parse", [parse_generate, parse_chat, parse_show])
@pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": "  "}, {"model": None}, None])
def test_the_model_is_required(parse: Parse, body: object) -> None:
    assert refusal(parse, body) == "model is required"


@pytest.mark.parametrize("name", ["a b", "../x", "a:b:c", "model:", "-x", "x" * 81, "é"])
def test_what_cannot_be_a_model_name_is_an_invalid_one(name: str) -> None:
    assert not is_model_name(name)
    assert refusal(parse_chat, {"model": name, "messages": [USER]}) == "invalid model name"


@pytest.mark.parametrize(
    "name",
    ["smollm2", "smollm2:135m", "library/smollm2:latest", "host:5000/ns/SmolLM2-135M-Instruct.Q4_1.gguf"],
)
def test_model_names_have_host_namespace_and_tag(name: str) -> None:
    assert is_model_name(name)


@pytest.mark.parametrize(
    ("struct", "parse", "fields", "text"),
    [
        ("GenerateRequest", parse_generate, {"model": 1}, "number into Go struct field {}.model of type string"),
        ("GenerateRequest", parse_generate, {"prompt": ["x"]}, "array into Go struct field {}.prompt of type string"),
        ("GenerateRequest", parse_generate, {"raw": "x"}, "string into Go struct field {}.raw of type bool"),
        ("GenerateRequest", parse_generate, {"context": "x"}, "string into Go struct field {}.context of type []int"),
        (
            "GenerateRequest",
            parse_generate,
            {"context": [0.5]},
            "number 0.5 into Go struct field {}.context of type int",
        ),
        (
            "GenerateRequest",
            parse_generate,
            {"images": "x"},
            "string into Go struct field {}.images of type []api.ImageData",
        ),
        (
            "GenerateRequest",
            parse_generate,
            {"images": [1]},
            "number into Go struct field {}.images of type api.ImageData",
        ),
        ("ChatRequest", parse_chat, {"stream": 1}, "number into Go struct field {}.stream of type bool"),
        ("ChatRequest", parse_chat, {"messages": "x"}, "string into Go struct field {}.messages of type []api.Message"),
        ("ChatRequest", parse_chat, {"messages": ["x"]}, "string into Go value of type api.Alias"),
        (
            "Alias",
            parse_chat,
            {"messages": [{"content": ["x"]}]},
            "array into Go struct field {}.content of type string",
        ),
        ("ChatRequest", parse_chat, {"tools": "x"}, "string into Go struct field {}.tools of type api.Tools"),
        (
            "ChatRequest",
            parse_chat,
            {"options": []},
            "array into Go struct field {}.options of type map[string]interface {{}}",
        ),
        ("ChatRequest", parse_chat, {"logprobs": 1}, "number into Go struct field {}.logprobs of type bool"),
        ("ChatRequest", parse_chat, {"logprobs": "true"}, "string into Go struct field {}.logprobs of type bool"),
        (
            "ChatRequest",
            parse_chat,
            {"top_logprobs": 1.5},
            "number 1.5 into Go struct field {}.top_logprobs of type int",
        ),
        ("ChatRequest", parse_chat, {"top_logprobs": "x"}, "string into Go struct field {}.top_logprobs of type int"),
        ("ShowRequest", parse_show, {"verbose": "x"}, "string into Go struct field {}.verbose of type bool"),
    ],
)
def test_a_wrong_type_gets_the_words_of_go(struct: str, parse: Parse, fields: dict[str, Any], text: str) -> None:
    assert refusal(parse, {"model": "smollm2", **fields}) == "json: cannot unmarshal " + text.format(struct)


def test_a_body_that_is_no_object_gets_the_words_of_go() -> None:
    assert refusal(parse_chat, [1]) == "json: cannot unmarshal array into Go value of type api.ChatRequest"
    assert refusal(parse_generate, b"") == "missing request body"
    assert refusal(parse_generate, b"{") == "unexpected EOF"


def test_the_first_wrong_field_is_the_one_named() -> None:
    assert "stream" in refusal(parse_chat, b'{"model": "x", "stream": 1, "messages": 2}')
    assert "messages" in refusal(parse_chat, b'{"model": "x", "messages": 2, "stream": 1}')


def test_top_logprobs_counts_with_logprobs_only() -> None:
    assert generate(prompt="Hi", logprobs=True).top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=3).top_logprobs == 3
    assert chat(logprobs=False).top_logprobs is None
    ignored = chat(top_logprobs=3)
    assert (ignored.top_logprobs, ignored.ignored) == (None, ("top_logprobs",))


@pytest.mark.parametrize("value", [-1, 21])
def test_top_logprobs_has_a_range(value: int) -> None:
    assert refusal(parse_chat, {"model": "x", "top_logprobs": value}) == "top_logprobs must be between 0 and 20"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, 'think must be a boolean or string ("high", "medium", "low", "max", true, or false)'),
        ("deep", 'invalid think value: "deep" (must be "high", "medium", "low", "max", true, or false)'),
    ],
)
def test_think_is_a_switch_or_a_level(value: object, text: str) -> None:
    assert refusal(parse_chat, {"model": "x", "think": value}) == text


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
    assert generate(keep_alive=value).keep_alive == seconds


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
    assert refusal(parse_chat, {"model": "x", "messages": [USER], "options": options}) == text


def conversation(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": str(index)} for index, role in enumerate(roles)]


@pytest.mark.parametrize(
    ("roles", "limit", "left"),
    [
        (("user",), 9, "0"),
        (("user",), 0, "0"),
        (("user", "assistant", "user"), 3, "012"),
        (("user", "assistant", "user"), 2, "12"),
        (("user", "assistant", "user"), 1, "2"),
        (("user", "assistant", "user"), 0, "2"),
        (("system", "user", "assistant", "user"), 3, "023"),
        (("system", "user", "assistant", "user"), 2, "03"),
        (("system", "user", "assistant", "user"), 1, "03"),
        (("user", "system", "user"), 2, "12"),
        (("user", "system", "user", "system", "user"), 4, "1234"),
        (("user", "system", "user", "system", "user"), 3, "134"),
    ],
)
def test_the_oldest_messages_go_first_but_system_messages_and_the_last_one_stay(
    roles: tuple[str, ...], limit: int, left: str
) -> None:
    kept, dropped = fit_messages(conversation(*roles), limit, len)
    assert "".join(message["content"] for message in kept) == left
    assert dropped == len(roles) - len(left)


def test_a_long_conversation_is_fitted_in_few_looks() -> None:
    looks = 0

    def count(messages: object) -> int:
        nonlocal looks
        looks += 1
        return len(messages)  # type: ignore[arg-type]

    kept, dropped = fit_messages(conversation(*["user"] * 4096), 1000, count)
    assert (len(kept), dropped) == (1000, 3096)
    assert looks <= 14


MEASURED = Measured(
    done_reason="stop",
    total_ns=50,
    load_ns=10,
    prompt_n=7,
    cache_n=3,
    prompt_ns=20,
    predicted_n=4,
    predicted_ns=15,
    receipt={"bankml": "0.1.0"},
)


@pytest.mark.parametrize(("api", "key"), [("generate", "response"), ("chat", "message")])
def test_fields_stand_in_the_order_ollama_has_them(api: Any, key: str) -> None:
    assert list(part(api, "m", ChatMessage("x"))) == ["model", "created_at", key, "done"]
    assert list(final(api, "m", ChatMessage(), MEASURED)) == [
        *("model", "created_at", key, "done", "done_reason", "total_duration", "load_duration"),
        *("prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"),
        *("bankml_cache_n", "bankml_receipt"),
    ]
    assert list(nothing_done(api, "m", "load")) == ["model", "created_at", key, "done", "done_reason"]


def test_a_part_has_the_text_where_its_api_has_it() -> None:
    assert part("generate", "m", ChatMessage("x"))["response"] == "x"
    assert part("chat", "m", ChatMessage("x"))["message"] == {"role": "assistant", "content": "x"}
    assert part("chat", "m", ChatMessage("x"))["done"] is False


def test_reasoning_stands_beside_the_text() -> None:
    thought = ChatMessage("", "hm")
    assert part("chat", "m", thought)["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert list(part("generate", "m", thought).items())[2:4] == [("response", ""), ("thinking", "hm")]


@pytest.mark.parametrize("parse", [parse_generate, parse_chat])
def test_format_is_any_object_or_a_schema(parse: Any) -> None:
    def schema(given: Any) -> Any:
        body = {"model": "smollm2", "prompt": "Hi", "messages": [USER], "format": given}
        return parse(json.dumps(body).encode()).schema

    assert schema("json") == schema({}) == {"type": "object"}
    assert schema({"type": "number"}) == {"type": "number"}
    assert schema("") is schema(None) is None


def test_the_last_object_says_what_was_measured() -> None:
    answer = final("generate", "m", ChatMessage("whole"), MEASURED)
    assert answer["response"] == "whole"
    assert answer["done"] is True
    assert answer["done_reason"] == "stop"
    assert answer["prompt_eval_count"] == 7
    assert answer["bankml_cache_n"] == 3
    assert answer["total_duration"] == 50
    assert "bankml_truncated" not in answer


def test_every_field_of_the_requests_is_known_to_both_apis() -> None:
    shared = {"model", "stream", "format", "keep_alive", "options", "think", "logprobs", "top_logprobs", "truncate"}
    assert shared <= set(GENERATE_FIELDS)
    assert shared <= set(CHAT_FIELDS)
    assert math.isinf(FOREVER)
