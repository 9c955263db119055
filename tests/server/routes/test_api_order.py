"""What is told first of a request with several faults: what Ollama's handlers (`server/routes.go`) look at first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.fork_file import ForkFile, PinnedFile
from registry.pins import sha256_file
from testing.oracles.small_models import BY_NAME
from testing.server_process import BankmlServer

KNOWN, NOBODY, CLOUD, WRONG = "llama-mixed", "nobody", "gpt-oss:120b-cloud", "a b"
ASK = [{"role": "user", "content": "Hi"}]
FULL = f"registry.ollama.ai/library/{KNOWN}:latest"

NOT_FOUND = f"model '{NOBODY}' not found"
PULL_FIRST = f'model "{NOBODY}" not found, try pulling it first'
NO_NAME = "invalid model name"
NO_CLOUD = "ollama cloud is disabled: remote model is unavailable"
RANGE = "top_logprobs must be between 0 and 20"
RAW = "raw mode does not support template, system, or context"
NO_THOUGHT = f'"{KNOWN}" does not support thinking'
OPTION: dict[str, Any] = {"options": {"top_k": "x"}}
BAD_OPTION = 'option "top_k" must be of type integer'
DURATION = 'time: invalid duration "x"'


def mismatch(value: str, field: str, kind: str) -> str:
    return f"json: cannot unmarshal {value} into Go struct field {field} of type {kind}"


GENERATE: list[tuple[dict[str, Any], int, str]] = [
    ({"model": NOBODY, "prompt": 1}, 400, mismatch("number", "GenerateRequest.prompt", "string")),
    ({"model": NOBODY, "keep_alive": "x"}, 400, DURATION),
    ({"model": NOBODY, "top_logprobs": 21}, 400, RANGE),
    ({"model": WRONG, "top_logprobs": 21}, 400, RANGE),
    ({"model": WRONG, **OPTION}, 400, NO_NAME),
    ({"raw": True, "system": "x", **OPTION}, 404, "model '' not found"),
    ({"model": CLOUD, "raw": True, "system": "x", **OPTION}, 403, NO_CLOUD),
    *(
        ({"model": NOBODY, "prompt": "Hi", **fault}, 404, NOT_FOUND)
        for fault in (
            OPTION,
            {"raw": True, "system": "x"},
            {"raw": True, "suffix": "x"},
            {"format": "xml"},
            {"images": ["aGk="]},
            {"template": "x"},
            {"shift": True},
            {"think": True},
            {"suffix": "x"},
            {"keep_alive": 0},
        )
    ),
    ({"model": KNOWN, "prompt": "Hi", "raw": True, "context": [1], "think": True, **OPTION}, 400, RAW),
    ({"model": KNOWN, "prompt": "Hi", "think": True, "suffix": "x", **OPTION}, 400, NO_THOUGHT),
    ({"model": KNOWN, "prompt": "Hi", "suffix": "x", **OPTION}, 400, f"{FULL} does not support insert"),
    ({"model": KNOWN, "prompt": "Hi", "format": "xml", **OPTION}, 400, BAD_OPTION),
    ({"model": KNOWN, "prompt": "Hi", "images": ["aGk="], **OPTION}, 400, BAD_OPTION),
]
CHAT: list[tuple[dict[str, Any], int, str]] = [
    ({"model": NOBODY, "messages": {}}, 400, mismatch("object", "ChatRequest.messages", "[]api.Message")),
    ({"model": NOBODY, "messages": ASK, "top_logprobs": -1}, 400, RANGE),
    ({"messages": ASK, **OPTION}, 400, "model is required"),
    ({"model": WRONG, "messages": ASK, **OPTION}, 400, NO_NAME),
    ({"model": CLOUD, "messages": ASK, **OPTION}, 403, NO_CLOUD),
    *(
        ({"model": NOBODY, "messages": ASK, **fault}, 404, NOT_FOUND)
        for fault in (
            OPTION,
            {"messages": [{"content": "x"}]},
            {"messages": [{**ASK[0], "images": ["aGk="]}]},
            {"format": 1},
            {"think": "high"},
            {"tools": [{"type": "function"}]},
        )
    ),
    ({"model": KNOWN, "messages": ASK, "think": True, "tools": [{"type": "function"}], **OPTION}, 400, NO_THOUGHT),
    (
        {"model": KNOWN, "messages": ASK, "tools": [{"type": "function"}], **OPTION},
        400,
        f"{FULL} does not support tools",
    ),
    ({"model": KNOWN, "messages": [{"content": "x"}], **OPTION}, 400, BAD_OPTION),
]
EMBED: list[tuple[dict[str, Any], int, str]] = [
    ({"model": NOBODY, "input": 1, "dimensions": "x"}, 400, mismatch("string", "EmbedRequest.dimensions", "int")),
    ({"input": 1}, 404, "model '' not found"),
    ({"model": CLOUD, "input": 1, **OPTION}, 403, NO_CLOUD),
    ({"model": NOBODY, "input": 1, **OPTION}, 400, "invalid input type"),
    ({"model": NOBODY, "input": "Hi", **OPTION}, 404, PULL_FIRST),
    ({"model": KNOWN, "input": [1], **OPTION}, 400, "invalid input type"),
    ({"model": KNOWN, "input": "Hi", **OPTION}, 400, BAD_OPTION),
]
EMBEDDINGS: list[tuple[dict[str, Any], int, str]] = [
    ({"model": NOBODY, "prompt": 1}, 400, mismatch("number", "EmbeddingRequest.prompt", "string")),
    ({"prompt": "Hi", **OPTION}, 400, "model is required"),
    ({"model": WRONG, **OPTION}, 400, NO_NAME),
    ({"model": CLOUD, **OPTION}, 403, NO_CLOUD),
    ({"model": NOBODY, **OPTION}, 404, PULL_FIRST),
    ({"model": KNOWN, "prompt": "Hi", **OPTION}, 400, BAD_OPTION),
]
SHOW: list[tuple[dict[str, Any], int, str]] = [
    ({"model": NOBODY, "options": 1}, 400, mismatch("number", "ShowRequest.options", "map[string]interface {}")),
    ({"options": {}}, 400, "model is required"),
    ({"model": WRONG}, 400, NO_NAME),
    ({"model": CLOUD}, 403, "ollama cloud is disabled: remote model details are unavailable"),
    ({"model": NOBODY}, 404, f"model '{NOBODY}:latest' not found"),
]
COPY: list[tuple[dict[str, Any], int, str]] = [
    ({"source": WRONG, "destination": 1}, 400, mismatch("number", "CopyRequest.destination", "string")),
    ({"source": WRONG, "destination": WRONG}, 400, f'source "{WRONG}" is invalid'),
    ({"source": NOBODY, "destination": WRONG}, 400, f'destination "{WRONG}" is invalid'),
    ({"source": NOBODY, "destination": KNOWN}, 404, f'model "{NOBODY}" not found'),
]
DELETE: list[tuple[dict[str, Any], int, str]] = [
    ({"model": NOBODY, "name": 1}, 400, mismatch("number", "DeleteRequest.name", "string")),
    ({}, 400, "model is required"),
    ({"model": WRONG}, 400, f'name "{WRONG}" is invalid'),
    ({"model": NOBODY}, 404, NOT_FOUND),
]
CREATE: list[tuple[dict[str, Any], int, str]] = [
    ({"model": WRONG, "files": {"../x": ""}, "stream": 1}, 400, mismatch("number", "CreateRequest.stream", "bool")),
    ({"model": WRONG, "files": {"../x": ""}}, 400, "file path must be relative"),
    ({"model": WRONG, "files": {"x": ""}, "adapters": {"x": ""}}, 400, "invalid digest format"),
    ({"model": WRONG, "draft_quantize": "q8_0", "adapters": {"x": ""}}, 400, "--draft-quantize requires a DRAFT model"),
    ({"model": WRONG, "from": WRONG}, 400, NO_NAME),
    ({"model": "mine", "from": "a b"}, 400, NO_NAME),
]
TABLE = [
    (path, *row)
    for path, rows in (
        ("/api/generate", GENERATE),
        ("/api/chat", CHAT),
        ("/api/embed", EMBED),
        ("/api/embeddings", EMBEDDINGS),
        ("/api/show", SHOW),
        ("/api/copy", COPY),
        ("/api/delete", DELETE),
        ("/api/create", CREATE),
    )
    for row in rows
]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path = tmp_path_factory.mktemp("models")
    file = Path(BY_NAME[KNOWN].file().write(path / f"{KNOWN}.gguf"))
    pinned = PinnedFile(file.name, sha256_file(file).sha256, file.stat().st_size)
    ForkFile((pinned,)).write(path / f"{file.name}.FORK.json")
    with BankmlServer(file, "--registry", str(path), "-c", "128", threads=1) as process:
        yield process.client


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "body", "status", "error"), TABLE)
def test_the_first_fault_is_the_one_that_ollama_tells(
    http: httpx.Client, path: str, body: dict[str, Any], status: int, error: str, stream: bool
) -> None:
    asked = {"stream": stream, **body} if path in ("/api/generate", "/api/chat", "/api/create") else body
    response = http.request("DELETE" if path == "/api/delete" else "POST", path, json=asked)
    assert (response.status_code, response.json()) == (status, {"error": error})


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat"])
def test_a_model_that_is_to_go_goes_whatever_else_is_asked(http: httpx.Client, path: str) -> None:
    assert http.post(path, json={"model": KNOWN}).status_code == 200
    faults = {"think": True, "format": "xml", "raw": True, "system": "x", **OPTION}
    response = http.post(path, json={"model": KNOWN, "keep_alive": 0, **faults})
    assert (response.status_code, response.json()["done_reason"]) == (200, "unload")
    assert http.get("/api/ps").json() == {"models": []}
