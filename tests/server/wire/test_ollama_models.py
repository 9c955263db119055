"""What `/api/tags` and `/api/show` make of a model and its header, whatever that says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from registry.catalog import Entry
from registry.derived import Layer, Message
from registry.headers import Header
from registry.modelfile import parse
from server.wire.golang import InvalidBody, show_value
from server.wire.ollama_models import (
    ShowRequest,
    capabilities_of,
    described,
    details,
    listed,
    model_of_openai,
    modelfile,
    parse_copy,
    parse_delete,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FILE = Entry("m.q4_1", (), Path("/models/M.Q4_1.gguf"), 5, "ab" * 32, NOW, None, fork="M.Q4_1.gguf.FORK.json")
LAYER = Layer(
    "ab" * 32,
    system="You are Mario.",
    parameters={"temperature": 0.7, "num_ctx": 4096, "penalize_newline": True},
    stop=("<|end|>", 'a "b"'),
    license=("MIT", "and more"),
    messages=(Message("user", "Hi"), Message("assistant", "It's-a me")),
    requires="0.5.0",
)
MARIO = Entry(
    "mario:v2", (), FILE.path, 5, FILE.sha256, NOW, None, LAYER, "m.q4_1:latest", "cd" * 32, None, FILE.fork, True
)
HEADER = Header(
    {
        "general.architecture": "llama",
        "general.name": "M",
        "llama.context_length": 2048,
        "llama.embedding_length": 64,
        "general.file_type": 3,
        "tokenizer.chat_template": "{{ messages }}",
        "tokenizer.ggml.tokens": None,
    },
    1_500_000,
    (("output.weight", "Q4_1", (64, 8)),),
    template="{{ messages }}",
)
PLAIN = ShowRequest("m", verbose=False, system="", options={})


@pytest.mark.parametrize("value", [None, "x", 1.5, float("nan"), True, 2**63, -1])
def test_a_header_s_numbers_are_shown_where_they_are_numbers(value: Any) -> None:
    header = Header({"general.architecture": "llama", "llama.context_length": value, "general.file_type": value}, 10)
    assert header.n_ctx_train == (value if isinstance(value, int) else 0)
    assert isinstance(details(header)["quantization_level"], str)
    assert details(header)["family"] == "llama"


def test_the_weight_type_is_named() -> None:
    assert details(Header({"general.file_type": 3}, 10))["quantization_level"] == "Q4_1"
    assert details(Header({}, 10))["quantization_level"] == details(None)["quantization_level"] == "unknown"


def test_a_model_is_listed_with_ollama_s_fields_in_their_order() -> None:
    shown = listed(FILE, HEADER, None)
    order = ["name", "model", "modified_at", "size", "digest", "details", "capabilities", "bankml"]
    assert list(shown) == order
    assert (shown["name"], shown["digest"], shown["modified_at"]) == (
        "m.q4_1:latest",
        "ab" * 32,
        "2026-01-02T03:04:05Z",
    )
    assert shown["details"] == {
        "parent_model": "",
        "format": "gguf",
        "family": "llama",
        "families": ["llama"],
        "parameter_size": "1.50M",
        "quantization_level": "Q4_1",
        "context_length": 2048,
        "embedding_length": 64,
    }
    assert shown["bankml"] == {"native": True, "reason": None, "file": "M.Q4_1.gguf", "found": False}
    derived = listed(MARIO, None, "it is gone")
    assert (derived["name"], derived["digest"]) == ("mario:v2", "cd" * 32)
    assert derived["details"]["parent_model"] == "m.q4_1:latest"
    assert "capabilities" not in derived
    assert derived["bankml"]["reason"] == "it is gone"


def test_a_derived_model_is_described_with_all_that_it_adds() -> None:
    shown = described(MARIO, HEADER, PLAIN, n_ctx=256)
    assert list(shown) == [
        *("license", "modelfile", "parameters", "template", "system", "details", "messages", "model_info", "tensors"),
        *("capabilities", "modified_at", "requires", "bankml"),
    ]
    assert shown["license"] == "MIT\nand more"
    assert shown["parameters"] == (
        "num_ctx                        4096\n"
        "penalize_newline               true\n"
        'stop                           "<|end|>"\n'
        'stop                           "a \\"b\\""\n'
        "temperature                    0.7"
    )
    assert shown["system"] == "You are Mario."
    assert shown["messages"] == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It's-a me"}]
    assert shown["model_info"] == {
        "general.architecture": "llama",
        "general.file_type": 3,
        "general.parameter_count": 1_500_000,
        "llama.context_length": 2048,
        "llama.embedding_length": 64,
        "tokenizer.ggml.tokens": None,
    }
    assert shown["bankml"] == {
        "sha256": "ab" * 32,
        "native": True,
        "n_ctx": 256,
        "layer": {
            "digest": f"sha256:{'cd' * 32}",
            "base": {"sha256": "ab" * 32, "file": "M.Q4_1.gguf", "fork": "M.Q4_1.gguf.FORK.json"},
        },
    }


def test_a_file_is_described_without_what_it_has_not() -> None:
    shown = described(FILE, HEADER, PLAIN, n_ctx=None)
    order = ["modelfile", "template", "details", "model_info", "tensors", "capabilities", "modified_at", "bankml"]
    assert list(shown) == order
    assert shown["bankml"] == {"sha256": "ab" * 32, "native": True, "n_ctx": None}


def test_the_modelfile_is_ollama_s_and_reads_back() -> None:
    text = modelfile(MARIO, HEADER, "You are Mario.")
    assert text.startswith(
        '# Modelfile generated by "ollama show"\n'
        "# To build a new Modelfile based on this, replace FROM with:\n"
        "# FROM mario:v2\n\nFROM /models/M.Q4_1.gguf\n"
    )
    assert [(command.name, command.args) for command in parse(text)] == [
        ("model", "/models/M.Q4_1.gguf"),
        ("template", "{{ messages }}"),
        ("system", "You are Mario."),
        ("num_ctx", "4096"),
        ("penalize_newline", "true"),
        ("stop", "<|end|>"),
        ("stop", 'a "b"'),
        ("temperature", "0.7"),
        ("license", "MIT"),
        ("license", "and more"),
        ("message", "user: Hi"),
        ("message", "assistant: It's-a me"),
    ]


def test_what_a_show_request_says_goes_into_the_modelfile_only() -> None:
    shown = described(
        MARIO, HEADER, ShowRequest("m", False, "You are Luigi.", {"temperature": 1, "seed": 5}), n_ctx=None
    )
    commands = {command.name: command.args for command in parse(shown["modelfile"])}
    assert (commands["system"], commands["temperature"], commands["seed"]) == ("You are Luigi.", "1", "5")
    assert "temperature                    0.7" in shown["parameters"]
    assert "seed" not in shown["parameters"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (1, "1"), (-2, "-2"), (0.7, "0.7"), (4096, "4096"), (100_000, "100000"), (1_000_000, "1e+06")),
        *(
            (1_048_576, "1.048576e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1.5e-7, "-1.5e-07"),
            (1e300, "1e+300"),
        ),
        *(
            (True, "true"),
            (False, "false"),
            (None, "<nil>"),
            (["a", 1, [False]], "[a 1 [false]]"),
            ({"b": 1, "a": []}, "map[a:[] b:1]"),
        ),
    ],
)
def test_values_are_printed_as_go_prints_them(value: Any, text: str) -> None:
    assert show_value(value) == text


@pytest.mark.parametrize(
    ("template", "pools", "gaps", "can"),
    [
        ("plain", False, False, ["completion"]),
        ("{{ tools }}<think></think>", False, True, ["tools", "thinking", "completion", "insert"]),
        ("plain", True, False, ["embedding"]),
    ],
)
def test_capabilities_are_those_of_the_template_the_pooling_and_the_vocabulary(
    template: str, pools: bool, gaps: bool, can: list[str]
) -> None:
    assert capabilities_of(Header({}, 1, template=template, pools=pools, fills_gaps=gaps)) == can
    assert capabilities_of(Header({}, 1, template=template, reason="not played")) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "missing request body"),
        (b"{}", 'source "" is invalid'),
        (b'{"source": "a"}', 'destination "" is invalid'),
        (b'{"source": "a b", "destination": "c"}', 'source "a b" is invalid'),
        (b'{"source": 1}', "json: cannot unmarshal number into Go struct field CopyRequest.source of type string"),
    ],
)
def test_a_copy_without_two_names_is_refused_in_ollama_s_words(body: bytes, text: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        parse_copy(body)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [(b"", "missing request body"), (b"{}", "model is required"), (b'{"name": "a b"}', 'name "a b" is invalid')],
)
def test_a_delete_without_a_name_is_refused_in_ollama_s_words(body: bytes, text: str) -> None:
    with pytest.raises(InvalidBody) as caught:
        parse_delete(body)
    assert str(caught.value) == text


def test_openai_s_model_object_names_the_namespace() -> None:
    shown = model_of_openai(MARIO, "me/mario:v2")
    assert shown == {"id": "me/mario:v2", "object": "model", "created": int(NOW.timestamp()), "owned_by": "me"}
    assert model_of_openai(MARIO, "mario")["owned_by"] == "library"
