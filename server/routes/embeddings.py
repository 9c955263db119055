"""Texts as vectors and as scores: `/embedding`, `/v1/embeddings`, `/rerank` and their other names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.embeddings import check_input
from engine.model import Model
from engine.pooling import FloatArray, Pooling
from registry.catalog import Entry
from server.answers import open_lease
from server.errors import ApiError
from server.receipts import Receipt
from server.routes.common import (
    Body,
    asked_model,
    in_turn,
    json_response,
    read_body,
    residency_of,
    settings_of,
    shown_name,
)
from server.settings import Settings
from server.streams import until_disconnect
from server.wire import embeddings as wire
from server.wire import rerank as rerank_wire
from slots.embedding import embed_all
from slots.residency import Residency

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """What a request became: itself, the texts to embed, and how their rows are pooled."""

    request: T
    texts: Sequence[Sequence[int]]
    pooling: Pooling


@dataclass(frozen=True, slots=True)
class Embedded(Generic[T]):
    """A request that was carried out: by whom, and the vector of each text."""

    entry: Entry
    batch: Batch[T]
    vectors: list[FloatArray]

    @property
    def n_tokens(self) -> int:
        return sum(map(len, self.batch.texts))


def pooling_of(settings: Settings, model: Model) -> Pooling:
    """How rows become a vector: as the command line says, else as the model file says."""
    return model.pooling if settings.pooling_type is None else Pooling(settings.pooling_type)


async def embeddings(request: Request) -> Response:
    """`POST /embedding` and `/embeddings`: llama-server's own form."""
    return await _embeddings(request, openai=False)


async def openai_embeddings(request: Request) -> Response:
    """`POST /v1/embeddings`: OpenAI's form."""
    return await _embeddings(request, openai=True)


async def _embeddings(request: Request, *, openai: bool) -> Response:
    settings = settings_of(request)
    if not settings.embeds:
        raise ApiError(501, "This server does not support embeddings. Start it with `--embeddings`")
    body = await read_body(request)

    def build(model: Model) -> Batch[wire.EmbeddingRequest]:
        pooling = pooling_of(settings, model)
        parsed = wire.parse(body.json, model, pooling, settings.embd_normalize, openai=openai)
        return Batch(parsed, parsed.texts, pooling)

    done = await _run(request, body, build)
    parsed, name = done.batch.request, shown_name(settings, done.entry)
    shown = await asyncio.to_thread(lambda: [wire.embedding_json(vector, parsed) for vector in done.vectors])
    receipt = _receipt(residency_of(request), done, body, wire.KNOWN, wire.json_list(shown))
    return _response(wire.answer(parsed, shown, body.json, name), receipt)


async def rerank(request: Request) -> Response:
    """`POST /rerank`: documents in the order in which they fit a query."""
    settings = settings_of(request)
    if not settings.embeds or settings.pooling_type != Pooling.RANK:
        raise ApiError(501, "This server does not support reranking. Start it with `--reranking`")
    body = await read_body(request)
    parsed = await in_turn(request, len(body.raw), rerank_wire.parse, body.json)
    done = await _run(request, body, lambda model: Batch(parsed, rerank_wire.prompts(parsed, model), Pooling.RANK))
    found = rerank_wire.results(parsed, [float(scores[0]) for scores in done.vectors])
    receipt = _receipt(residency_of(request), done, body, rerank_wire.KNOWN, orjson.dumps(found))
    name = shown_name(settings, done.entry)
    return _response(rerank_wire.answer(parsed, found, done.n_tokens, body.json, name), receipt)


async def _run(request: Request, body: Body, build: Callable[[Model], Batch[T]]) -> Embedded[T]:
    """Build what a request asks for, wait for the engine and embed; a client who leaves stops it."""
    residency = residency_of(request)

    def checked(model: Model) -> Batch[T]:
        batch = build(model)
        for text in batch.texts:
            check_input(model, text, batch.pooling)
        return batch

    async def run() -> Embedded[T]:
        async with open_lease(residency, await asked_model(request, body.json), checked) as (lease, batch):
            return Embedded(lease.entry, batch, await embed_all(lease, batch.texts, batch.pooling, wire.SLOT_FORM))

    return await until_disconnect(request, run())


def _receipt(
    residency: Residency, done: Embedded[Any], body: Body, known: Collection[str], answer: bytes
) -> dict[str, Any]:
    ignored = [name for name in body.json if name not in known]
    receipt = Receipt(done.entry, body.raw, residency.options, body.read_ns, ignored)
    receipt.data(answer)
    return receipt.finish(done.n_tokens, 0)


def _response(body: dict[str, Any] | list[dict[str, Any]], receipt: dict[str, Any]) -> Response:
    """The answer with its receipt: in the object or, of a list, in every object of it."""
    for shown in body if isinstance(body, list) else [body]:
        shown["bankml_receipt"] = receipt
    return json_response(body)


routes = [
    *(Route(path, embeddings, methods=["POST"]) for path in ("/embedding", "/embeddings")),
    Route("/v1/embeddings", openai_embeddings, methods=["POST"]),
    *(Route(path, rerank, methods=["POST"]) for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")),
]
