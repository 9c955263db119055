"""server/http_server.py: how the server stops, from the outside."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from testing.server_process import BankmlServer

ENDLESS = {"prompt": "Once upon a time", "ignore_eos": True, "stream": True, "n_predict": -1}
CHAT = {"messages": [{"role": "user", "content": "Count."}], "ignore_eos": True, "stream": True, "n_predict": -1}
STOPPING = {"code": 503, "message": "the server is shutting down", "type": "unavailable_error"}


@pytest.fixture
def server(start_server: Callable[..., BankmlServer]) -> Iterator[BankmlServer]:
    """A server of its own for each test, which is told to stop."""
    with start_server("--shutdown-timeout", "0.5", "--metrics") as process:
        yield process


def wait_for_end(server: BankmlServer) -> int:
    """The server's exit code."""
    assert server._process is not None
    return server._process.wait(60)


def wait_until_closed(server: BankmlServer) -> None:
    """Returns once nobody is let in."""
    with suppress(httpx.ConnectError):
        while True:
            httpx.get(f"{server.url}/health")


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/completion", ENDLESS, f"data: {json.dumps({'error': STOPPING}, separators=(',', ':'))}"),
        ("/v1/chat/completions", CHAT, f"data: {json.dumps({'error': STOPPING}, separators=(',', ':'))}"),
        (
            "/api/generate",
            {"prompt": "Once", "options": {"num_predict": -1}},
            '{"error":"the server is shutting down"}',
        ),
    ],
)
def test_a_stream_that_takes_too_long_ends_in_its_api_s_error(
    server: BankmlServer, path: str, body: dict[str, Any], last: str
) -> None:
    if path.startswith("/api"):
        body = {
            **body,
            "model": server.get("/bankml")["resident"],
            "format": {"type": "array", "items": {"type": "integer"}, "minItems": 1000},
        }
    with server.client.stream("POST", path, json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        server._process.send_signal(signal.SIGTERM)
        said = [line for line in lines if line]
    assert said[-1] == last
    assert wait_for_end(server) == 0


def test_whole_answers_running_and_waiting_are_a_503(server: BankmlServer) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        answers.append(httpx.post(f"{server.url}/completion", json={**ENDLESS, "stream": False}, timeout=60))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    while "\nllamacpp:requests_deferred 2\n" not in server.client.get("/metrics").text:
        pass
    server._process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert [(answer.status_code, answer.json()) for answer in answers] == [(503, {"error": STOPPING})] * 3
    assert wait_for_end(server) == 0


def test_nobody_is_let_in_any_more(server: BankmlServer) -> None:
    with server.client.stream("POST", "/completion", json=ENDLESS) as answer:
        lines = answer.iter_lines()
        next(lines)
        server._process.send_signal(signal.SIGTERM)
        wait_until_closed(server)
    assert wait_for_end(server) == 0


def test_a_second_signal_ends_it_at_once(start_server: Callable[..., BankmlServer]) -> None:
    with (
        start_server("--shutdown-timeout", "3600") as server,
        server.client.stream("POST", "/completion", json=ENDLESS) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        server._process.send_signal(signal.SIGTERM)
        wait_until_closed(server)
        server._process.send_signal(signal.SIGINT)
        assert wait_for_end(server) == -signal.SIGINT
