"""Embeddings and ranks: the reference's, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.embeddings import embed
from engine.model import Model, ModelOptions
from engine.pooling import Pooling, normalized
from testing.oracles.embedding_cases import RERANK_REQUESTS, RERANKERS, SESSIONS, Request, Reranker, poolings, texts
from testing.oracles.operation_cases import digest
from testing.oracles.record import sha256_of
from testing.oracles.record_embeddings import RECORD, play
from testing.oracles.small_models import MODELS, SmallModel
from testing.server_process import BankmlServer

RECORDED: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))


def ours(recorded: dict[str, Any]) -> dict[str, Any]:
    """What we answer where the reference answers so: its 500s are the client's fault, and 400s here, with the same
    message unless that is a C++ library's (docs/differences.md)."""
    if recorded["status"] != 500:
        return recorded
    message = recorded["body"]["error"]["message"]
    if "vector::" in message:
        message = '"top_n" must not be negative'
    return {"status": 400, "body": {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}}


@pytest.mark.parametrize("small", MODELS, ids=lambda model: model.name)
def test_a_small_model_gives_the_references_rows_and_poolings(small: SmallModel, tmp_path: Path) -> None:
    path = small.file().write(tmp_path / f"{small.name}.gguf")
    expected = RECORDED["small"][small.name]
    assert sha256_of(path) == expected["sha256"], "this machine made another file"
    model = Model.open(path, ModelOptions(n_threads=2, n_batch=512))
    for pooling in poolings(small.name):
        vectors = [embed(model, text, pooling, cached=[]) for text in texts(model.n_vocab)]
        assert [digest(np.atleast_2d(vector)) for vector in vectors] == expected[pooling.value], pooling
    model.close()


@pytest.mark.parametrize("reranker", RERANKERS, ids=lambda reranker: reranker.name)
def test_a_reranker_gives_the_references_scores_in_its_order(reranker: Reranker, tmp_path: Path) -> None:
    path = reranker.file().write(tmp_path / f"{reranker.name}.gguf")
    expected = RECORDED["rerankers"][reranker.name]
    assert sha256_of(path) == expected["sha256"], "this machine made another file"
    with BankmlServer(path, "--reranking", "--alias", "small") as server:
        assert play(server, [Request("/rerank", body) for body in RERANK_REQUESTS]) == expected["answers"]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_gets_the_references_answers(name: str, model_path: Path) -> None:
    flags, requests = SESSIONS[name]
    with BankmlServer(model_path, *flags, "--alias", "SmolLM2") as server:
        found = play(server, requests)
    for request, one, recorded in zip(requests, found, RECORDED["sessions"][name], strict=True):
        assert one == ours(recorded), request


def test_whole_vectors_are_the_references(model_path: Path) -> None:
    assert sha256_of(model_path) == RECORDED["model"]
    model = Model.open(model_path, ModelOptions(n_threads=2, n_batch=512))
    for text, expected in RECORDED["whole"].items():
        vector = normalized(embed(model, model.tokenizer.encode(text), Pooling.MEAN, cached=[]), 2)
        assert vector.astype(np.float64).tolist() == expected
    model.close()
