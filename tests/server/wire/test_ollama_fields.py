"""Bodies of Ollama's endpoints as Go would read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from registry.errors import ModelNotFound
from server.wire.golang import InvalidBody
from server.wire.ollama import parse_chat, parse_generate
from server.wire.ollama_embed import parse_embed, parse_embeddings
from server.wire.ollama_models import parse_delete, parse_show

USER = {"role": "user", "content": "Hi"}
Parse = Callable[[bytes], Any]


def refusal(parse: Callable[[bytes], object], body: object) -> str:
    with pytest.raises(InvalidBody) as error:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    return str(error.value)


@pytest.mark.parametrize("parse", [parse_chat, parse_embeddings, parse_show, parse_delete])
@pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": "  "}, {"model": None}, None])
def test_the_model_is_required(parse: Parse, body: object) -> None:
    assert refusal(parse, body) == "model is required"


@pytest.mark.parametrize("parse", [parse_generate, parse_embed])
@pytest.mark.parametrize(("body", "name"), [({}, ""), ({"model": ""}, ""), ({"model": "  "}, "  "), (None, "")])
def test_where_ollama_looks_for_a_model_without_a_name_it_finds_none(parse: Parse, body: object, name: str) -> None:
    with pytest.raises(ModelNotFound, match=f"^model '{name}' not found$"):
        parse(json.dumps(body).encode())


@pytest.mark.parametrize("parse", [parse_generate, parse_chat, parse_embed, parse_embeddings, parse_show, parse_delete])
def test_a_name_says_once_at_most_where_its_model_runs(parse: Parse) -> None:
    text = 'use either :local or :cloud, not both: "x:local:cloud"'
    assert refusal(parse, {"model": " x:local:cloud "}) == text
    parse(b'{"model": "x:8b:local"}')


def test_keys_are_read_in_whatever_letter_case() -> None:
    message = {"Role": "USER", "CONTENT": "Hi", "Tool_Calls": [{"Function": {"Name": "f", "Arguments": {"Key": 1}}}]}
    found = parse_chat(json.dumps({"Model": "x", "messages": [message], "Nothing": 1}).encode()).request()
    (asked,) = found.messages
    assert (found.model, asked["role"], asked["content"]) == ("x", "user", "Hi")
    assert asked["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"Key":1}'}
    assert found.ignored == ("Nothing",)


@pytest.mark.parametrize("name", ["a b", "../x", "a:b:c", "model:", "-x", "x" * 81, "é"])
def test_what_cannot_be_a_model_name_is_an_invalid_one(name: str) -> None:
    assert refusal(parse_chat, {"model": name, "messages": [USER]}) == "invalid model name"


@pytest.mark.parametrize(
    "name",
    ["smollm2", "smollm2:135m", "library/smollm2:latest", "host:5000/ns/SmolLM2-135M-Instruct.Q4_1.gguf"],
)
def test_model_names_have_host_namespace_and_tag(name: str) -> None:
    assert parse_chat(json.dumps({"model": name}).encode()).model == name


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
        ("ChatRequest", parse_chat, {"tools": ["x"]}, "string into Go struct field {}.tools of type api.Tool"),
        ("Tool", parse_chat, {"tools": [{"type": 1}]}, "number into Go struct field {}.tools.type of type string"),
        (
            "ToolFunctionParameters",
            parse_chat,
            {"tools": [{"function": {"parameters": {"required": [1]}}}]},
            "number into Go struct field {}.tools.function.parameters.required of type string",
        ),
        (
            "Alias",
            parse_chat,
            {"messages": [{"tool_calls": {}}]},
            "object into Go struct field {}.tool_calls of type []api.ToolCall",
        ),
        (
            "ToolCallFunction",
            parse_chat,
            {"messages": [{"tool_calls": [{"function": {"arguments": "{}"}}]}]},
            "string into Go struct field {}.tool_calls.function.arguments of type map[string]interface {{}}",
        ),
        (
            "ToolCallFunction",
            parse_chat,
            {"messages": [{"tool_calls": [{"function": {"index": "0"}}]}]},
            "string into Go struct field {}.tool_calls.function.index of type int",
        ),
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
        (
            "EmbedRequest",
            parse_embed,
            {"dimensions": 2**63},
            "number 9223372036854775808 into Go struct field {}.dimensions of type int",
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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, 'think must be a boolean or string ("high", "medium", "low", "max", true, or false)'),
        ("deep", 'invalid think value: "deep" (must be "high", "medium", "low", "max", true, or false)'),
    ],
)
def test_think_is_a_switch_or_a_level(value: object, text: str) -> None:
    assert refusal(parse_chat, {"model": "x", "think": value}) == text
