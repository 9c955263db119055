"""Ollama's `/api/embed` and `/api/embeddings` as pure functions: bodies in, texts cut to the context, vectors out.

The rules are those of Ollama's `EmbedHandler` and `EmbeddingsHandler`, which ask llama-server for each vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import orjson

from engine.pooling import FloatArray, normalized
from engine.tokenizer import Tokenizer
from server.errors import BadRequest
from server.wire.golang import InvalidBody, as_text
from server.wire.llama import MAX_PROMPTS
from server.wire.ollama_fields import Fields, checked_name, fields_of, found_name

EMBED_FIELDS: Final[Fields] = {
    "model": "string",
    "input": "interface {}",
    "keep_alive": "api.Duration",
    "truncate": "bool",
    "dimensions": "int",
    "options": "map[string]interface {}",
}
"""The fields of `POST /api/embed` and their Go types."""

EMBEDDINGS_FIELDS: Final[Fields] = {
    "model": "string",
    "prompt": "string",
    "keep_alive": "api.Duration",
    "options": "map[string]interface {}",
}
"""The fields of `POST /api/embeddings` and their Go types."""

TOO_LONG: Final = "the input length exceeds the context length"
"""What Ollama says of a text that has no room, and must not be cut or cannot."""


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """A request to embed.

    Attributes:
        model: the name as the client wrote it.
        given: what to embed, as it was given; see `texts_of`.
        keep_alive: as in `ollama.Request`.
        cuts: a text too long for the context loses its end, instead of being refused.
        dimensions: how many numbers to keep of a vector, 0 for all.
        options: as they were given.
        ignored: names of what changes nothing here.
    """

    model: str
    given: Any
    keep_alive: float | None = None
    cuts: bool = True
    dimensions: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


class Embedder(Protocol):
    """What is needed of `engine.model.Model`."""

    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def n_ubatch(self) -> int: ...


def parse_embed(body: bytes) -> EmbedRequest:
    """The request in a `POST /api/embed` body.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
        ModelNotFound: it names no model.
    """
    given, ignored = fields_of(body, "EmbedRequest", EMBED_FIELDS)
    return EmbedRequest(
        found_name(given.get("model", "")),
        given.get("input"),
        given.get("keep_alive"),
        given.get("truncate", True),
        given.get("dimensions", 0),
        given.get("options", {}),
        (*ignored, *_unused(given)),
    )


def parse_embeddings(body: bytes) -> EmbedRequest:
    """The request in a `POST /api/embeddings` body, which has one text and cuts none.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, ignored = fields_of(body, "EmbeddingRequest", EMBEDDINGS_FIELDS)
    model, prompt, options = checked_name(given.get("model", "")), given.get("prompt", ""), given.get("options", {})
    ignored += _unused(given)
    return EmbedRequest(model, prompt, given.get("keep_alive"), cuts=False, options=options, ignored=tuple(ignored))


def texts_of(asked: EmbedRequest) -> tuple[str, ...]:
    """What to embed; without one, the model is only loaded.

    Raises:
        InvalidBody: it is no text and no list of texts, or there are too many.
    """
    value = asked.given
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and len(value) > MAX_PROMPTS:
        raise InvalidBody(f'"input" has more than {MAX_PROMPTS} texts')
    if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise InvalidBody("invalid input type")
    return tuple(value)


def _unused(given: Mapping[str, Any]) -> list[str]:
    """The names of the options without a meaning here: nothing is sampled."""
    asked = [name for name, value in given.get("options", {}).items() if value is not None and name != "num_ctx"]
    return [f"options.{name}" for name in asked]


def tokens_of(text: str, model: Embedder, n_ctx: int, *, splits: bool, cuts: bool) -> list[int]:
    """The tokens of a text that is to be embedded, its end cut off where they would be too many.

    The room is counted as Ollama counts it: one token less each for a beginning and an end token that the text does
    not have, whether the vocabulary adds them or not.

    Args:
        n_ctx: the context, in tokens.
        splits: the pooling takes a text in several micro-batches; else it must fit one.
        cuts: cut a text; else refuse it.

    Raises:
        BadRequest: it has no room, or none is left for it.
    """
    tokenizer = model.tokenizer
    tokens = tokenizer.encode(text, add_special=False, parse_special=True)
    room = _room(tokens, n_ctx, model)
    if room <= 0:
        raise BadRequest("input after truncation exceeds maximum context length")
    if len(tokens) > room:
        if not cuts:
            raise BadRequest(TOO_LONG)
        text = as_text(tokenizer.decode(tokens[:room]))
    whole = tokenizer.encode(text)
    if not whole:
        raise BadRequest("Input content cannot be empty")
    if splits or len(whole) <= model.n_ubatch:
        return whole
    tokens = tokenizer.encode(text, add_special=False, parse_special=True)
    room = _room(tokens, model.n_ubatch, model)
    if not cuts or room <= 0:
        raise BadRequest(TOO_LONG)
    return tokenizer.encode(as_text(tokenizer.decode(tokens[:room])))


def _room(tokens: Sequence[int], limit: int, model: Embedder) -> int:
    """How many tokens of a text have room in `limit`."""
    metadata = model.metadata
    architecture = metadata.get("general.architecture", "")
    if tokens:
        for name, token in (("bos", tokens[0]), ("eos", tokens[-1])):
            is_there = token == metadata.get(f"tokenizer.ggml.{name}_token_id", 0)
            limit -= not is_there and bool(metadata.get(f"{architecture}.add_{name}_token", True))
    return limit


def unit(vector: FloatArray) -> FloatArray:
    """The vector divided by its length as Ollama does it, on top of what llama-server did: its sum of squares in
    single precision, one after another.

    Raises:
        BadRequest: a number of it is none.
    """
    if not np.isfinite(vector).all():
        raise BadRequest("embedding contains NaN or Inf values")
    total = float(np.add.accumulate(vector * vector, dtype=np.float32)[-1])
    return vector * np.float32(1.0 / max(np.sqrt(total), 1e-12))


def embedding_json(vector: FloatArray, dimensions: int) -> bytes:
    """What `/api/embed` has for one text, as JSON.

    Args:
        vector: as `engine.embeddings.embed` gives it, (n,).
        dimensions: how many numbers to keep, 0 or less for all.
    """
    found = unit(normalized(vector, 2))
    if 0 < dimensions < len(found):
        found = unit(found[:dimensions])
    return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)


def legacy_embedding_json(vector: FloatArray) -> bytes:
    """What `/api/embeddings` has for its text, as JSON: llama-server's floats as the doubles they are."""
    return orjson.dumps(normalized(vector, 2).astype(np.float64), option=orjson.OPT_SERIALIZE_NUMPY)
