"""Bodies and clients that mean no good, against every endpoint that takes a body: the right status, and the next client
is served."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from server.app import ROUTES
from server.guards import UPLOADS
from testing.server_process import BankmlServer

PATHS = sorted({route.path for route in ROUTES if isinstance(route, Route) and "POST" in (route.methods or ())})

NOT_JSON = {
    "nothing": b"",
    "blanks": b" \n ",
    "an open brace": b"{",
    "a key alone": b'{"prompt"',
    "a comma too many": b'{"prompt": "a",}',
    "single quotes": b"{'prompt': 'a'}",
    "NaN": b'{"prompt": "a", "temperature": NaN}',
    "infinity": b'{"prompt": "a", "temperature": -Infinity}',
    "two bodies": b'{"prompt": "a"}{"prompt": "b"}',
    "text behind": b'{"prompt": "a"} x',
    "a raw line feed in a text": b'{"prompt": "a\nb"}',
    "a zero byte": b'{"prompt": "a"}\x00',
    "deep arrays": b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "too many arrays": b'{"prompt": [' + b"[]," * 150_000 + b"[]]}",
    "a byte order mark of UTF-16": '{"prompt": "a"}'.encode("utf-16"),
}
NOT_AN_OBJECT = {"null": b"null", "a number": b"1", "a text": b'"prompt"', "an array": b'[{"prompt": "a"}]'}
NOT_UTF8 = {
    "bytes that are no UTF-8": b'{"prompt": "\xff\xfe", "messages": []}',
    "a surrogate in UTF-8": b'{"prompt": "\xed\xa0\x80", "messages": []}',
    "half a surrogate pair": rb'{"prompt": "\ud800", "messages": []}',
}
_NAMES = ("prompt", "messages", "content", "input", "tokens", "model")
STRANGE = {
    "a number without end": b'{"prompt": "a", "n_predict": ' + b"9" * 5000 + b"}",
    "a number past a double": b'{"prompt": "a", "temperature": 1e999}',
    "a key twice": b'{"prompt": "a", "prompt": {"a": 1}}',
    "objects": json.dumps({"max_tokens": 2, **{name: {} for name in _NAMES}}).encode(),
    "numbers": json.dumps({"max_tokens": 2, **dict.fromkeys(_NAMES, 1.5)}).encode(),
    "nulls": json.dumps({"max_tokens": 2, **dict.fromkeys(_NAMES)}).encode(),
}
"""Bodies that some endpoints take, and others refuse: no 500, whatever else."""


@pytest.fixture(scope="module")
def server(
    start_server: Callable[..., BankmlServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BankmlServer]:
    """A server whose answers are short, with the doors open that flags open."""
    folder = tmp_path_factory.mktemp("slots")
    with start_server("-c", "512", "-n", "2", "--slot-save-path", str(folder)) as process:
        yield process


def url_of(path: str) -> str:
    """A path's URL with something in the place of its parameters."""
    return path.replace("{id_slot}", "0?action=save").replace("{digest}", "sha256:0")


def ask(server: BankmlServer, path: str, body: bytes, kind: str = "application/json") -> httpx.Response:
    return server.client.post(url_of(path), content=body, headers={"content-type": kind}, timeout=120)


def refusal_of(server: BankmlServer, path: str) -> int:
    """The status for a body that cannot be: a 400, but where an endpoint is not there without a flag or an account, and
    says so whatever is asked."""
    status = ask(server, path, b"{}").status_code
    return status if status in (401, 403, 501) else 400


def error_of(answer: httpx.Response) -> Any:
    """The error's text, where its API has it."""
    error = answer.json()["error"]
    if isinstance(error, str):
        return error
    assert error.get("code", answer.status_code) == answer.status_code
    return error["message"]


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_json_object_is_a_400(server: BankmlServer, path: str) -> None:
    status = refusal_of(server, path)
    for name, body in {**NOT_JSON, **NOT_AN_OBJECT}.items():
        if path.startswith("/api/") and name in ("null", "a raw line feed in a text"):
            continue  # Go reads a null as an empty request
        if path == "/lora-adapters" and name == "an array":
            continue  # the one path that wants one
        unread = path.startswith("/api/experimental/") and not body.strip()  # elsewhere a flag or an account goes first
        answer = ask(server, path, body)
        assert (answer.status_code, bool(error_of(answer))) == (400 if unread else status, True), name


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_utf_8_is_a_400(server: BankmlServer, path: str) -> None:
    # Ollama's paths read it and miss the model; two of them say that there is none without a name.
    status = 404 if path in ("/api/generate", "/api/embed") else refusal_of(server, path)
    for name, body in NOT_UTF8.items():
        assert ask(server, path, body).status_code == status, name


@pytest.mark.parametrize("path", PATHS)
def test_strange_values_are_taken_or_refused(server: BankmlServer, path: str) -> None:
    for name, body in STRANGE.items():
        assert ask(server, path, body).status_code in (200, 400, 404, refusal_of(server, path)), name


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith(UPLOADS)])  # files are of any size
def test_a_body_of_another_kind_or_too_long_is_not_read(server: BankmlServer, path: str) -> None:
    if not path.startswith("/api/"):
        assert ask(server, path, b"{}", "text/plain").status_code == 415
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        head = f"POST {url_of(path)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {17 << 20}\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_leaves_in_its_body_is_forgotten(server: BankmlServer, path: str) -> None:
    head = f"POST {url_of(path)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for framing in ("Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall((head + framing).encode())
    assert server.client.get("/health").status_code == 200
    assert server.post("/completion", {"prompt": "a"})["tokens_predicted"] == 2


def anonymous_bytes(server: BankmlServer) -> int:
    """The server's memory that is not a file's."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def test_a_client_that_stops_reading_holds_neither_memory_nor_the_engine(
    start_server: Callable[..., BankmlServer],
) -> None:
    body = json.dumps({"prompt": "a", "ignore_eos": True, "n_probs": 500, "stream": True, "n_predict": -1}).encode()
    head = (
        b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with start_server("-c", "512", "--timeout", "1") as server:
        server.post("/completion", {"prompt": "a", "n_predict": 8, "n_probs": 500})
        before = anonymous_bytes(server)
        clients = []
        for _ in range(2):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(head % len(body) + body)
            clients.append(client)
        try:
            assert server.post("/completion", {"prompt": "b", "n_predict": 1})["tokens_predicted"] == 1
            assert anonymous_bytes(server) - before < 1 << 28
            while server.get("/bankml/diagnostics")["processes"][0]["files"] > 64:
                time.sleep(0.1)
        finally:
            for client in clients:
                client.close()
