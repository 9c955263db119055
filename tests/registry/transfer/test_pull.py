"""registry/transfer/pull.py: what a pull brings, how, and once, however many ask and wherever it was stopped."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from registry.derived import Layer, Message
from registry.folder import ModelFolder
from registry.names import ModelName
from registry.transfer.fetch import Patience
from registry.transfer.pull import Puller
from registry.transfer.ticks import Progress
from testing.pulls import IN_PARTS, WHOLE, left, pull, pulled, statuses
from testing.registry_server import RegistryServer, digest_of, serving


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


def test_a_name_is_asked_for_in_the_letter_case_that_is_here(folder: ModelFolder, weights: bytes) -> None:
    with serving() as registry:
        registry.add(weights)
        pull(folder, registry)
        pull(folder, registry, model="ME/Tiny:Latest")  # the registry knows me/tiny alone
        assert [model.name.full for model in folder.derived()[0]] == [registry.name()]


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


@pytest.mark.parametrize("patience", [WHOLE, IN_PARTS], ids=["whole", "in parts"])
def test_a_registry_without_ranges_sends_the_file_whole(
    folder: ModelFolder, weights: bytes, patience: Patience
) -> None:
    with serving(RegistryServer(ranges=False, cuts=[5_000])) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry, patience)
    assert folder.blob_path(digest).read_bytes() == weights


def test_a_slow_peer_is_waited_for_as_long_as_it_sends(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(drip=0.002)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        pull(folder, registry, Patience(stall=1.0, attempts=1))
    assert len(registry.blob_ranges(digest)) == 1


@pytest.mark.usefixtures("home")
def test_blobs_may_lie_at_another_host_which_gets_no_token(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(elsewhere=True, token="secret")) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        registry.token = ""  # the other host wants none
        pull(folder, registry, IN_PARTS)
    asked = [each for each in registry.asked if each.path.endswith(digest)]
    assert {each.host.partition(":")[0] for each in asked} == {"127.0.0.1", "localhost"}
    at_registry = [each for each in asked if each.host.startswith("127.0.0.1")]
    assert len(at_registry) < len(asked) / 2  # the others were asked for directly


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


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from registry.folder import ModelFolder
from registry.names import ModelName
from registry.transfer.pull import Puller

async def pull(folder, name, step):
    async for line in Puller(ModelFolder(folder)).pull(ModelName.parse(name), insecure=True):
        if line.status.startswith(step):
            os.kill(os.getpid(), signal.SIGKILL)

name, folder, *steps = sys.argv[1:]
for number, step in enumerate(steps):
    child = os.fork()
    if child == 0:
        asyncio.run(pull(Path(folder) / str(number), name, step))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_pull_that_is_killed_at_any_step_is_no_half_model_and_goes_on(tmp_path: Path, weights: bytes) -> None:
    steps = ("pulling manifest", "pulling ", "verifying sha256 digest", "writing manifest")
    with serving() as registry:
        digest = registry.add(weights, system="x")["layers"][0]["digest"]
        command = [sys.executable, "-c", KILLED, registry.name(), str(tmp_path), *steps]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        assert done.stdout.split() == [str(-signal.SIGKILL)] * len(steps)
        for number in range(len(steps)):
            folder = ModelFolder(tmp_path / str(number))
            assert folder.derived() == ([], [])
            folder.sweep()
            assert pull(folder, registry)[-1].status == "success"
            assert folder.blob_path(digest).read_bytes() == weights
            assert left(folder) == []
