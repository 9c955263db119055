"""registry/transfer/pull.py: what registry, network or disk do wrong is got over, or refused; no half model is left."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any

import pytest

from registry.folder import FolderError, ModelFolder
from registry.names import ModelName
from registry.transfer.blobs import WrongDigest
from registry.transfer.errors import NotPlayable, TransferError
from registry.transfer.fetch import Patience
from registry.transfer.pull import Puller
from testing.pulls import IN_PARTS, NAME, WHOLE, left, pull, refused
from testing.registry_server import RegistryServer, digest_of, serving


def test_a_cut_connection_goes_on_where_it_stopped(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(cuts=[5_000, 7_000])) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry)
    last = len(weights) - 1
    assert registry.blob_ranges(digest) == [f"bytes={start}-{last}" for start in (0, 5_000, 12_000)]


def test_a_busy_registry_is_asked_again(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(failures=[503, 429, 500])) as registry:
        registry.add(weights)
        assert pull(folder, registry)[-1].status == "success"


def test_a_registry_that_brings_nothing_is_given_up(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(failures=[503] * 99)) as registry:
        registry.add(weights)
        assert refused(folder, registry) == "max retries exceeded: 503: come again"
    assert len(registry.failures) == 99 - WHOLE.attempts


def test_a_refusal_is_final_and_says_what_the_registry_said(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(failures=[403])) as registry:
        registry.add(weights)
        assert refused(folder, registry) == "403: come again"


def test_a_peer_that_stops_sending_is_left_and_what_came_is_kept(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(stall=threading.Event())) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        text = refused(folder, registry, patience=Patience(stall=0.05, attempts=2, backoff=0.001))
        assert text.startswith("max retries exceeded: ")
        registry.stall = None
        pull(folder, registry)
    assert not registry.blob_ranges(digest)[-1].startswith("bytes=0-")


def test_wrong_bytes_are_refused_and_not_kept(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        wrong = weights[:-1] + bytes([weights[-1] ^ 1])
        registry.blobs[digest] = wrong
        text = refused(folder, registry, WrongDigest)
        assert left(folder) == []
        assert not folder.has_blob(digest)
    assert text == f"digest mismatch, file must be downloaded again: want {digest}, got {digest_of(wrong)}"


def test_what_an_earlier_pull_left_is_fetched_anew_where_it_is_wrong(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(cuts=[30_000, 0, 0, 0, 0])) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        refused(folder, registry)
        (name,) = left(folder)
        with (folder.partial / name).open("r+b") as file:
            file.write(b"damaged")
        registry.cuts.clear()
        pull(folder, registry)
    assert folder.blob_path(digest).read_bytes() == weights
    assert registry.blob_ranges(digest)[-2:] == [f"bytes=30000-{len(weights) - 1}", f"bytes=0-{len(weights) - 1}"]


@pytest.mark.parametrize(("total", "kind"), [(1 << 40, "larger"), (7, "smaller")])
def test_a_registry_that_lies_about_a_size_is_refused(
    folder: ModelFolder, weights: bytes, total: int, kind: str
) -> None:
    with serving(RegistryServer(total=total)) as registry:
        registry.add(weights)
        text = refused(folder, registry)
    assert text == (f"the file at {registry.host} is {kind} than it should be: {total} bytes, not {len(weights)}")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("", "sent another part of the file than was asked for"),
        ("bytes 1-9/10", "sent another part of the file than was asked for"),
        ("bytes 0-/*", "sent another part of the file than was asked for"),
        ("bytes -1-9/10", "sent another part of the file than was asked for"),
        (f"bytes 0-9/{'9' * 5000}", "sent another part of the file than was asked for"),
        (f"bytes 0-9/{'9' * 20}", f"is larger than it should be: {'9' * 20} bytes, not "),
    ],
)
def test_an_absurd_range_is_refused(folder: ModelFolder, weights: bytes, said: str, text: str) -> None:
    with serving(RegistryServer(content_range=said)) as registry:
        registry.add(weights)
        assert text in refused(folder, registry)
    assert left(folder) == []


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_shrinks_between_two_pulls_is_refused(folder: ModelFolder, weights: bytes, ranges: bool) -> None:
    with serving(RegistryServer(cuts=[5_000, 0, 0, 0, 0], ranges=ranges)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        refused(folder, registry)
        registry.cuts.clear()
        registry.blobs[digest] = weights[:20_000]
        text = refused(folder, registry)
    assert text == f"the file at {registry.host} is smaller than it should be: 20000 bytes, not {len(weights)}"
    assert not folder.has_blob(digest)


@pytest.mark.parametrize("size", [1 << 62, 2**63 - 4096, 2**63 - 1])
def test_a_full_disk_is_said_before_the_download(folder: ModelFolder, weights: bytes, size: int) -> None:
    with serving() as registry:
        manifest = registry.add(weights)
        manifest["layers"][0]["size"] = size
        registry.manifests[NAME] = json.dumps(manifest).encode()
        assert refused(folder, registry, FolderError) == f"no space left in {folder.path}"
    assert registry.blob_ranges(manifest["layers"][0]["digest"]) == []


def test_a_model_the_registry_does_not_have_is_said_in_ollamas_words(folder: ModelFolder) -> None:
    with serving() as registry:
        assert refused(folder, registry) == "pull model manifest: file does not exist"


def test_a_registry_that_is_not_there_is_said_in_ollamas_words(folder: ModelFolder) -> None:
    with serving() as registry:
        pass
    assert refused(folder, registry) == (
        f'pull model manifest: Get "http://{registry.host}/v2/me/tiny/manifests/latest": '
        f"dial tcp {registry.host}: connect: connection refused"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "pull model manifest: the manifest is not JSON"),
        (b"[" * 100_000, "pull model manifest: the manifest is not JSON"),
        (b"[]", "pull model manifest: the manifest is not an object"),
        (b'{"layers": 1}', "pull model manifest: the manifest has no list of layers"),
        (b'{"layers": [1]}', "pull model manifest: a layer of the manifest is not an object"),
        (b'{"layers": [{}]}', "pull model manifest: a layer of the manifest has no mediaType, digest or size"),
        (b" " * (5 << 20), "pull model manifest: the manifest has more than 4194304 bytes"),
        (
            b'{"layers": [{"mediaType": "x", "digest": "sha256:../../x", "size": 1}]}',
            "pull model manifest: invalid digest format",
        ),
    ],
)
def test_what_is_no_manifest_is_refused(folder: ModelFolder, body: bytes, text: str) -> None:
    with serving(RegistryServer(manifests={NAME: body})) as registry:
        assert refused(folder, registry) == text


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ({"adapter": "x"}, "the model has an adapter (LoRA), which is not supported"),
        ({"projector": "x"}, "the model has a projector for images, which is not supported"),
        ({"model": "x"}, "the model has weights in several files, which are not supported"),
    ],
)
def test_a_model_with_parts_that_are_not_played_is_refused_before_it_is_fetched(
    folder: ModelFolder, weights: bytes, texts: dict[str, str], text: str
) -> None:
    with serving() as registry:
        registry.add(weights, **texts)
        assert refused(folder, registry, NotPlayable) == text
    assert len(registry.asked) == 1


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ({"params": {"stop": [1]}}, "the model's parameter 'stop' is not a list of texts"),
        ({"params": {"num_ctx": "4096"}}, "the model's parameter 'num_ctx' is not a number"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "the model has messages of a kind that is not supported"),
        (
            {"config": {"model_format": "safetensors"}},
            'the model is in the format "safetensors", which is not supported',
        ),
        ({"config": {"remote_host": "https://ollama.com"}}, "the model runs elsewhere, which is not supported"),
    ],
)
def test_layers_that_cannot_be_applied_are_refused(
    folder: ModelFolder, weights: bytes, texts: dict[str, Any], text: str
) -> None:
    with serving() as registry:
        registry.add(weights, **texts)
        assert refused(folder, registry, NotPlayable) == text


def test_weights_that_are_not_played_are_refused_and_not_kept(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        digest = registry.add(weights.replace(b"tokenizer.ggml.model", b"tokenizer.ggml.medal"))["layers"][0]["digest"]
        text = refused(folder, registry, NotPlayable)
        assert text.startswith("the model cannot be played: ")
        assert (left(folder), folder.has_blob(digest)) == ([], False)


def test_weights_that_are_not_played_are_refused_before_they_are_all_here(folder: ModelFolder, weights: bytes) -> None:
    mine = weights.replace(b"tokenizer.ggml.model", b"tokenizer.ggml.medal") + bytes(10_000_000)
    with serving(RegistryServer(stall=threading.Event(), hold=5_000_000)) as registry:
        digest = registry.add(mine)["layers"][0]["digest"]
        text = refused(folder, registry, NotPlayable)  # though the second half never comes
        assert text.startswith("the model cannot be played: ")
        assert (left(folder), folder.has_blob(digest)) == ([], False)


def test_a_header_that_an_earlier_pull_left_is_fetched_anew_before_the_model_is_refused(
    folder: ModelFolder, weights: bytes
) -> None:
    mine = weights + bytes(10_000_000)
    with serving(RegistryServer(cuts=[5_000_000, 0, 0, 0, 0])) as registry:
        digest = registry.add(mine)["layers"][0]["digest"]
        refused(folder, registry)
        with (folder.partial / left(folder)[0]).open("r+b") as file:
            file.write(b"damaged")
        registry.cuts.clear()
        pull(folder, registry)
    assert folder.blob_path(digest).read_bytes() == mine


@pytest.mark.parametrize("patience", [WHOLE, IN_PARTS], ids=["whole", "in parts"])
def test_what_a_stopped_pull_left_is_told_by_the_bytes_that_came(
    folder: ModelFolder, weights: bytes, patience: Patience
) -> None:
    with serving(RegistryServer(cuts=[30_000] + [0] * 99)) as registry:
        registry.add(weights)
        refused(folder, registry, patience=patience)
    path = folder.partial / left(folder)[0]
    assert path.stat().st_size > len(weights)
    text = f"{path}: 30000 bytes of a pull that did not end; it goes on when asked for again"
    assert folder.sweep() == [text]


def test_a_disk_that_fills_ends_the_pull_with_the_reason(
    folder: ModelFolder, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.pwrite, [40_000]

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if offset >= room[0]:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: room[0] - offset], offset)

    with serving() as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", pwrite)
            assert refused(folder, registry, FolderError) == f"no space left in {folder.path}"
        pull(folder, registry)
    assert folder.blob_path(digest).read_bytes() == weights


@pytest.mark.parametrize("size", [-1, 2**63, 10**30, 1e400, True, "5", None])
def test_a_size_that_no_file_can_have_is_refused(folder: ModelFolder, weights: bytes, size: object) -> None:
    with serving() as registry:
        manifest = registry.add(weights)
        manifest["layers"][0]["size"] = size
        registry.manifests[NAME] = json.dumps(manifest).encode()
        refused(folder, registry)
    assert left(folder) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("params", '{"stop": ["\\ud800"]}'),
        ("params", '{"\\ud800": 1}'),
        ("params", f'{{"temperature": 1{"0" * 400}}}'),
        ("params", '{"temperature": NaN}'),
        ("params", f"[{'[],' * 200_000}[]]"),
        ("messages", '[{"role": "user", "content": "\\ud800"}]'),
        ("messages", "[" * 200_000),
    ],
)
def test_a_layer_that_is_hostile_json_is_refused(folder: ModelFolder, weights: bytes, kind: str, text: str) -> None:
    with serving() as registry:
        registry.add(weights, NAME, **{kind: text})
        said = refused(folder, registry)
    assert "JSON" in said or "more than" in said


def test_texts_are_few_enough_for_memory(folder: ModelFolder, weights: bytes) -> None:
    text = {"mediaType": "application/vnd.ollama.image.license", "digest": digest_of(b""), "size": 16 << 20}
    with serving() as registry:
        manifest = registry.add(weights)
        manifest["layers"] += [text] * 4
        registry.manifests[NAME] = json.dumps(manifest).encode()
        assert "bytes together" in refused(folder, registry, NotPlayable)


@pytest.mark.parametrize("host", ["a:b:c", "xn--", "127.0.0.1:65536", "127.0.0.1:70000000000000"])
def test_a_host_that_can_be_none_is_refused(folder: ModelFolder, host: str) -> None:
    async def ask() -> None:
        async for _ in Puller(folder, patience=WHOLE).pull(ModelName.parse(f"{host}/a/b"), insecure=True):
            pass

    with pytest.raises(TransferError, match="is no registry's address"):
        asyncio.run(ask())
