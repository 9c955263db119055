"""Embedding requests and answers, in llama-server's own form and in OpenAI's."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from engine.model import Model
from engine.pooling import FloatArray, Pooling, normalized
from server.errors import BadRequest
from server.wire.fields import CompletionFields, to_int, wrong_type
from server.wire.llama import Format, tokenize_prompts

KNOWN = frozenset({"input", "content", "encoding_format", "embd_normalize", "model"})
"""Fields that mean something; `dimensions` is not among them, as in llama-server."""

SLOT_FORM = Format("", CompletionFields(reasoning_format="none"))
"""What `GET /slots` shows of a text that is embedded: the defaults of llama-server's tasks."""


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A request to embed.

    Attributes:
        texts: the tokens of each text, none of them empty.
        normalize: the norm to divide by, see `engine.pooling.normalized`.
        openai: answer in OpenAI's form.
        base64: the floats as base64, little-endian; in OpenAI's form only.
    """

    texts: Sequence[Sequence[int]]
    normalize: int
    openai: bool
    base64: bool


def parse(body: Mapping[str, Any], model: Model, pooling: Pooling, normalize: int, *, openai: bool) -> EmbeddingRequest:
    """Read a request.

    Args:
        body: its JSON object.
        model: who tokenizes.
        pooling: the server's.
        normalize: the server's norm, for a request that names none.
        openai: it came to OpenAI's path; with `content` it is answered in llama-server's form even so.

    Raises:
        BadRequest: a field is missing or of the wrong kind, a text has no tokens, or OpenAI's form is asked for and
            nothing is pooled.
    """
    if openai and pooling is Pooling.NONE:
        raise BadRequest("Pooling type 'none' is not OAI compatible. Please use a different pooling type")
    if "input" in body:
        content = body["input"]
    elif "content" in body:
        content, openai = body["content"], False
    else:
        raise BadRequest('"input" or "content" must be provided')
    encoding = _encoding(body)
    texts = tokenize_prompts(model.tokenizer, content)
    if not all(texts):
        raise BadRequest("Input content cannot be empty")
    return EmbeddingRequest(texts, _norm(body, normalize), openai, encoding == "base64")


def _encoding(body: Mapping[str, Any]) -> str:
    encoding = body.get("encoding_format", "float")
    if not isinstance(encoding, str):
        raise BadRequest(str(wrong_type("string", encoding)))
    if encoding not in ("float", "base64"):
        raise BadRequest("The format to return the embeddings in. Can be either float or base64")
    return encoding


def _norm(body: Mapping[str, Any], default: int) -> int:
    try:
        return to_int(body.get("embd_normalize", default))
    except ValueError as error:
        raise BadRequest(str(error)) from None


def embedding_json(vector: FloatArray, request: EmbeddingRequest) -> bytes:
    """What an answer has for one text, as JSON: floats as the doubles they are, a row of them or a list of rows.

    Made apart from its answer, for that takes a millisecond for each few thousand of them.

    Args:
        vector: as `engine.embeddings.embed` gives it, (n,) or (n_tokens, n_embd).
        request: what was asked; rows that were not pooled are not normalized.
    """
    if vector.ndim == 1:
        vector = normalized(vector, request.normalize)
        if request.openai and request.base64:
            return orjson.dumps(base64.b64encode(vector.astype("<f4").tobytes()).decode())
    doubles = np.atleast_2d(vector).astype(np.float64)
    rows = [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in doubles]
    return rows[0] if request.openai else json_list(rows)


def json_list(parts: Sequence[bytes]) -> bytes:
    """A JSON array of what is JSON already."""
    return b"[" + b",".join(parts) + b"]"


def answer(
    request: EmbeddingRequest, embeddings: Sequence[bytes], body: Mapping[str, Any], name: str
) -> dict[str, Any] | list[dict[str, Any]]:
    """The answer's body.

    Args:
        request: what was asked.
        embeddings: `embedding_json` of each text.
        body: the request's; a `model` in it is repeated.
        name: what answers call the model else.
    """
    shown = map(orjson.Fragment, embeddings)
    if not request.openai:
        return [{"index": index, "embedding": embedding} for index, embedding in enumerate(shown)]
    encoding = {"encoding_format": "base64"} if request.base64 else {}
    data = [
        {"embedding": embedding, "index": index, "object": "embedding", **encoding}
        for index, embedding in enumerate(shown)
    ]
    n_tokens = sum(map(len, request.texts))
    return {**head(body, name, n_tokens), "data": data}


def head(body: Mapping[str, Any], name: str, n_tokens: int) -> dict[str, Any]:
    """What lists of embeddings and of scores begin with."""
    model = body.get("model")
    return {
        "model": model if isinstance(model, str) else name,
        "object": "list",
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    }
