"""`/v1/embeddings`, `/rerank` and their other names on the real program."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from engine.embeddings import embed
from engine.model import Model, ModelOptions
from engine.pooling import Pooling, normalized
from testing.server_process import BankmlServer

EMBEDDINGS = ("/embedding", "/embeddings", "/v1/embeddings")
RERANKING = ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")


def opened(server: BankmlServer) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=600.0, trust_env=False)


@pytest.fixture(scope="module")
def embedder(start_server: Callable[..., BankmlServer]) -> Iterator[httpx.Client]:
    with start_server("--embeddings", "--pooling", "mean") as server, opened(server) as client:
        yield client


@pytest.fixture(scope="module")
def ranker(start_server: Callable[..., BankmlServer]) -> Iterator[httpx.Client]:
    with start_server("--reranking", "-ub", "64") as server, opened(server) as client:
        yield client


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[Model]:
    model = Model.open(model_path, ModelOptions(n_threads=2, n_batch=512))
    yield model
    model.close()


def refused(answer: httpx.Response, status: int, kind: str, message: str) -> None:
    assert answer.status_code == status
    assert answer.json()["error"] == {"code": status, "message": message, "type": kind}


@pytest.mark.parametrize("path", EMBEDDINGS)
def test_without_its_flag_embedding_is_a_501(client: httpx.Client, path: str) -> None:
    message = "This server does not support embeddings. Start it with `--embeddings`"
    refused(client.post(path, json={}), 501, "not_supported_error", message)


@pytest.mark.parametrize("path", RERANKING)
def test_without_its_flag_reranking_is_a_501(embedder: httpx.Client, client: httpx.Client, path: str) -> None:
    message = "This server does not support reranking. Start it with `--reranking`"
    for one in (client, embedder):
        refused(one.post(path, json={}), 501, "not_supported_error", message)


def test_openais_answer_has_the_engines_floats(embedder: httpx.Client, model: Model) -> None:
    texts = ["The cat sat on the mat.", "Numbers: 1 2 3"]
    body = embedder.post("/v1/embeddings", json={"input": texts}).json()
    tokens = [model.tokenizer.encode(text) for text in texts]
    expected = [normalized(embed(model, one, Pooling.MEAN, cached=[]), 2) for one in tokens]
    found = [np.array(one["embedding"], np.float32) for one in body["data"]]
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]
    assert body["usage"]["prompt_tokens"] == sum(map(len, tokens))


def test_base64_has_the_same_floats(embedder: httpx.Client) -> None:
    plain, encoded = (
        embedder.post("/v1/embeddings", json={"input": "hello", "encoding_format": encoding}).json()["data"][0]
        for encoding in ("float", "base64")
    )
    floats = np.frombuffer(base64.b64decode(encoded["embedding"]), "<f4")
    assert floats.astype(np.float64).tolist() == plain["embedding"]


def test_a_receipt_says_what_was_read_and_hashes_the_embeddings_as_sent(embedder: httpx.Client) -> None:
    body = embedder.post("/v1/embeddings", json={"input": ["one", "two"], "dimensions": 4})
    receipt = body.json()["bankml_receipt"]
    sent = "[" + ",".join(re.findall(r'"embedding":(\[[^]]*\])', body.text)) + "]"
    assert receipt["response_sha256"] == hashlib.sha256(sent.encode()).hexdigest()
    assert receipt["ignored"] == ["dimensions"]
    assert (receipt["prompt_tokens"], receipt["completion_tokens"]) == (2, 0)
    assert receipt["settings"]["batch"] == 512


def test_llama_servers_own_form_has_the_receipt_in_every_object(embedder: httpx.Client) -> None:
    body = embedder.post("/embedding", json={"content": ["one", "two"]})
    assert [list(one) for one in body.json()] == [["index", "embedding", "bankml_receipt"]] * 2
    sent = "[" + ",".join(re.findall(r'"embedding":(\[\[[^]]*\]\])', body.text)) + "]"
    hashed = hashlib.sha256(sent.encode()).hexdigest()
    assert {one["bankml_receipt"]["response_sha256"] for one in body.json()} == {hashed}


def test_a_text_longer_than_a_micro_batch_is_a_400(embedder: httpx.Client) -> None:
    message = "input (513 tokens) is too large to process. increase the physical batch size (current batch size: 512)"
    for n, path in ((513, "/v1/embeddings"), (513, "/embedding")):
        refused(embedder.post(path, json={"input": [5] * n}), 400, "invalid_request_error", message)
    assert embedder.post("/v1/embeddings", json={"input": [5] * 512}).status_code == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, '"input" or "content" must be provided'),
        ({"input": ""}, "Input content cannot be empty"),
        ({"input": [99999999]}, "Prompt contains invalid tokens"),
    ],
)
def test_what_cannot_be_embedded_is_a_400(embedder: httpx.Client, body: dict[str, Any], message: str) -> None:
    refused(embedder.post("/v1/embeddings", json=body), 400, "invalid_request_error", message)


def test_an_embedding_server_completes_and_chats_all_the_same(embedder: httpx.Client, client: httpx.Client) -> None:
    body = {"prompt": "The capital of France is", "n_predict": 5, "temperature": 0, "cache_prompt": False}
    first, second = (one.post("/completion", json=body).json()["content"] for one in (embedder, client))
    assert first == second


def test_embeddings_count_in_the_metrics(start_server: Callable[..., BankmlServer]) -> None:
    with start_server("--embeddings", "--pooling", "cls", "--metrics") as server, opened(server) as client:
        client.post("/v1/embeddings", json={"input": [[5, 6, 7], [8]]})
        assert "llamacpp:prompt_tokens_total 4\n" in client.get("/metrics").text


def test_the_slot_shows_what_was_embedded_last(embedder: httpx.Client) -> None:
    embedder.post("/v1/embeddings", json={"input": [[5, 6, 7], [8, 9]]})
    [slot] = embedder.get("/slots").json()
    assert not slot["is_processing"]
    assert (slot["n_prompt_tokens"], slot["n_prompt_tokens_processed"]) == (2, 0)
    assert slot["next_token"][0]["has_next_token"]


@pytest.mark.parametrize("path", RERANKING)
def test_documents_are_ranked(ranker: httpx.Client, path: str) -> None:
    body = ranker.post(path, json={"query": "what", "documents": ["a", "b c", "d e f"], "top_n": 2}).json()
    assert list(body) == ["model", "object", "usage", "results", "bankml_receipt"]
    scores = [one["relevance_score"] for one in body["results"]]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)
    assert body["usage"]["prompt_tokens"] == body["bankml_receipt"]["prompt_tokens"]


def test_texts_are_ranked_in_teis_form(ranker: httpx.Client) -> None:
    body = ranker.post("/rerank", json={"query": "what", "texts": ["a", "b"], "return_text": True}).json()
    assert [list(one) for one in body] == [["index", "score", "text", "bankml_receipt"]] * 2


def test_a_document_longer_than_a_micro_batch_is_a_400(ranker: httpx.Client) -> None:
    answer = ranker.post("/rerank", json={"query": "what", "documents": ["short", "long " * 80]})
    assert answer.status_code == 400
    assert "too large to process" in answer.json()["error"]["message"]
    assert ranker.post("/rerank", json={"query": "what", "documents": ["short"]}).status_code == 200


def test_there_are_no_adapters(client: httpx.Client) -> None:
    assert client.get("/lora-adapters").json() == []


def test_scaling_adapters_is_refused(client: httpx.Client) -> None:
    refused(client.post("/lora-adapters", json={}), 400, "invalid_request_error", "Request body must be an array")
    message = "LoRA adapters are not supported: none is loaded that could be scaled"
    refused(client.post("/lora-adapters", json=[{"id": 0, "scale": 1.0}]), 501, "not_supported_error", message)
