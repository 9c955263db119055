"""Manifests of derived models: what their digest covers, and what is refused when one is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from registry.derived import Base, DerivedModel, Layer, ManifestRefused, Message
from registry.names import ModelName

SHA = "ab" * 32
CREATED = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def _model(name: str = "mario", **layer: Any) -> DerivedModel:
    base = Base("tiny", "tiny.gguf", SHA, "tiny.gguf.FORK.json", Path("/models/tiny.gguf"))
    return DerivedModel(ModelName.parse(name), CREATED, base, Layer(SHA, **layer))


FULL: dict[str, Any] = {
    "system": 'You are "Mario".\n',
    "parameters": {"temperature": 0.7, "num_ctx": 4096, "penalize_newline": False},
    "stop": ("<|im_end|>", "é"),
    "template_sha256": "0" * 64,
    "license": ("MIT", "and more"),
    "messages": (Message("user", "Hello"), Message("assistant", "It's me")),
    "requires": "0.14.0",
}


def _edited(change: Callable[[dict[str, Any]], None]) -> bytes:
    manifest = json.loads(_model(**FULL).to_json("1"))
    change(manifest)
    return json.dumps(manifest).encode()


@pytest.mark.parametrize("layer", [{}, FULL])
def test_a_manifest_is_read_back_as_it_was_written(layer: dict[str, Any]) -> None:
    model = _model("hf.co/Team/Mario:V2", **layer)
    again = DerivedModel.from_json(model.to_json("1"))
    assert again == model
    assert again.name.shown == "hf.co/Team/Mario:V2"


def test_a_manifest_has_the_contracts_keys_in_its_order() -> None:
    manifest = json.loads(_model(**FULL).to_json("1.2"))
    assert list(manifest) == ["kind", "bankml", "name", "created_at", "base", "layer", "digest"]
    assert list(manifest["base"]) == ["name", "file", "sha256", "fork", "path"]
    assert list(manifest["layer"]) == [
        *("base_sha256", "system", "parameters", "stop", "template_sha256", "license", "messages", "requires"),
    ]
    assert (manifest["bankml"], manifest["name"]) == ("1.2", "mario:latest")
    assert manifest["created_at"] == "2026-01-02T03:04:05.678901Z"


def test_the_digest_is_that_of_the_weights_and_the_layer_alone() -> None:
    model = _model(**FULL)
    copied = replace(model, name=ModelName.parse("luigi:v2"), created_at=datetime(2027, 1, 1, tzinfo=UTC))
    assert copied.digest == model.digest
    # sha256 of the layer's JSON with sorted keys and no spaces: whoever reads the manifest can work it out
    empty: dict[str, object] = dict.fromkeys(("requires", "system", "template_sha256"))
    empty |= {"base_sha256": SHA, "license": [], "messages": [], "parameters": {}, "stop": []}
    text = json.dumps(empty, sort_keys=True).replace(" ", "")
    assert text.startswith('{"base_sha256":"abab')
    assert _model().digest == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("system", "You are Luigi."),
        ("system", None),
        ("parameters", {**FULL["parameters"], "temperature": 0.8}),
        ("parameters", {**FULL["parameters"], "seed": 1}),
        ("stop", ["é", "<|im_end|>"]),
        ("template_sha256", None),
        ("license", ["MIT"]),
        ("messages", []),
        ("requires", "0.15.0"),
        ("base_sha256", "cd" * 32),
    ],
)
def test_a_layer_edited_by_hand_is_refused(name: str, value: object) -> None:
    with pytest.raises(ManifestRefused, match="edited by hand, refused: create it again"):
        DerivedModel.from_json(_edited(lambda manifest: manifest["layer"].update({name: value})))


def test_other_weights_under_a_layer_are_refused() -> None:
    with pytest.raises(ManifestRefused, match="edited by hand"):
        DerivedModel.from_json(_edited(lambda manifest: manifest["base"].update(sha256="cd" * 32)))


def test_a_pin_that_says_other_bytes_now_is_refused() -> None:
    model = _model()
    model.check_pin(SHA.upper())
    with pytest.raises(ManifestRefused, match=r"'mario:latest' was made over another 'tiny.gguf'"):
        model.check_pin("cd" * 32)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.pop("kind"), "kind of the manifest is not a text"),
        (lambda m: m.update(kind="x"), "its kind is not"),
        (lambda m: m.update(name="a b"), "its name is none"),
        (lambda m: m.update(created_at="yesterday"), "created_at is no time"),
        (lambda m: m.update(created_at="9999-12-31T23:59:59-23:00"), "created_at is no time"),
        (lambda m: m.update(base=[]), "base is not an object"),
        (lambda m: m.update(layer=None), "layer is not an object"),
        (lambda m: m["base"].update(file="../x"), "file of base is not a plain name"),
        (lambda m: m["base"].update(path=None), "path of base is not a text"),
        (lambda m: m["layer"].update(base_sha256="x"), "base_sha256 of layer is not a sha256"),
        (lambda m: m["layer"].update(system=1), "system of layer is not a text"),
        (lambda m: m["layer"].update(stop="x"), "stop of layer is not a list"),
        (lambda m: m["layer"].update(stop=[1]), "stop of layer is not a list of texts"),
        (lambda m: m["layer"].update(parameters={"a": "x"}), "parameters of layer is not an object of numbers"),
        (lambda m: m["layer"].update(parameters={"a": float("inf")}), "parameters of layer is not an object of"),
        (lambda m: m["layer"].update(messages=["x"]), "a message is not an object"),
        (lambda m: m["layer"]["messages"][0].update(role="tool"), "a message has a role that is none"),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_reason(change: Callable[[dict[str, Any]], None], reason: str) -> None:
    with pytest.raises(ManifestRefused, match=reason):
        DerivedModel.from_json(_edited(change))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"kind":' + b"1" * 5000 + b"}"])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestRefused, match="not a manifest"):
        DerivedModel.from_json(data)


def test_a_manifest_cut_anywhere_is_refused() -> None:
    whole = _model(**FULL).to_json("1")
    for size in range(len(whole) - 2):  # without its last newline it is whole
        with pytest.raises(ManifestRefused):
            DerivedModel.from_json(whole[:size])


def _signed(**layer: Any) -> bytes:
    """A manifest whose digest is right, whatever is in its layer."""
    manifest = json.loads(_model().to_json("1"))
    manifest["layer"].update(layer)
    text = json.dumps(manifest["layer"], sort_keys=True, separators=(",", ":"))
    manifest["digest"] = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return json.dumps(manifest).encode()


@pytest.mark.parametrize(
    ("layer", "what"),
    [
        ({"system": "\ud800"}, "system of layer is not a text"),
        ({"requires": "\udfff"}, "requires of layer is not a text"),
        ({"license": ["\ud800"]}, "license of layer is not a list of texts"),
        ({"stop": ["a", "\ud800"]}, "stop of layer is not a list of texts"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "content of a message is not a text"),
        ({"parameters": {"\ud800": 1}}, "parameters of layer is not an object of numbers"),
        ({"parameters": {"temperature": 10**400}}, "parameters of layer is not an object of numbers"),
        ({"parameters": {"seed": -(10**400)}}, "parameters of layer is not an object of numbers"),
    ],
)
def test_what_no_text_or_number_can_be_is_refused_under_a_right_digest(layer: dict[str, Any], what: str) -> None:
    with pytest.raises(ManifestRefused, match=what):
        DerivedModel.from_json(_signed(**layer))


@pytest.mark.parametrize("path", ["/models/\0", "../tiny.gguf", ""])
def test_weights_lie_at_an_absolute_path(path: str) -> None:
    with pytest.raises(ManifestRefused, match="path of base is not an absolute path"):
        DerivedModel.from_json(_edited(lambda manifest: manifest["base"].update(path=path)))


def test_a_manifest_of_a_million_lists_is_refused_unread() -> None:
    with pytest.raises(ManifestRefused, match="it has more than 100000 arrays and objects"):
        DerivedModel.from_json(b"[" + b"[]," * 1_000_000 + b"1]")
