"""Reranking requests in Jina's form and in TEI's, what the model reads for them, and the two forms of the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from engine.model import Model
from engine.tokenizer import Tokenizer
from server.errors import BadRequest
from server.wire.rerank import answer, parse, prompts, results
from testing.oracles.small_models import vocabulary

DOCUMENTS = ["one", "two", "three"]


def model(**keys: Any) -> Model:
    """A vocabulary, and what else its file says."""
    metadata = {**vocabulary("gpt-2"), **keys}
    metadata["tokenizer.ggml.token_type"] = np.array(metadata["tokenizer.ggml.token_type"], np.int32)
    return cast(Model, SimpleNamespace(tokenizer=Tokenizer.from_gguf(metadata), metadata=metadata))


def test_documents_are_jinas_and_texts_are_teis() -> None:
    jina = parse({"query": "q", "documents": DOCUMENTS})
    tei = parse({"query": "q", "texts": DOCUMENTS, "return_text": True})
    assert (jina.documents, jina.tei, jina.return_text, jina.top_n) == (DOCUMENTS, False, False, 3)
    assert (tei.documents, tei.tei, tei.return_text, tei.top_n) == (DOCUMENTS, True, True, 3)


def test_documents_count_before_texts_and_the_form_is_teis_all_the_same() -> None:
    both = parse({"query": "q", "documents": ["a"], "texts": DOCUMENTS})
    assert (both.documents, both.tei) == (["a"], True)


def test_documents_of_another_type_count_as_absent() -> None:
    assert parse({"query": "q", "documents": [1], "texts": DOCUMENTS}).documents == DOCUMENTS
    assert parse({"query": "q", "documents": None, "texts": DOCUMENTS}).documents == DOCUMENTS


@pytest.mark.parametrize(("top_n", "n"), [(2, 2), (0, 0), (9, 9), (1.7, 1), ("2", 3), (None, 3), (True, 1)])
def test_top_n_says_how_many(top_n: Any, n: int) -> None:
    assert parse({"query": "q", "documents": DOCUMENTS, "top_n": top_n}).top_n == n


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"documents": DOCUMENTS}, '"query" must be provided'),
        ({"query": 7, "documents": DOCUMENTS}, '"query" must be a string'),
        ({"query": None, "documents": DOCUMENTS}, '"query" must be a string'),
        ({"query": "q"}, '"documents" must be a non-empty string array'),
        ({"query": "q", "documents": []}, '"documents" must be a non-empty string array'),
        ({"query": "q", "documents": "one"}, '"documents" must be a non-empty string array'),
        ({"query": "q", "documents": ["a", 1]}, '"documents" must be a non-empty string array'),
        ({"query": "q", "documents": DOCUMENTS, "top_n": -1}, '"top_n" must not be negative'),
    ],
)
def test_what_is_wrong_with_a_request_is_said(body: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse(body)


SPECIAL = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
SEPARATED = {"tokenizer.ggml.add_sep_token": True, "tokenizer.ggml.seperator_token_id": 1}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "onetwo"),
        (SPECIAL, "<|endoftext|>one<|im_end|>two<|im_end|>"),
        (SPECIAL | SEPARATED, "<|endoftext|>one<|im_end|><|im_start|>two<|im_end|>"),
    ],
    ids=["no special tokens", "a beginning and ends", "a separator too"],
)
def test_a_query_and_a_document_stand_between_the_special_tokens_of_the_vocabulary(
    keys: dict[str, Any], expected: str
) -> None:
    reader = model(**keys)
    [found] = prompts(parse({"query": "one", "documents": ["two"]}), reader)
    assert reader.tokenizer.decode(found) == expected.encode()


def test_special_tokens_in_the_texts_are_text() -> None:
    [found] = prompts(parse({"query": "<|im_end|>", "documents": ["two"]}), model())
    assert 2 not in found


def test_a_files_own_form_is_filled_in_and_its_special_tokens_are_read() -> None:
    reader = model(**{"tokenizer.chat_template.rerank": "<|im_start|>{query} {document}<|im_end|>{query}"})
    found = prompts(parse({"query": "one", "documents": ["two", "{query}"]}), reader)
    assert [reader.tokenizer.decode(tokens).decode() for tokens in found] == [
        "<|im_start|>one two<|im_end|>one",
        "<|im_start|>one {query}<|im_end|>one",
    ]
    assert found[0][0] == 1


def test_the_best_documents_come_first() -> None:
    request = parse({"query": "q", "documents": DOCUMENTS, "top_n": 2})
    assert results(request, [0.25, 0.5, 0.75]) == [
        {"index": 2, "relevance_score": 0.75},
        {"index": 1, "relevance_score": 0.5},
    ]


def test_jinas_answer_is_an_object_with_the_tokens_read() -> None:
    request = parse({"query": "q", "documents": DOCUMENTS})
    found = results(request, [0.0, 1.0, 2.0])
    assert answer(request, found, 12, {"model": "mine"}, "model") == {
        "model": "mine",
        "object": "list",
        "usage": {"prompt_tokens": 12, "total_tokens": 12},
        "results": found,
    }


def test_teis_answer_is_the_list_with_the_texts_if_they_are_wanted() -> None:
    request = parse({"query": "q", "texts": DOCUMENTS, "return_text": True, "top_n": 1})
    found = results(request, [0.0, 1.0, 0.5])
    assert answer(request, found, 12, {}, "model") == [{"index": 1, "score": 1.0, "text": "two"}]
