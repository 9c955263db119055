"""`/api/create` and `/api/blobs` of a running server: Ollama's client unmodified, bad uploads, kills, and no folder."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from registry.folder import ModelFolder
from registry.names import ModelName
from testing.oracles.small_models import MODELS
from testing.server_process import ServerProcess, wait_until

Start = Callable[..., AbstractContextManager[ServerProcess]]

NOTHING = f"sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder(tmp_path_factory.mktemp("models") / "forks")


@pytest.fixture(scope="module")
def server(start_server: Start, folder: ModelFolder) -> Iterator[ServerProcess]:
    """A server of our own: with a folder that these tests write to."""
    with start_server("-c", "512", "--registry", str(folder.path)) as process:
        yield process


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> httpx.Client:
    return server.client


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model's file, whose weights no catalog has."""
    return MODELS[0].file().write(tmp_path_factory.mktemp("small") / "small.gguf")


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def under_way(folder: ModelFolder) -> list[str]:
    return [path.name for path in folder.partial.glob("*")]


def test_ollamas_client_creates_a_model_that_answers_as_its_layer_says(
    client: ollama.Client, folder: ModelFolder
) -> None:
    created = client.create(
        "mario", from_="smollm2", system="You are Mario.", parameters={"temperature": 0, "num_predict": 5}
    )
    assert created.status == "success"
    answer = client.chat("mario", messages=[{"role": "user", "content": "Hello"}])
    assert (answer.model, answer.eval_count) == ("mario", 5)
    plain = client.chat(
        "smollm2",
        messages=[{"role": "system", "content": "You are Mario."}, {"role": "user", "content": "Hello"}],
        options={"temperature": 0, "num_predict": 5},
    )
    assert answer.message.content == plain.message.content
    assert folder.find(ModelName.parse("mario")) is not None


