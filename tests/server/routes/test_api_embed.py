"""`/api/embed` and `/api/embeddings`: llama-server's vectors in Ollama's shapes, by Ollama's rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from testing.server_process import BankmlServer

MODEL = "smollm2"
CONTEXT = 256


@pytest.fixture(scope="module")
def embedder(start_server: Callable[..., BankmlServer]) -> Iterator[httpx.Client]:
    """A server that pools; /v1/embeddings is there to be compared with."""
    with start_server("--embeddings", "--pooling", "mean", "-c", str(CONTEXT)) as server:
        yield server.client


@pytest.fixture(scope="module")
def batched(start_server: Callable[..., BankmlServer]) -> Iterator[httpx.Client]:
    """A server that pools texts of a micro-batch only, without the flag for embeddings."""
    with start_server("--pooling", "mean", "-c", "512", "-ub", "32") as server:
        yield server.client


def post(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    response = client.post(path, json={"model": MODEL, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def refused(client: httpx.Client, path: str, status: int, error: str, **body: Any) -> None:
    response = client.post(path, json={"model": MODEL, **body})
    assert (response.status_code, response.json()) == (status, {"error": error})


def theirs(client: httpx.Client, *texts: str) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    data = client.post("/v1/embeddings", json={"input": list(texts)}).json()["data"]
    return [np.array(one["embedding"], np.float32) for one in data]


def unit(vector: Any) -> Any:
    """Ollama's own division, in a loop."""
    total = np.float32(0)
    for value in vector:
        total = np.float32(total + np.float32(value * value))
    return vector * np.float32(1.0 / max(float(np.sqrt(np.float64(total))), 1e-12))


def test_vectors_are_llama_servers_divided_by_their_length_once_more(embedder: httpx.Client) -> None:
    texts = ("The cat sat on the mat.", "Numbers: 1 2 3")
    answer = post(embedder, "/api/embed", input=texts)
    assert list(answer) == [
        *("model", "embeddings", "total_duration", "load_duration", "prompt_eval_count", "bankml_receipt")
    ]
    for mine, other in zip(answer["embeddings"], theirs(embedder, *texts), strict=True):
        assert np.array(mine, np.float32).tobytes() == unit(other).tobytes()
    usage = embedder.post("/v1/embeddings", json={"input": list(texts)}).json()["usage"]
    assert answer["prompt_eval_count"] == usage["prompt_tokens"]
    assert answer["total_duration"] > answer["load_duration"] > 0
    assert post(embedder, "/api/embed", input=texts[0])["embeddings"] == answer["embeddings"][:1]


def test_the_older_endpoint_has_llama_servers_floats_as_doubles(embedder: httpx.Client) -> None:
    answer = post(embedder, "/api/embeddings", prompt="The cat sat.")
    assert list(answer) == ["embedding", "bankml_receipt"]
    assert answer["embedding"] == theirs(embedder, "The cat sat.")[0].astype(np.float64).tolist()


def test_dimensions_cut_a_vector_and_divide_it_again(embedder: httpx.Client) -> None:
    whole = unit(theirs(embedder, "Hello")[0])
    (cut,) = post(embedder, "/api/embed", input="Hello", dimensions=8)["embeddings"]
    assert np.array(cut, np.float32).tobytes() == unit(whole[:8]).tobytes()
    for dimensions in (0, -1, len(whole), 10_000):
        (same,) = post(embedder, "/api/embed", input="Hello", dimensions=dimensions)["embeddings"]
        assert np.array(same, np.float32).tobytes() == whole.tobytes()


def test_without_a_text_the_model_is_only_loaded(embedder: httpx.Client) -> None:
    for empty in ("", [], None):
        assert post(embedder, "/api/embed", input=empty) == {"model": MODEL, "embeddings": []}
    assert post(embedder, "/api/embed") == {"model": MODEL, "embeddings": []}
    assert post(embedder, "/api/embeddings", prompt="") == {"embedding": []}


def test_keep_alive_counts_here_too(embedder: httpx.Client) -> None:
    post(embedder, "/api/embed", input="Hello", keep_alive=0)
    assert embedder.get("/api/ps").json() == {"models": []}
    post(embedder, "/api/embeddings", prompt="Hello", keep_alive=-1)
    assert len(embedder.get("/api/ps").json()["models"]) == 1


