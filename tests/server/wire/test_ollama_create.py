"""`POST /api/create` as pure functions: Ollama's fields, and what is refused in which words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.creation import Recipe
from registry.derived import Message
from registry.modelfile import parse
from registry.names import ModelName
from server.wire.golang import InvalidBody
from server.wire.ollama_create import create_fields, parse_create

DIGEST = f"sha256:{'ab' * 32}"


def _recipe(**body: Any) -> Recipe:
    return parse_create(json.dumps({"model": "mario", "from": "tiny", **body}).encode()).recipe


def _refused(**body: Any) -> str:
    with pytest.raises(InvalidBody) as refused:
        _recipe(**body)
    return str(refused.value)


def test_a_structured_request_says_what_to_make() -> None:
    recipe = _recipe(
        system="You are Mario.",
        template="{{ x }}",
        license=["MIT", "and more"],
        parameters={"temperature": 0.7, "num_ctx": 4096.9, "stop": ["a", "b"], "num_gpu": 99, "seed": None},
        messages=[{"role": "User", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
        requires="0.14.0",
        quantization="f16",
    )
    assert recipe == Recipe(
        name=ModelName.parse("mario"),
        source="tiny",
        system="You are Mario.",
        template="{{ x }}",
        license=("MIT", "and more"),
        parameters={"temperature": 0.7, "num_ctx": 4096, "num_gpu": 99},
        stop=("a", "b"),
        messages=(Message("user", "Hi"), Message("assistant", "Yo")),
        requires="0.14.0",
        quantize="f16",
    )


def test_a_request_streams_unless_it_says_otherwise_and_may_use_the_old_name_of_its_name() -> None:
    request = parse_create(b'{"name": "mario:v2", "files": {"a.gguf": "%s"}, "stream": false}' % DIGEST.encode())
    assert (request.recipe.name.shown, request.stream) == ("mario:v2", False)
    assert request.recipe.files == {"a.gguf": DIGEST}
    assert parse_create(b'{"model": "mario", "from": "tiny"}').stream is True


def test_a_licence_may_be_one_text_and_an_empty_one_is_none() -> None:
    assert _recipe(license="MIT").license == ("MIT",)
    assert _recipe(license="").license == ()


@pytest.mark.parametrize("source", [{"from": "smollm2"}, {"modelfile": "FROM smollm2"}])
@pytest.mark.parametrize(("said", "stream"), [({}, True), ({"stream": True}, True), ({"stream": False}, False)])
def test_progress_is_streamed_unless_it_is_not_wanted(
    source: dict[str, Any], said: dict[str, Any], stream: bool
) -> None:
    assert parse_create(json.dumps({"model": "mario", **source, **said}).encode()).stream is stream


def test_a_modelfile_makes_the_same_recipe() -> None:
    modelfile = """
