"""registry/transfer/pull.py: a model comes whole or not at all, whatever the registry and the network do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from registry.derived import Layer, Message
from registry.errors import RegistryError
from registry.folder import FolderError, ModelFolder
from registry.names import ModelName
from registry.transfer.blobs import WrongDigest
from registry.transfer.errors import NotPlayable, TransferError
from registry.transfer.fetch import Patience
from registry.transfer.pull import Puller
from registry.transfer.ticks import Progress
from testing.oracles.small_models import MODELS
from testing.registry_server import RegistryServer, digest_of, serving

WHOLE = Patience(stall=5.0, attempts=4, backoff=0.001)
IN_PARTS = Patience(stall=5.0, attempts=4, backoff=0.001, smallest_part=50_000)
NAME = "me/tiny:latest"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model that is played."""
    return MODELS[0].file().write(tmp_path_factory.mktemp("weights") / "model.gguf").read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path / "forks")


async def pulled(puller: Puller, registry: RegistryServer, model: str = NAME) -> list[Progress]:
    """Every line of a pull."""
    return [line async for line in puller.pull(ModelName.parse(registry.name(model)), insecure=True)]


def pull(
    folder: ModelFolder, registry: RegistryServer, patience: Patience = WHOLE, model: str = NAME
) -> list[Progress]:
    return asyncio.run(pulled(Puller(folder, patience=patience), registry, model))


def refused(
    folder: ModelFolder,
    registry: RegistryServer,
    error: type[RegistryError] = TransferError,
    patience: Patience = WHOLE,
) -> str:
    """What a pull is refused with; nothing of it is a model, and what is left is in `partial/`."""
    with pytest.raises(error) as caught:
        pull(folder, registry, patience)
    assert folder.derived() == ([], [])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def left(folder: ModelFolder) -> list[str]:
    """What lies in `partial/`."""
    return sorted(path.name for path in folder.partial.iterdir()) if folder.partial.exists() else []


def statuses(lines: list[Progress]) -> list[str]:
    """The lines' statuses, each once."""
    return list(dict.fromkeys(line.status for line in lines))


def short(digest: str) -> str:
    return f"pulling {digest[7:19]}"


def test_the_weights_are_a_blob_and_the_other_layers_are_in_the_models_manifest(
    folder: ModelFolder, weights: bytes
) -> None:
    with serving() as registry:
        manifest = registry.add(
            weights,
            template="{{ .Prompt }}",
            system="Be brief.",
            params={"temperature": 0.5, "num_ctx": 256, "stop": ["<|im_end|>"]},
            messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
            license="MIT",
            config={"model_format": "gguf", "requires": "0.14.0"},
        )
        lines = pull(folder, registry)
        name = ModelName.parse(registry.name())
    model = folder.find(name)
    assert model is not None
    digests = [layer["digest"] for layer in [*manifest["layers"], manifest["config"]]]
    assert model.layer == Layer(
        base_sha256=digests[0][7:],
        system="Be brief.",
        parameters={"temperature": 0.5, "num_ctx": 256},
        stop=("<|im_end|>",),
        template_sha256=digest_of(b"{{ .Prompt }}")[7:],
        license=("MIT",),
        messages=(Message("user", "hi"), Message("assistant", "hello")),
        requires="0.14.0",
    )
    assert folder.blob_path(digests[0]).read_bytes() == weights
    assert sorted(path.name for path in folder.blobs.iterdir()) == sorted(
        f"sha256-{digest[7:]}" for digest in (digests[0], digest_of(b"{{ .Prompt }}"))
    )
    assert left(folder) == []
    steps = ["pulling manifest", *map(short, digests), "verifying sha256 digest", "writing manifest", "success"]
    assert statuses(lines) == steps
    assert [line for line in lines if line.digest == digests[0]][-1] == Progress(
        short(digests[0]), digests[0], len(weights), len(weights)
    )


def test_a_model_that_is_here_is_not_fetched_again(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        first = pull(folder, registry)
        again = pull(folder, registry)
    assert statuses(again) == statuses(first)
    assert len(registry.blob_ranges(digest)) == 1


def test_a_blob_that_was_damaged_since_is_fetched_again(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry)
        folder.blob_path(digest).write_bytes(b"\0" * len(weights))
        pull(folder, registry)
    assert folder.blob_path(digest).read_bytes() == weights


def test_a_new_version_takes_the_place_of_the_old_one_whose_weights_go(folder: ModelFolder, weights: bytes) -> None:
    newer = weights + b"\0" * 32
    with serving() as registry:
        old = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry)
        new = registry.add(newer)["layers"][0]["digest"]
        lines = pull(folder, registry)
    assert statuses(lines)[-2:] == ["removing unused layers", "success"]
    assert (folder.has_blob(old), folder.has_blob(new)) == (False, True)


def test_weights_come_in_parallel_ranges(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry, IN_PARTS)
    ends = [tuple(map(int, each.removeprefix("bytes=").split("-"))) for each in registry.blob_ranges(digest)]
    assert len(ends) == -(-len(weights) // 50_000)
    assert sorted(ends) == [(at, min(at + 50_000, len(weights)) - 1) for at in range(0, len(weights), 50_000)]
    assert folder.blob_path(digest).read_bytes() == weights


def test_a_cut_connection_goes_on_where_it_stopped(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(cuts=[5_000, 7_000])) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry)
    last = len(weights) - 1
    assert registry.blob_ranges(digest) == [f"bytes={start}-{last}" for start in (0, 5_000, 12_000)]


