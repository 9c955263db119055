"""Ollama's vectors: `/api/embed` and the older `/api/embeddings`. Neither needs `--embeddings`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.model import Model
from engine.pooling import FloatArray, Pooling
from registry.errors import ModelNotFound
from server.answers import open_lease
from server.errors import ApiError
from server.receipts import Receipt
from server.routes.api_names import entry_for
from server.routes.common import as_bad_request, json_response, parsed, residency_of, settings_of
from server.routes.embeddings import Batch, pooling_of
from server.streams import until_disconnect
from server.wire.embeddings import SLOT_FORM, json_list
from server.wire.golang import quote
from server.wire.layers import parsed_options, served_context
from server.wire.ollama_capabilities import lacking
from server.wire.ollama_embed import (
    EmbedRequest,
    embedding_json,
    legacy_embedding_json,
    parse_embed,
    parse_embeddings,
    texts_of,
    tokens_of,
)
from server.wire.ollama_options import parse_options
from slots.embedding import embed_all


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of a request.

    Attributes:
        vectors: each text's, as JSON.
        load_ns: nanoseconds until the model was there and the engine free.
        n_tokens: of all texts.
        receipt: None where nothing was embedded.
    """

    vectors: list[bytes]
    load_ns: int
    n_tokens: int = 0
    receipt: dict[str, Any] | None = None


async def embed(request: Request) -> Response:
    """`POST /api/embed`."""
    started_ns = time.perf_counter_ns()
    asked = await parsed(request, parse_embed)
    work = _embedded(request, asked, started_ns, lambda vector: embedding_json(vector, asked.dimensions))
    done = await until_disconnect(request, work)
    answer: dict[str, Any] = {
        "model": asked.model,
        "embeddings": orjson.Fragment(json_list(done.vectors)),
    }
    if done.receipt is not None:
        answer["total_duration"] = time.perf_counter_ns() - started_ns
        answer["load_duration"] = done.load_ns
        answer["prompt_eval_count"] = done.n_tokens
        answer["bankml_receipt"] = done.receipt
    return json_response(answer)


async def embeddings(request: Request) -> Response:
    """`POST /api/embeddings`."""
    started_ns = time.perf_counter_ns()
    asked = await parsed(request, parse_embeddings)
    done = await until_disconnect(request, _embedded(request, asked, started_ns, legacy_embedding_json))
    answer: dict[str, Any] = {"embedding": orjson.Fragment(done.vectors[0] if done.vectors else b"[]")}
    if done.receipt is not None:
        answer["bankml_receipt"] = done.receipt
    return json_response(answer)


async def _embedded(
    request: Request, asked: EmbedRequest, started_ns: int, shown: Callable[[FloatArray], bytes]
) -> Embedded:
    """Load the model, wait for the engine and embed.

    Args:
        shown: a vector as JSON.
    """
    residency, settings, body = residency_of(request), settings_of(request), await request.body()
    keep_alive = residency.keep_alive if asked.keep_alive is None else asked.keep_alive
    try:
        entry = await entry_for(residency, asked.model)
    except ModelNotFound:
        as_bad_request(texts_of, asked)  # which Ollama looks at first
        raise ApiError(404, f"model {quote(asked.model)} not found, try pulling it first") from None
    asked_texts = as_bad_request(texts_of, asked)
    as_bad_request(parse_options, asked.options)
    num_ctx = parsed_options(entry.layer, asked.options).num_ctx

    def build(model: Model) -> Batch[EmbedRequest]:
        if not asked_texts:
            return Batch(asked, [], Pooling.NONE)
        pooling = pooling_of(settings, model)
        if pooling is Pooling.NONE:
            raise ApiError(
                501, f"{lacking(asked.model, 'embeddings')}: its file names no pooling; start the server with --pooling"
            )
        n_ctx = served_context(num_ctx, model.n_ctx)
        texts = [tokens_of(text, model, n_ctx, splits=pooling.splits, cuts=asked.cuts) for text in asked_texts]
        return Batch(asked, texts, pooling)

    async with open_lease(residency, entry, build, keep_alive=keep_alive, num_ctx=num_ctx) as (lease, batch):
        load_ns = time.perf_counter_ns() - started_ns
        if not batch.texts:
            return Embedded([], load_ns)
        vectors = await embed_all(lease, batch.texts, batch.pooling, SLOT_FORM)
    found = await asyncio.to_thread(lambda: [shown(vector) for vector in vectors])
    n_tokens = sum(map(len, batch.texts))
    receipt = Receipt(entry, body, residency.options, started_ns, asked.ignored)
    receipt.data(json_list(found))
    return Embedded(found, load_ns, n_tokens, receipt.finish(n_tokens, 0))


routes = [
    Route("/api/embed", embed, methods=["POST"]),
    Route("/api/embeddings", embeddings, methods=["POST"]),
]
