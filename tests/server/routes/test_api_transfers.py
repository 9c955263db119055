"""`/api/pull` and `/api/push` of a running server, against a registry on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import ollama
import pytest

from registry.folder import ModelFolder
from registry.names import ModelName
from registry.transfer.partial import arrived
from testing import user_key
from testing.pulls import is_locked
from testing.registry_server import RegistryServer, serving
from testing.server_process import BankmlServer, bankml_command, wait_until

TEMPLATE = "{{ .System }}{{ .Prompt }}"


def lines_of(server: BankmlServer, path: str, **body: Any) -> list[dict[str, Any]]:
    """The lines of a streamed answer."""
    answer = server.client.post(path, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_pulled_model_is_listed_and_answers_and_says_each_step_as_ollama_does(
    served: BankmlServer, weights: bytes
) -> None:
    with serving() as registry:
        manifest = registry.add(
            weights, template=TEMPLATE, system="Be brief.", params={"num_predict": 3, "seed": 7}, license="MIT"
        )
        name = registry.name()
        lines = lines_of(served, "/api/pull", model=name, insecure=True)
    digests = [layer["digest"] for layer in [*manifest["layers"], manifest["config"]]]
    steps = list(dict.fromkeys(line["status"] for line in lines))
    assert steps == [
        "pulling manifest",
        *(f"pulling {digest[7:19]}" for digest in digests),
        "verifying sha256 digest",
        "writing manifest",
        "success",
    ]
    assert lines[0] == {"status": "pulling manifest"}
    of_weights = [line for line in lines if line.get("digest") == digests[0]]
    assert list(of_weights[-1].items()) == [
        ("status", f"pulling {digests[0][7:19]}"),
        ("digest", digests[0]),
        ("total", len(weights)),
        ("completed", len(weights)),
    ]
    assert name in [model["name"] for model in served.get("/api/tags")["models"]]
    answer = served.post("/api/generate", {"model": name, "prompt": "hello", "stream": False})
    assert (answer["model"], answer["eval_count"]) == (name, 3)


def test_without_a_stream_the_last_line_is_the_answer(served: BankmlServer, weights: bytes) -> None:
    with serving() as registry:
        registry.add(weights)
        body = {"model": registry.name(), "insecure": True, "stream": False}
        assert served.post("/api/pull", body) == {"status": "success"}
        answer = served.client.post("/api/pull", json={**body, "model": registry.name("me/none:x")})
    assert answer.status_code == 500
    assert answer.json() == {"error": "pull model manifest: file does not exist"}


def test_in_a_stream_what_fails_is_the_last_line(served: BankmlServer) -> None:
    with serving() as registry:
        lines = lines_of(served, "/api/pull", model=registry.name(), insecure=True)
    assert lines == [{"status": "pulling manifest"}, {"error": "pull model manifest: file does not exist"}]


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/api/pull", "", "missing request body"),
        ("/api/push", "", "missing request body"),
        ("/api/pull", "{}", "invalid model name"),
        ("/api/push", "{}", "model is required"),
        ("/api/pull", '{"model": "a/b/c/d/e"}', "invalid model name"),
        ("/api/pull", '{"model": "x:cloud"}', "models that run in Ollama's cloud are not supported"),
        ("/api/pull", '{"model": "x:20b-cloud"}', "models that run in Ollama's cloud are not supported"),
        (
            "/api/pull",
            '{"model": 1}',
            "json: cannot unmarshal number into Go struct field PullRequest.model of type string",
        ),
    ],
)
def test_a_request_that_cannot_be_meant_is_a_400(served: BankmlServer, path: str, body: str, text: str) -> None:
    answer = served.client.post(path, content=body)
    assert (answer.status_code, answer.json()) == (400, {"error": text})


def test_a_server_of_one_file_pulls_nothing(server: BankmlServer) -> None:
    answer = server.client.post("/api/pull", json={"model": "x"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("no folder of models is served")


def test_parameters_that_are_not_applied_are_refused_with_their_name(served: BankmlServer, weights: bytes) -> None:
    with serving() as registry:
        registry.add(weights, params={"tfs_z": 0.5})
        lines = lines_of(served, "/api/pull", model=registry.name(), insecure=True)
    assert lines[-1] == {"error": 'the model\'s parameters cannot be applied: option "tfs_z" is not supported'}


def test_ollamas_client_pulls_and_pushes(served: BankmlServer, folder: ModelFolder, weights: bytes) -> None:
    client = ollama.Client(host=served.url, trust_env=False)
    texts = {
        "template": TEMPLATE,
        "system": "Be brief.",
        "license": "MIT",
        "params": {"stop": ["<", "é"], "top_p": 0.5},
    }
    with serving() as registry, serving() as other:
        pulled = registry.add(weights, "me/tiny:1", **texts)
        name, target = registry.name("me/tiny:1"), other.name("you/copy:2")
        assert client.pull(name, insecure=True).status == "success"
        model = folder.find(ModelName.parse(name))
        assert model is not None
        folder.write(replace(model, name=ModelName.parse(target)))
        steps = [line.status for line in client.push(target, insecure=True, stream=True)]
        again = [line.status for line in client.push(target, insecure=True, stream=True)]
        pushed = json.loads(other.manifests["you/copy:2"])
        # and what was pushed is what was pulled
        assert client.pull(target, insecure=True).status == "success"
    client._client.close()
    kinds = ["model", "template", "system", "license", "params"]
    assert [layer["mediaType"].rpartition(".")[2] for layer in pushed["layers"]] == kinds
    by_kind = {layer["mediaType"]: layer["digest"] for layer in pulled["layers"]}
    for layer in pushed["layers"]:
        if not layer["mediaType"].endswith("params"):
            assert layer["digest"] == by_kind[layer["mediaType"]]
    assert other.blobs[pushed["layers"][-1]["digest"]] == '{"stop":["\\u003c","é"],"top_p":0.5}\n'.encode()
    assert json.loads(other.blobs[pushed["config"]["digest"]])["model_family"] == "llama"
    digests = [layer["digest"] for layer in [*pushed["layers"], pushed["config"]]]
    expected = ["retrieving manifest", *(f"pushing {digest[7:19]}" for digest in digests)]
    assert list(dict.fromkeys(steps)) == [*expected, "pushing manifest", "success"]
    assert again == steps or set(again) == set(steps)
    uploads = [each for each in other.asked if each.method == "POST"]
    assert len(uploads) == len(digests)  # the second push sent nothing


def test_a_push_of_a_model_that_is_not_here_says_so(served: BankmlServer) -> None:
    lines = lines_of(served, "/api/push", model="me/none")
    assert lines == [
        {"status": "retrieving manifest"},
        {"status": "couldn't retrieve manifest"},
        {"error": "model 'me/none:latest' not found"},
    ]


def test_a_push_that_needs_a_signed_in_user_says_so_and_goes_once_the_users_key_is_there(
    start_small: Callable[..., BankmlServer], tmp_path: Path, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        serving(RegistryServer(user=user_key.PUBLIC)) as registry,
        start_small("--registry", str(tmp_path / "forks")) as process,
    ):
        registry.add(weights)
        process.post("/api/pull", {"model": registry.name(), "insecure": True, "stream": False})
        registry.token = "secret"
        registry.manifests.clear()
        lines = lines_of(process, "/api/push", model=registry.name(), insecure=True)
        assert lines[-1]["error"].startswith(f"open {tmp_path}/.ollama/id_ed25519: no such file or directory: ")
        user_key.put_key(tmp_path)
        lines += lines_of(process, "/api/push", model=registry.name(), insecure=True)
        assert lines[-1] == {"status": "success"}
        assert list(registry.manifests) == ["me/tiny:latest"]
        told = process.log_tail(1 << 20) + json.dumps(lines)
    assert not any(line in told for line in user_key.PRIVATE)


def test_a_client_that_leaves_stops_the_pull_which_goes_on_with_the_next(
    served: BankmlServer, folder: ModelFolder, weights: bytes
) -> None:
    mine = weights + b"\0" * 64
    with serving(RegistryServer(stall=threading.Event())) as registry:
        digest = registry.add(mine)["layers"][0]["digest"]
        body = {"model": registry.name(), "insecure": True}
        with served.client.stream("POST", "/api/pull", json=body) as answer:
            for line in answer.iter_lines():
                if json.loads(line).get("completed"):
                    break
        wait_until(lambda: not is_locked(folder.partial_path(digest.replace(":", "-"))))  # the pull has ended
        assert registry.stall is not None
        registry.stall.set()
        registry.stall = None
        assert lines_of(served, "/api/pull", **body)[-1] == {"status": "success"}
    first, second = registry.blob_ranges(digest)
    assert first.startswith("bytes=0-")
    assert not second.startswith("bytes=0-")
    assert folder.blob_path(digest).read_bytes() == mine


def test_a_server_that_is_told_to_stop_ends_a_pull_with_the_reason_and_the_next_one_goes_on(
    start_small: Callable[..., BankmlServer], tmp_path: Path, weights: bytes
) -> None:
    folder = ModelFolder(tmp_path / "forks")
    with serving(RegistryServer(stall=threading.Event(), hold=30_000)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        body = {"model": registry.name(), "insecure": True}
        with start_small("--registry", str(folder.path), "--shutdown-timeout", "0.5") as process:
            waiting = ThreadPoolExecutor(1)
            whole = waiting.submit(process.client.post, "/api/pull", json={**body, "stream": False})
            with process.client.stream("POST", "/api/pull", json=body) as answer:
                lines: list[dict[str, Any]] = []
                told = False
                for text in answer.iter_lines():  # to the end: a connection that is cut raises
                    lines.append(json.loads(text))
                    if lines[-1].get("completed") == registry.hold and not told:
                        os.kill(process.pid, signal.SIGTERM)
                        told = True
            stopped = whole.result()
            waiting.shutdown()
            assert process._process is not None
            assert process._process.wait(60) == 0
            assert "Traceback" not in process.log_tail()
        assert lines[-1] == {"error": "the server is shutting down"}
        assert (stopped.status_code, stopped.json()) == (503, lines[-1])
        assert folder.derived() == ([], [])
        (left,) = folder.partial.iterdir()
        assert arrived(left) == registry.hold
        assert registry.stall is not None
        registry.stall.set()
        registry.stall = None
        with start_small("--registry", str(folder.path)) as process:
            assert f"{left}: {registry.hold} bytes of a pull that did not end" in process.log_tail()
            assert lines_of(process, "/api/pull", **body)[-1] == {"status": "success"}
    assert [each.partition("-")[0] for each in registry.blob_ranges(digest)] == ["bytes=0", f"bytes={registry.hold}"]
    assert folder.blob_path(digest).read_bytes() == weights


def test_a_server_that_is_offline_pulls_and_pushes_nothing_and_says_why(
    start_small: Callable[..., BankmlServer], tmp_path: Path, weights: bytes
) -> None:
    with serving() as registry, start_small("--registry", str(tmp_path), "--offline") as process:
        registry.add(weights)
        for stream in (True, False):
            body = {"model": registry.name(), "insecure": True, "stream": stream}
            asked = {
                "/api/pull": body,
                "/api/push": body,
                "/api/create": {"model": "mario", "from": registry.name(), "stream": stream},
            }
            for path, each in asked.items():
                answer = process.client.post(path, json=each)
                text = f"the server was started with --offline, which forbids {path} to use the network"
                assert (answer.status_code, answer.json()) == (403, {"error": text})
        command = [*bankml_command(), "pull", "--insecure", registry.name()]
        done = subprocess.run(command, env={**os.environ, "OLLAMA_HOST": process.url}, capture_output=True, text=True)
        assert (done.returncode, registry.asked) == (1, [])
        assert "the server was started with --offline" in done.stderr


@pytest.mark.parametrize("sent", [0.0, 0.3, 0.999])
def test_a_server_that_is_killed_in_a_pull_leaves_no_half_model_and_the_next_one_goes_on(
    start_small: Callable[..., BankmlServer], tmp_path: Path, weights: bytes, sent: float
) -> None:
    folder = ModelFolder(tmp_path / "forks")
    mine = weights + b"\0" * 10_000_000
    with serving(RegistryServer(hold=int(len(mine) * sent), stall=threading.Event())) as registry:
        digest = registry.add(mine)["layers"][0]["digest"]
        body = {"model": registry.name(), "insecure": True}
        with start_small("--registry", str(folder.path)) as process:
            connection = socket.create_connection(("127.0.0.1", process.port))
            payload = json.dumps(body).encode()
            connection.sendall(b"POST /api/pull HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            connection.sendall(f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n".encode())
            connection.sendall(payload)
            while registry.held == 0:
                time.sleep(0.005)
            connection.settimeout(20.0)
            said = b""
            while sent and f'"completed":{registry.hold}'.encode() not in said:
                said += (received := connection.recv(1 << 20))
                assert received, said
            process.kill()
            connection.close()
        assert folder.derived() == ([], [])
        assert not folder.has_blob(digest)
        registry.stall.set()
        registry.stall = None
        with start_small("--registry", str(folder.path)) as process:
            assert ("of a pull that did not end" in process.log_tail()) == (folder.partial.exists())
            assert process.client.post("/api/generate", json={"model": registry.name()}).status_code == 404
            assert lines_of(process, "/api/pull", **body)[-1] == {"status": "success"}
            process.post("/api/generate", {"model": registry.name()})
    assert folder.blob_path(digest).read_bytes() == mine
    resumed = int(registry.blob_ranges(digest)[-1].removeprefix("bytes=").partition("-")[0])
    assert resumed == registry.hold
    assert list(folder.partial.iterdir()) == []