@pytest.mark.parametrize("patience", [WHOLE, IN_PARTS], ids=["whole", "in parts"])
def test_a_registry_without_ranges_sends_the_file_whole(
    folder: ModelFolder, weights: bytes, patience: Patience
) -> None:
    with serving(RegistryServer(ranges=False, cuts=[5_000])) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry, patience)
    assert folder.blob_path(digest).read_bytes() == weights


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


def test_a_slow_peer_is_waited_for_as_long_as_it_sends(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(drip=0.002)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry, Patience(stall=1.0, attempts=1))
    assert len(registry.blob_ranges(digest)) == 1


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


def test_a_full_disk_is_said_before_the_download(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        manifest = registry.add(weights)
        manifest["layers"][0]["size"] = 1 << 62
        registry.manifests[NAME] = json.dumps(manifest).encode()
        assert refused(folder, registry, FolderError) == f"no space left in {folder.path}"
    assert registry.blob_ranges(manifest["layers"][0]["digest"]) == []


def test_blobs_may_lie_at_another_host_which_gets_no_token(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(elsewhere=True, token="secret")) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        registry.token = ""  # the other host wants none
        pull(folder, registry, IN_PARTS)
    asked = [each for each in registry.asked if each.path.endswith(digest)]
    assert {each.host.partition(":")[0] for each in asked} == {"127.0.0.1", "localhost"}
    at_registry = [each for each in asked if each.host.startswith("127.0.0.1")]
    assert len(at_registry) < len(asked) / 2  # the others were asked for directly


def test_a_token_that_is_given_to_everyone_is_asked_for_and_sent(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(token="secret")) as registry:
        registry.add(weights)
        assert pull(folder, registry)[-1].status == "success"
    assert [each.path.partition("?")[0] for each in registry.asked].count("/token") == 1


def test_a_token_that_is_not_given_is_a_refusal_that_says_why(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(token="secret", grants=False)) as registry:
        registry.add(weights)
        text = refused(folder, registry)
    assert text == (
        f"pull model manifest: unauthorized: {registry.host} wants a signed-in user's key, and bankml has none "
        "(401 Unauthorized)"
    )


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


def test_a_pull_that_is_stopped_keeps_what_came_for_the_next(folder: ModelFolder, weights: bytes) -> None:
    async def stopped(registry: RegistryServer) -> None:
        async with aclosing(
            Puller(folder, patience=WHOLE).pull(ModelName.parse(registry.name()), insecure=True)
        ) as lines:
            async for line in lines:
                if line.completed > 0:
                    return

    with serving(RegistryServer(stall=threading.Event())) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        asyncio.run(stopped(registry))
        assert folder.derived() == ([], [])
        assert left(folder) == [f"sha256-{digest[7:]}"]
        registry.stall = None
        pull(folder, registry)
    assert not registry.blob_ranges(digest)[-1].startswith("bytes=0-")


def test_two_pulls_at_once_fetch_once(folder: ModelFolder, weights: bytes) -> None:
    async def both(registry: RegistryServer) -> None:
        puller = Puller(folder, patience=WHOLE)
        await asyncio.gather(pulled(puller, registry), pulled(puller, registry, "me/other:latest"))

    with serving() as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        registry.add(weights, "me/other:latest", system="x")
        asyncio.run(both(registry))
    assert len(registry.blob_ranges(digest)) == 1
    assert [model.name.model for model in folder.derived()[0]] == ["other", "tiny"]


def test_pulls_of_two_processes_fetch_once(folder: ModelFolder, weights: bytes) -> None:
    async def both(registry: RegistryServer) -> None:
        # two pullers know as little of each other as two processes do: a file's lock is all they share
        one, other = Puller(folder, patience=WHOLE), Puller(folder, patience=WHOLE)
        await asyncio.gather(pulled(one, registry), pulled(other, registry))

    with serving(RegistryServer(drip=0.001)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        asyncio.run(both(registry))
    assert len(registry.blob_ranges(digest)) == 1


def test_a_pull_says_how_far_another_process_is_with_the_same_blob(folder: ModelFolder, weights: bytes) -> None:
    async def until(lines: AsyncGenerator[Progress, None], completed: int) -> None:
        async for line in lines:
            if line.completed == completed:
                return

    async def both(registry: RegistryServer) -> None:
        name = ModelName.parse(registry.name())
        one, other = (Puller(folder, patience=WHOLE).pull(name, insecure=True) for _ in range(2))
        async with aclosing(one), aclosing(other):
            await until(one, 30_000)
            await until(other, 30_000)

    with serving(RegistryServer(stall=threading.Event(), hold=30_000)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        asyncio.run(asyncio.wait_for(both(registry), 60.0))
        assert len(registry.blob_ranges(digest)) == 1


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


@pytest.mark.parametrize("step", ["pulling manifest", "pulling ", "verifying sha256 digest", "writing manifest"])
def test_a_pull_that_is_killed_at_a_step_is_no_half_model_and_goes_on(
    folder: ModelFolder, weights: bytes, step: str
) -> None:
    script = textwrap.dedent(
        """
        import asyncio, os, signal, sys
        from pathlib import Path
        from registry.folder import ModelFolder
        from registry.names import ModelName
        from registry.transfer.pull import Puller
        async def main(folder, name, step):
            async for line in Puller(ModelFolder(Path(folder))).pull(ModelName.parse(name), insecure=True):
                if line.status.startswith(step):
                    os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main(*sys.argv[1:]))
        """
    )
    with serving() as registry:
        digest = registry.add(weights, system="x")["layers"][0]["digest"]
        command = [sys.executable, "-c", script, str(folder.path), registry.name(), step]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
        assert done.returncode == -signal.SIGKILL
        assert folder.derived() == ([], [])
        folder.sweep()
        assert pull(folder, registry)[-1].status == "success"
    assert folder.blob_path(digest).read_bytes() == weights
    assert left(folder) == []


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
