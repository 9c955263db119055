"""registry/transfer/push.py: what a model's layers are as Ollama writes them, and how they get to a registry."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from registry.derived import Layer, Message
from registry.errors import ModelFileChanged
from registry.names import ModelName
from registry.transfer.errors import TransferError
from registry.transfer.fetch import Patience
from registry.transfer.push import Outgoing, push
from registry.transfer.ticks import Progress
from testing.registry_server import RegistryServer, digest_of, serving

WEIGHTS = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(10_000))
PATIENT = Patience(stall=5.0, attempts=3, backoff=0.001, smallest_part=50_000)


@pytest.fixture
def model(tmp_path: Path) -> Outgoing:
    path = tmp_path / "weights.gguf"
    path.write_bytes(WEIGHTS)
    layer = Layer(
        base_sha256=digest_of(WEIGHTS)[7:],
        system="Be brief.",
        parameters={"temperature": 1.0, "num_ctx": 256},
        stop=("<|im_end|>",),
        license=("MIT", "other"),
        messages=(Message("user", "hi"),),
    )
    return Outgoing(path, layer, b"{{ .Prompt }}", {"model_format": "gguf"})


def pushed(registry: RegistryServer, model: Outgoing) -> list[Progress]:
    """Every line of a push."""

    async def lines() -> list[Progress]:
        name = ModelName.parse(registry.name())
        return [line async for line in push(name, model, insecure=True, patience=PATIENT)]

    return asyncio.run(lines())


def test_the_layers_are_those_ollama_writes(model: Outgoing) -> None:
    with serving() as registry:
        pushed(registry, model)
    manifest = json.loads(registry.manifests["me/tiny:latest"])
    layers = [(layer["mediaType"].rpartition(".")[2], registry.blobs[layer["digest"]]) for layer in manifest["layers"]]
    assert layers == [
        ("model", WEIGHTS),
        ("template", b"{{ .Prompt }}"),
        ("system", b"Be brief."),
        ("license", b"MIT"),
        ("license", b"other"),
        ("params", b'{"num_ctx":256,"stop":["\\u003c|im_end|\\u003e"],"temperature":1}\n'),
        ("messages", b'[{"role":"user","content":"hi"}]\n'),
    ]
    assert registry.blobs[manifest["config"]["digest"]] == b'{"model_format":"gguf"}\n'


def test_a_large_blob_goes_in_parts_one_behind_the_other(model: Outgoing) -> None:
    with serving() as registry:
        lines = pushed(registry, model)
    digest = digest_of(WEIGHTS)
    sent = [each.path for each in registry.asked if each.method == "PATCH"]
    assert len(sent) == len(set(sent)) == -(-len(WEIGHTS) // 50_000) + 7
    of_weights = [line for line in lines if line.digest == digest]
    assert of_weights[-1] == Progress(f"pushing {digest[7:19]}", digest, len(WEIGHTS), len(WEIGHTS))


def test_a_registry_that_is_busy_is_sent_the_part_again(model: Outgoing) -> None:
    with serving(RegistryServer(upload_failures=[503, 429])) as registry:
        assert pushed(registry, model)[-1].status == "success"


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        ([503] * 9, "max retries exceeded: http status 503 Service Unavailable: come again"),
        ([403], "http status 403 Forbidden: come again"),
        ([302], "http status 302 Found: come again"),
    ],
)
def test_a_registry_that_does_not_take_a_part_is_said(model: Outgoing, failures: list[int], text: str) -> None:
    with serving(RegistryServer(upload_failures=failures)) as registry, pytest.raises(TransferError) as caught:
        pushed(registry, model)
    assert str(caught.value) == text
    assert registry.manifests == {}


def test_parts_may_go_elsewhere_which_gets_no_token(model: Outgoing) -> None:
    with serving(RegistryServer(uploads_elsewhere=True)) as registry:
        assert pushed(registry, model)[-1].status == "success"
    assert registry.blobs[digest_of(WEIGHTS)] == WEIGHTS
    assert {each.authorization for each in registry.asked if each.method == "PUT"} == {""}


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://x/", "data:,x"])
def test_a_place_for_the_next_part_that_is_none_ends_the_push(model: Outgoing, place: str) -> None:
    with serving(RegistryServer(upload_location=place)) as registry, pytest.raises(TransferError) as caught:
        pushed(registry, model)
    assert str(caught.value).startswith("the registry names a place that is none: ")
    assert registry.manifests == {}


def test_weights_that_are_not_what_they_were_are_not_sent(model: Outgoing) -> None:
    model.weights.write_bytes(WEIGHTS[:-1] + b"\0")
    with serving() as registry, pytest.raises(ModelFileChanged):
        pushed(registry, model)
    assert registry.asked == []
