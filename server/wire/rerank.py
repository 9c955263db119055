"""Reranking requests and answers, in Jina's form and in that of Text Embeddings Inference (TEI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.kernels import descending
from engine.model import Model
from server.errors import BadRequest
from server.wire.embeddings import head
from server.wire.fields import to_int

KNOWN = frozenset({"query", "documents", "texts", "top_n", "return_text", "model"})
"""Fields that mean something."""


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A request to rank documents by a query.

    Attributes:
        query, documents: the texts.
        top_n: how many of the documents are wanted, the best ones.
        tei: answer in TEI's form, for it has `texts`.
        return_text: the answer repeats the documents; in TEI's form only.
    """

    query: str
    documents: Sequence[str]
    top_n: int
    tei: bool
    return_text: bool


def parse(body: Mapping[str, Any]) -> RerankRequest:
    """Read a request. A field of the wrong type counts as absent, as in llama-server, but for `query`.

    Raises:
        BadRequest: there is no query, or no document, or fewer than none are wanted.
    """
    if "query" not in body:
        raise BadRequest('"query" must be provided')
    query = body["query"]
    if not isinstance(query, str):
        raise BadRequest('"query" must be a string')
    listed = (_texts(body.get(name)) for name in ("documents", "texts"))
    documents = next((texts for texts in listed if texts is not None), [])
    if not documents:
        raise BadRequest('"documents" must be a non-empty string array')
    top_n = body.get("top_n")
    top_n = to_int(top_n) if isinstance(top_n, int | float) else len(documents)
    if top_n < 0:
        raise BadRequest('"top_n" must not be negative')
    tei = "texts" in body
    return RerankRequest(query, documents, top_n, tei, tei and body.get("return_text") is True)


def _texts(value: object) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(text, str) for text in value) else None


def prompts(request: RerankRequest, model: Model) -> list[list[int]]:
    """What the model reads for each document: the file's own form for it, if it has one, else the two texts with the
    special tokens that the vocabulary adds.

    Raises:
        InvalidRequest: a text cannot be tokenized.
    """
    tokenizer, special = model.tokenizer, model.tokenizer.special
    template = model.metadata.get("tokenizer.chat_template.rerank")
    if isinstance(template, str):
        filled = template.replace("{query}", request.query)
        return [
            tokenizer.encode(filled.replace("{document}", document), add_special=False)
            for document in request.documents
        ]
    end = special.sep if special.eos is None else special.eos
    bos = [special.bos] if tokenizer.add_bos and special.bos is not None else []
    eos = [end] if tokenizer.add_eos and end is not None else []
    sep = [special.sep] if tokenizer.add_sep and special.sep is not None else []
    texts = (
        tokenizer.encode(text, add_special=False, parse_special=False) for text in (request.query, *request.documents)
    )
    query = next(texts)
    return [[*bos, *query, *eos, *sep, *document, *eos] for document in texts]


def results(request: RerankRequest, scores: Sequence[float]) -> list[dict[str, Any]]:
    """The best documents, the best one first, as the answer lists them."""
    label = "score" if request.tei else "relevance_score"
    found = []
    for index in descending(scores)[: request.top_n]:
        text = {"text": request.documents[index]} if request.return_text else {}
        found.append({"index": index, label: scores[index], **text})
    return found


def answer(
    request: RerankRequest, found: list[dict[str, Any]], n_tokens: int, body: Mapping[str, Any], name: str
) -> dict[str, Any] | list[dict[str, Any]]:
    """The answer's body.

    Args:
        request: what was asked.
        found: `results`.
        n_tokens: tokens that were read.
        body: the request's; a `model` in it is repeated.
        name: what answers call the model else.
    """
    return found if request.tei else {**head(body, name, n_tokens), "results": found}
