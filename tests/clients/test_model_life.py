"""The life of a model as users of Ollama's own clients lead it, unmodified: Python's and Node's, one server for both.

It is made of a base and of an uploaded file, shown, copied, pushed, deleted, pulled, asked and deleted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ollama
import pytest

from testing.oracles.small_models import BY_NAME
from testing.registry_server import serving
from testing.server_process import BankmlServer

BASE, UPLOADED = "llama-mixed", "qwen3-q8_0"


class Place:
    """A server of a folder, a registry beside it, and a GGUF file that neither has."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        base = BY_NAME[BASE].file().write(folder / f"{BASE}.gguf")
        self.file = BY_NAME[UPLOADED].file().write(folder / f"{UPLOADED}.gguf")
        flags = ("--registry", str(folder / "forks"), "-c", "512")
        self.server = stack.enter_context(BankmlServer(base, *flags, threads=1))
        self.registry = stack.enter_context(serving()).host


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path_factory.mktemp("models"), stack)


def steps(progress: Iterable[ollama.ProgressResponse]) -> list[str | None]:
    return list(dict.fromkeys(part.status for part in progress))


def lived_in_python(place: Place) -> dict[str, Any]:
    """What each step came to with the client for Python."""
    with ollama.Client(host=place.server.url) as client:

        def names() -> list[str | None]:
            return sorted(model.model or "" for model in client.list().models)

        before = names()
        created = client.create(
            "mario",
            from_=BASE,
            system="Be Mario.",
            license="MIT",
            parameters={"temperature": 0, "num_predict": 3, "stop": ["<a>", "<b>"]},
            messages=[{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Mario."}],
        )
        raw = client._request_raw("POST", "/api/show", json={"model": "mario"}).json()  # the client drops messages
        shown = client.show("mario")
        digest = client.create_blob(place.file)
        uploaded = client._request_raw("HEAD", f"/api/blobs/{digest}").status_code
        made = steps(client.create("small", files={"small.gguf": digest}, stream=True))
        remote = f"{place.registry}/me/mario:v1"
        copied = client.copy("mario", remote)
        added = [name for name in names() if name not in before]
        pushed = steps(client.push(remote, insecure=True, stream=True))
        client.delete(remote)
        pulled = steps(client.pull(remote, insecure=True, stream=True))
        again = client.show(remote)
        answer = client.chat(remote, messages=[{"role": "user", "content": "Hello"}])
        running = [model.model for model in client.ps().models]
        for model in ("mario", "small", remote):
            client.delete(model)
        with pytest.raises(ollama.ResponseError) as gone:
            client.delete("mario")
        return {
            "created": created.status,
            "system": raw["system"],
            "license": shown.license,
            "parameters": [" ".join(line.split()) for line in (shown.parameters or "").splitlines()],
            "messages": [[message["role"], message["content"]] for message in raw["messages"]],
            "parent": shown.details.parent_model if shown.details else None,
            "uploaded": uploaded,
            "made": made[-1],
            "copied": copied.status,
            "added": added,
            "pushed": pushed[-1],
            "pulled": [pulled[0], pulled[-1]],
            "same": (again.parameters, again.license) == (shown.parameters, shown.license),
            "count": answer.eval_count,
            "model": answer.model,
            "running": running,
            "gone": [gone.value.status_code, gone.value.error],
            "left": [name for name in names() if name not in before],
        }


def expected(place: Place) -> dict[str, Any]:
    remote = f"{place.registry}/me/mario:v1"
    return {
        "created": "success",
        "system": "Be Mario.",
        "license": "MIT",
        "parameters": ["num_predict 3", 'stop "<a>"', 'stop "<b>"', "temperature 0"],
        "messages": [["user", "Who?"], ["assistant", "Mario."]],
        "parent": f"{BASE}:latest",
        "uploaded": 200,
        "made": "success",
        "copied": "success",
        "added": sorted(["mario:latest", "small:latest", remote]),
        "pushed": "success",
        "pulled": ["pulling manifest", "success"],
        "same": True,
        "count": 3,
        "model": remote,
        "running": [remote],
        "gone": [404, "model 'mario' not found"],
        "left": [],
    }


def test_a_model_lives_with_the_client_for_python(place: Place) -> None:
    assert lived_in_python(place) == expected(place)


def test_a_model_lives_with_the_client_for_node(place: Place, run_node: Callable[..., dict[str, Any]]) -> None:
    found = run_node("model_life.mjs", place.server, place.registry, BASE, str(place.file))
    assert found == expected(place)
