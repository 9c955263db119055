"""Embedding requests as llama-server reads them, and the two forms of the answer."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from engine.model import Model, ModelOptions
from engine.pooling import Pooling, normalized
from server.errors import BadRequest
from server.wire.embeddings import EmbeddingRequest, answer, embedding_json, parse

VECTOR = np.array([3.0, -4.0, 0.1, 0.0], np.float32)


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[Model]:
    model = Model.open(model_path, ModelOptions(n_threads=1))
    yield model
    model.close()


def read(
    model: Model, body: dict[str, Any], *, openai: bool = True, pooling: Pooling = Pooling.MEAN
) -> EmbeddingRequest:
    return parse(body, model, pooling, 2, openai=openai)


@pytest.mark.parametrize(
    ("content", "n"),
    [("hello", 1), (["hello", "world"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), ([1, "hello", 2], 1)],
    ids=["a text", "two texts", "tokens", "two lists of tokens", "texts and tokens mixed"],
)
def test_the_input_is_a_text_tokens_or_several_of_them(model: Model, content: Any, n: int) -> None:
    assert len(read(model, {"input": content}).texts) == n


def test_content_is_answered_in_llama_servers_form_wherever_it_came(model: Model) -> None:
    assert read(model, {"input": "a"}).openai
    assert not read(model, {"content": "a"}).openai
    assert read(model, {"input": "a", "content": "b"}).openai


def test_the_requests_norm_wins(model: Model) -> None:
    assert read(model, {"input": "a"}).normalize == 2
    assert read(model, {"input": "a", "embd_normalize": -1}).normalize == -1
    assert read(model, {"input": "a", "embd_normalize": 1.9}).normalize == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, '"input" or "content" must be provided'),
        ({"input": ""}, "Input content cannot be empty"),
        ({"input": ["a", ""]}, "Input content cannot be empty"),
        ({"input": []}, '"prompt" must not be empty'),
        ({"input": None}, '"prompt" elements must be'),
        ({"input": 7}, '"prompt" elements must be'),
        ({"input": "a", "encoding_format": "hex"}, "Can be either float or base64"),
        ({"input": "a", "encoding_format": 1}, "type must be string, but is number"),
        ({"input": "a", "encoding_format": None}, "type must be string, but is null"),
        ({"input": "a", "embd_normalize": "2"}, "type must be number, but is string"),
        ({"input": "a", "embd_normalize": None}, "type must be number, but is null"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(model: Model, body: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read(model, body)


def test_rows_that_are_not_pooled_have_no_form_of_openais(model: Model) -> None:
    with pytest.raises(BadRequest, match="Pooling type 'none' is not OAI compatible"):
        read(model, {}, pooling=Pooling.NONE)
    assert read(model, {"input": "a"}, openai=False, pooling=Pooling.NONE).texts


def request(*, openai: bool = True, encoded: bool = False, normalize: int = 2) -> EmbeddingRequest:
    return EmbeddingRequest([[1, 2], [3]], normalize, openai, encoded)


def test_floats_are_written_as_the_doubles_they_are() -> None:
    expected = [float(value) for value in normalized(VECTOR, 2)]
    assert orjson.loads(embedding_json(VECTOR, request())) == expected


def test_base64_holds_the_bytes_of_the_floats() -> None:
    text = orjson.loads(embedding_json(VECTOR, request(encoded=True)))
    assert base64.b64decode(text) == normalized(VECTOR, 2).astype("<f4").tobytes()


def test_rows_that_are_not_pooled_are_not_normalized() -> None:
    rows = np.stack([VECTOR, VECTOR * 2])
    shown = orjson.loads(embedding_json(rows, request(openai=False)))
    assert shown == rows.astype(np.float64).tolist()


def test_llama_servers_form_is_a_list_of_lists_of_rows() -> None:
    asked = request(openai=False, encoded=True, normalize=-1)
    shown = answer(asked, [embedding_json(VECTOR, asked)] * 2, {}, "model")
    rows = [VECTOR.astype(np.float64).tolist()]
    assert orjson.loads(orjson.dumps(shown)) == [{"index": 0, "embedding": rows}, {"index": 1, "embedding": rows}]


@pytest.mark.parametrize(("body", "name"), [({}, "model"), ({"model": "mine"}, "mine"), ({"model": 7}, "model")])
def test_openais_form_counts_the_tokens_and_repeats_the_model(body: dict[str, Any], name: str) -> None:
    asked = request()
    shown = answer(asked, [embedding_json(VECTOR, asked)] * 2, body, name)
    assert isinstance(shown, dict)
    assert list(shown) == ["model", "object", "usage", "data"]
    assert (shown["model"], shown["object"]) == (name, "list")
    assert shown["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert [list(one) for one in shown["data"]] == [["embedding", "index", "object"]] * 2
    assert [one["index"] for one in shown["data"]] == [0, 1]


def test_openais_form_names_another_encoding_than_floats() -> None:
    asked = request(encoded=True)
    shown = answer(asked, [embedding_json(VECTOR, asked)], {}, "model")
    assert isinstance(shown, dict)
    assert list(shown["data"][0]) == ["embedding", "index", "object", "encoding_format"]