def test_the_steps_are_ollamas_lines(http: httpx.Client) -> None:
    system = "You are Luigi."
    answer = http.post("/api/create", json={"model": "luigi", "modelfile": f"FROM smollm2\nSYSTEM {system}\n"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [list(line) for line in lines] == [["status"]] * 4
    assert [line["status"] for line in lines][1:] == [
        f"creating new layer {digest_of(system.encode())}",
        "writing manifest",
        "success",
    ]


def test_ollamas_client_uploads_a_file_and_creates_from_it(
    client: ollama.Client, http: httpx.Client, small: Path, folder: ModelFolder
) -> None:
    digest = digest_of(small.read_bytes())
    assert http.head(f"/api/blobs/{digest}").status_code == 404
    assert client.create_blob(small) == digest
    answer = http.head(f"/api/blobs/{digest}")
    assert (answer.status_code, answer.content) == (200, b"")
    steps = list(client.create("small", files={"small.gguf": digest}, stream=True))
    assert [step.status for step in steps] == [
        *("parsing GGUF", f"using existing layer {digest}", "writing manifest", "success"),
    ]
    assert folder.blob_path(digest).read_bytes() == small.read_bytes()
    answer = client.generate("small", prompt="hello", options={"num_predict": 3})
    assert answer.eval_count


def test_a_blob_is_made_once(http: httpx.Client, folder: ModelFolder) -> None:
    data = b"once" * 1_000_000  # more than is written at a time
    digest = digest_of(data)
    first = http.post(f"/api/blobs/{digest}", content=data)
    assert (first.status_code, first.content) == (201, b"")
    second = http.post(f"/api/blobs/{digest.replace(':', '-')}", content=data)
    assert (second.status_code, second.content) == (200, b"")
    assert folder.blob_path(digest).read_bytes() == data


def test_bytes_of_another_digest_are_not_kept(http: httpx.Client, folder: ModelFolder) -> None:
    answer = http.post(f"/api/blobs/{NOTHING}", content=b"other")
    assert answer.status_code == 400
    assert answer.json() == {"error": f'digest mismatch, expected "{NOTHING}", got "{digest_of(b"other")}"'}
    assert http.head(f"/api/blobs/{NOTHING}").status_code == 404
    assert under_way(folder) == []


@pytest.mark.parametrize("digest", ["sha256:0", "x", "sha512:" + "0" * 128, "..%2Fmario.MODEL.json"])
def test_what_is_no_digest_is_refused(http: httpx.Client, digest: str) -> None:
    answer = http.post(f"/api/blobs/{digest}", content=b"x")
    assert answer.status_code == (404 if "%2F" in digest else 400)
    if answer.status_code == 400:
        assert answer.json() == {"error": "invalid digest format"}
        assert http.head(f"/api/blobs/{digest}").status_code == 400


def test_an_upload_has_no_limit_but_the_disks(http: httpx.Client, folder: ModelFolder) -> None:
    data = bytes(20 << 20)  # more than any other body may have
    assert http.post(f"/api/blobs/{digest_of(data)}", content=data).status_code == 201
    with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as connection:
        head = f"POST /api/blobs/{NOTHING} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 60}\r\n\r\n"
        connection.sendall(head.encode())
        answer = ""
        while "bytes needed" not in answer and (piece := connection.recv(4096)):
            answer += piece.decode()
    assert answer.startswith("HTTP/1.1 500 ")
    assert f"no space left in {folder.path}: {1 << 60} bytes needed" in answer
    assert under_way(folder) == []


def test_a_client_that_leaves_an_upload_leaves_nothing(http: httpx.Client, folder: ModelFolder) -> None:
    with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as connection:
        head = f"POST /api/blobs/{NOTHING} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
        connection.sendall(head.encode() + bytes(2_000_000))
        wait_until(lambda: under_way(folder) != [])
    wait_until(lambda: under_way(folder) == [])
    assert http.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({}, 400, "invalid model name"),
        ({"model": "x"}, 400, "neither 'from' or 'files' was specified"),
        ({"model": "x", "from": "smollm2", "adapters": {"a": NOTHING}}, 400, None),
        ({"model": "x", "files": {"a.gguf": NOTHING}}, 400, f'blob "{NOTHING}" not found'),
        ({"model": "x", "from": "/etc/passwd"}, 400, "invalid model name"),
        ({"model": "smollm2-135m-instruct.q4_1", "from": "smollm2"}, 400, None),
        ({"model": "x", "from": "smollm2", "template": "{{ .Prompt }}"}, 400, None),
        ({"model": "x", "from": "smollm2", "quantize": "Q4_K_M"}, 400, None),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_what_cannot_be_made_is_refused_before_anything_is_said(
    http: httpx.Client, body: dict[str, Any], status: int, error: str | None, stream: bool
) -> None:
    answer = http.post("/api/create", json={**body, "stream": stream})
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("application/json")
    assert list(answer.json()) == ["error"]
    if error is not None:
        assert answer.json() == {"error": error}
    assert "x:latest" not in [model["name"] for model in http.get("/api/tags").json()["models"]]


def test_what_fails_after_the_first_line_is_the_last_one(http: httpx.Client) -> None:
    data = b"GGUF but not one that is played"
    digest = digest_of(data)
    assert http.post(f"/api/blobs/{digest}", content=data).status_code == 201
    asked: dict[str, Any] = {"model": "x", "files": {"a.gguf": digest}}
    answer = http.post("/api/create", json=asked)
    assert answer.status_code == 200
    first, last = map(json.loads, answer.text.splitlines())
    assert first == {"status": "parsing GGUF"}
    assert last["error"].startswith("these weights are not played: ")
    whole = http.post("/api/create", json={**asked, "stream": False})
    assert (whole.status_code, whole.json()) == (400, last)


def test_creates_of_one_name_at_once_leave_one_whole_model(http: httpx.Client, folder: ModelFolder) -> None:
    def create(system: str) -> None:
        assert http.post("/api/create", json={"model": "toad", "from": "smollm2", "system": system}).status_code == 200

    threads = [threading.Thread(target=create, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    models, unreadable = folder.derived()
    assert unreadable == []
    assert sum(model.name.model == "toad" for model in models) == 1


def test_without_a_folder_nothing_is_made(start_small: Start, tmp_path: Path) -> None:
    with start_small("-c", "512") as server:
        for answer in (
            server.client.post("/api/create", json={"model": "x", "from": "small"}),
            server.client.post(f"/api/blobs/{NOTHING}", content=b"x"),
        ):
            assert answer.status_code == 400
            assert "no folder of models is served" in answer.json()["error"]


def test_a_killed_upload_is_cleared_away_and_named_at_the_next_start(start_small: Start, tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "forks")
    flags = ("-c", "512", "--registry", str(folder.path))
    with start_small(*flags) as server:
        server.client.post("/api/create", json={"model": "mario", "from": "small", "system": "one"})
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            head = f"POST /api/blobs/{NOTHING} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
            connection.sendall(head.encode() + bytes(2_000_000))
            wait_until(lambda: under_way(folder) != [])
            server.kill()
    [left] = under_way(folder)
    with start_small(*flags) as server:
        assert f"removed {folder.partial}/{left}: it was never made whole" in server.log_tail()
        names = [model["name"] for model in server.get("/api/tags")["models"]]
    assert "mario:latest" in names
    assert under_way(folder) == []
