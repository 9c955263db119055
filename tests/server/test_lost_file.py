"""A model file that is cut in the middle of an answer: the client is told, the server lives, the next is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.server_process import BankmlServer

MESSAGES = [{"role": "user", "content": "Count to one hundred, slowly."}]
REQUESTS: dict[str, dict[str, Any]] = {
    "/completion": {"prompt": "Once upon a time", "n_predict": 2000, "ignore_eos": True},
    "/v1/completions": {"prompt": "Once upon a time", "max_tokens": 2000, "ignore_eos": True},
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 2000, "ignore_eos": True},
    "/v1/responses": {"input": "Count to one hundred, slowly.", "max_output_tokens": 2000, "ignore_eos": True},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 2000},
    "/api/generate": {"prompt": "Once upon a time", "raw": True, "options": {"num_predict": 2000}},
    "/api/chat": {"messages": MESSAGES, "options": {"num_predict": 2000}},
}


@pytest.fixture(scope="module")
def model_copy(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(model_path, tmp_path_factory.mktemp("model") / "model.gguf"))


@pytest.fixture(scope="module")
def server_of_copy(model_copy: Path) -> Iterator[BankmlServer]:
    with BankmlServer(model_copy) as process:
        yield process


@pytest.fixture
def copy(model_copy: Path, model_path: Path) -> Iterator[Path]:
    """The file that is served; whole again afterwards."""
    yield model_copy
    shutil.copy(model_path, model_copy)


def message_of(body: dict[str, Any]) -> str:
    error = body.get("error", body)  # Anthropic's error event has no more around it
    return str(error["message"] if isinstance(error, dict) else error)


@pytest.mark.parametrize("path", REQUESTS)
def test_a_file_cut_under_a_streamed_answer_is_an_error_event_and_then_a_503(
    server_of_copy: BankmlServer, copy: Path, model_path: Path, path: str
) -> None:
    client = server_of_copy.client
    body = {"model": "model", **REQUESTS[path], "stream": True}
    with client.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        lines = (line.removeprefix("data: ") for line in response.iter_lines() if line and line[:6] != "event:")
        first = json.loads(next(lines))
        os.truncate(copy, copy.stat().st_size // 2)
        last = json.loads(list(lines)[-1])
    assert "error" not in first
    assert message_of(last) == f"model file '{copy}' changed while it was in use"
    assert client.get("/health").status_code == 200
    for stream in (True, False):
        refused = client.post(path, json={**body, "stream": stream})
        assert refused.status_code == 503
        assert message_of(refused.json()) == f"model file '{copy}' has changed since it was verified"
    shutil.copy(model_path, copy)
    short = {key: 2 if isinstance(value, int) and value > 2 else value for key, value in body.items()}
    short |= {"options": {"num_predict": 2}} if "options" in body else {}
    assert client.post(path, json={**short, "stream": False}).status_code == 200


def test_a_file_that_changed_is_refused_by_what_needs_no_engine_only_once_it_is_loaded_again(
    server_of_copy: BankmlServer, copy: Path
) -> None:
    client = server_of_copy.client
    assert client.post("/tokenize", json={"content": "a"}).status_code == 200
    os.truncate(copy, 1000)
    assert client.post("/tokenize", json={"content": "a"}).status_code == 200  # the vocabulary is in memory
    assert client.post("/completion", json={"prompt": "a", "n_predict": 1}).status_code == 503
    assert client.post("/tokenize", json={"content": "a"}).status_code == 503
    assert client.get("/health").status_code == 200