def test_a_long_text_loses_its_end_two_tokens_before_the_context(embedder: httpx.Client) -> None:
    text = " one two three four" * 80
    ids = embedder.post("/tokenize", json={"content": text}).json()["tokens"]
    for n_ctx, options in ((CONTEXT, {}), (40, {"num_ctx": 40})):
        answer = post(embedder, "/api/embed", input=text, options=options)
        assert answer["prompt_eval_count"] == n_ctx - 2
        short = embedder.post("/detokenize", json={"tokens": ids[: n_ctx - 2]}).json()["content"]
        assert answer["embeddings"] == post(embedder, "/api/embed", input=short)["embeddings"]


def test_a_long_text_that_must_not_be_cut_is_refused(embedder: httpx.Client) -> None:
    text, error = "word " * 300, "the input length exceeds the context length"
    refused(embedder, "/api/embed", 400, error, input=text, truncate=False)
    refused(embedder, "/api/embeddings", 400, error, prompt=text)
    assert post(embedder, "/api/embed", input="word", truncate=False)["prompt_eval_count"] == 1


def test_a_text_longer_than_a_micro_batch_is_cut_to_one(batched: httpx.Client) -> None:
    answer = post(batched, "/api/embed", input="word " * 100)
    assert answer["prompt_eval_count"] == 30
    error = "the input length exceeds the context length"
    refused(batched, "/api/embed", 400, error, input="word " * 100, truncate=False)


def test_the_receipt_is_over_the_vectors_and_names_what_changes_nothing(embedder: httpx.Client) -> None:
    body = {"model": MODEL, "input": "Hello", "colour": 1, "options": {"temperature": 1, "num_thread": 2}}
    response = embedder.post("/api/embed", json=body)
    receipt = response.json()["bankml_receipt"]
    assert receipt["ignored"] == ["colour", "options.temperature", "options.num_thread"]
    shown = response.content.partition(b'"embeddings":')[2].partition(b',"total_duration"')[0]
    assert receipt["response_sha256"] == hashlib.sha256(shown).hexdigest()


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/api/embed", {"input": 1}, 400, "invalid input type"),
        ("/api/embed", {"input": ["a", 1]}, 400, "invalid input type"),
        ("/api/embed", {"input": {"a": 1}}, 400, "invalid input type"),
        ("/api/embed", {"input": [""]}, 400, "Input content cannot be empty"),
        ("/api/embed", {"input": ["x"] * 1025}, 400, '"input" has more than 1024 texts'),
        (
            "/api/embed",
            {"input": "x", "dimensions": "8"},
            400,
            "json: cannot unmarshal string into Go struct field EmbedRequest.dimensions of type int",
        ),
        (
            "/api/embeddings",
            {"prompt": ["x"]},
            400,
            "json: cannot unmarshal array into Go struct field EmbeddingRequest.prompt of type string",
        ),
        ("/api/embed", {"input": "x", "options": {"num_ctx": 4096}}, 400, None),
        ("/api/embed", {"input": "x", "options": {"colour": 1}}, 400, 'invalid option provided: "colour"'),
        ("/api/embed", {"input": "a b", "options": {"num_ctx": 2}}, 200, None),
    ],
)
def test_what_is_wrong_is_said_and_the_next_request_is_served(
    embedder: httpx.Client, path: str, body: dict[str, Any], status: int, error: str | None
) -> None:
    response = embedder.post(path, json={"model": MODEL, **body})
    assert response.status_code == status
    if status != 200:
        assert list(response.json()) == ["error"]
        assert response.json()["error"] == (error or response.json()["error"])
    assert post(embedder, "/api/embed", input="Hello")["embeddings"]


def test_a_model_without_a_pooling_is_refused(client: httpx.Client) -> None:
    for path, body in (("/api/embed", {"input": "x"}), ("/api/embeddings", {"prompt": "x"})):
        response = client.post(path, json={"model": MODEL, **body})
        assert response.status_code == 501
        assert response.json()["error"].startswith('"smollm2" does not support embeddings')