FROM tiny
SYSTEM You are Mario.
LICENSE MIT
LICENSE and more
PARAMETER temperature 0.7
PARAMETER num_ctx 4096
PARAMETER stop a
PARAMETER stop b
PARAMETER low_vram true
MESSAGE user Hi
MESSAGE assistant Yo: there
REQUIRES v0.14.0
"""
    request = parse_create(json.dumps({"model": "mario", "modelfile": modelfile}).encode())
    assert request.recipe == _recipe(
        system="You are Mario.",
        license=["MIT", "and more"],
        parameters={"temperature": 0.7, "num_ctx": 4096, "stop": ["a", "b"]},
        messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo: there"}],
        requires="0.14.0",
    )
    assert request.warnings == ("warning: parameter low_vram is deprecated",)


def test_files_are_left_to_whoever_has_them() -> None:
    fields, warnings = create_fields(parse("FROM ./x\nADAPTER ./y\nDRAFT ./z\nTEMPLATE t\nRENDERER r\nPARSER p"))
    assert fields == {"template": "t", "renderer": "r", "parser": "p"}
    assert warnings == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"from": ""}, "neither 'from' or 'files' was specified"),
        ({"model": ""}, "invalid model name"),
        ({"model": "a b"}, "invalid model name"),
        ({"model": 1}, "json: cannot unmarshal number into Go struct field CreateRequest.model of type string"),
        ({"files": {"/x": DIGEST}}, "file path must be relative"),
        ({"files": {"../x": DIGEST}}, "file path must be relative"),
        ({"files": {"a//x": DIGEST}}, "file path must be relative"),
        ({"files": {"x": ""}}, "invalid digest format"),
        ({"files": {"x": None}}, "invalid digest format"),
        (
            {"files": []},
            "json: cannot unmarshal array into Go struct field CreateRequest.files of type map[string]string",
        ),
        ({"files": {"x": 1}}, "json: cannot unmarshal number into Go struct field CreateRequest.files of type string"),
        ({"adapters": {"x": ""}}, "invalid digest format"),
        ({"draft_quantize": "q4_0"}, "--draft-quantize requires a DRAFT model"),
        ({"license": 1}, "json: cannot unmarshal number into Go value of type []string"),
        ({"license": [1]}, "json: cannot unmarshal number into Go value of type string"),
        ({"parameters": {"temperature": "x"}}, 'option "temperature" must be of type float32'),
        ({"parameters": {"num_ctx": 0}}, 'parameter "num_ctx" must be at least 1'),
        ({"parameters": {"num_predict": -3}}, 'parameter "num_predict" must be at least -2'),
        ({"parameters": {"temperature": -0.1}}, 'parameter "temperature" must be at least 0'),
        ({"parameters": {"repeat_penalty": 0}}, 'parameter "repeat_penalty" must be more than 0'),
        ({"parameters": {"wings": 2}}, 'invalid option provided: "wings"'),
        ({"parameters": {"tfs_z": 0.5}}, 'option "tfs_z" is not supported'),
        ({"parameters": {"stop": "x"}}, 'option "stop" must be of type array'),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            'message role must be one of "system", "user", or "assistant"',
        ),
        ({"messages": [{"role": "user", "images": ["aGk="]}]}, "messages with images are not supported in a model"),
        ({"modelfile": "SYSTEM x"}, "no FROM line"),
        ({"modelfile": "FROM a\nFROM b"}, "more than one FROM is not supported"),
        ({"modelfile": "FROM a\nPARAMETER wings 2"}, "unknown parameter 'wings'"),
        ({"modelfile": "FROM a\nREQUIRES newest"}, "requires must be a valid semver (e.g. 0.14.0)"),
        ({"modelfile": "FROM a\nNONSENSE b"}, '(line 2): command must be one of "from", "license", '),
    ],
)
def test_what_cannot_be_made_is_refused_in_ollamas_words(body: dict[str, Any], reason: str) -> None:
    refused = _refused(**body)
    assert refused.startswith(reason) if reason.endswith(", ") else refused == reason


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"adapters": {"a": DIGEST}}, "adapters"),
        ({"draft_files": {"a": DIGEST}}, "draft models"),
        ({"remote_host": "ollama.com"}, "models of another host"),
        ({"renderer": "qwen3"}, "renderer"),
        ({"parser": "qwen3"}, "parser"),
        ({"info": {"model_family": "x"}}, "info"),
        ({"modelfile": "FROM a\nADAPTER b"}, "adapters"),
        ({"modelfile": "FROM a\nDRAFT b"}, "draft models"),
        ({"modelfile": "FROM a\nPARSER b"}, "parser"),
    ],
)
def test_what_is_not_built_is_named(body: dict[str, Any], word: str) -> None:
    refused = _refused(**body)
    assert refused.startswith(word)
    assert " supported: " in refused or refused.endswith("are not supported")


@pytest.mark.parametrize("version", ["0.14.0", "v0.14.0", "1", "1.2", "1.2.3-rc.1+build", "0.0.0"])
def test_a_version_is_one_as_go_takes_it(version: str) -> None:
    assert create_fields(parse(f"FROM x\nREQUIRES {version}"))[0] == {"requires": version.removeprefix("v")}


@pytest.mark.parametrize("version", ["", "01.2.3", "1.2.3.4", "1.2-rc", "x", "1.2.3-", "vv1"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidBody, match="valid semver"):
        create_fields(parse(f"FROM x\nREQUIRES {version}"))


@pytest.mark.parametrize("body", [b"", b"  "])
def test_no_body_is_said_in_ollamas_words(body: bytes) -> None:
    with pytest.raises(InvalidBody, match=r"^missing request body$"):
        parse_create(body)
