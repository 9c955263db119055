"""Ollama's endpoints about the server and its models: `/api/version`, `/api/tags`, `/api/ps` and `/api/show`."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.headers import look
from server.errors import BadRequest, NotSupported
from server.receipts import VERSION
from server.routes.common import json_response, parsed, residency_of
from server.wire import ollama
from server.wire.ollama_models import described, listed, running

NOT_BUILT: Final = ("copy",)
"""Ollama's other endpoints, refused by name."""


async def version(request: Request) -> Response:
    """`GET /api/version`."""
    return json_response({"version": VERSION, "bankml": True})


async def tags(request: Request) -> Response:
    """`GET /api/tags`: every model of the catalog, with the reason where one cannot be played."""
    residency = residency_of(request)

    def models() -> list[dict[str, Any]]:
        entries = residency.catalog.entries()
        return [listed(entry, *look(entry, residency.options)) for entry in entries]

    return json_response({"models": await asyncio.to_thread(models)})


async def ps(request: Request) -> Response:
    """`GET /api/ps`: the resident model, under the name of the model whose request loaded it."""
    residency = residency_of(request)
    resident = residency.current()
    if resident is None:
        return json_response({"models": []})
    entry = resident.shown or resident.entry
    header, _ = await asyncio.to_thread(look, entry, residency.options)
    n_ctx = resident.shown_n_ctx or resident.model.n_ctx
    model = running(entry, header, n_ctx=n_ctx, expires_at=resident.expires_at, now=time.time())
    return json_response({"models": [model]})


async def show(request: Request) -> Response:
    """`POST /api/show`: one model's details, template and metadata."""
    name, verbose = parsed(ollama.parse_show, await request.body())
    residency = residency_of(request)
    entry = residency.catalog.resolve(name)
    entry.require_usable()
    header, reason = await asyncio.to_thread(look, entry, residency.options, arrays=verbose)
    if header is None:
        raise BadRequest(str(reason))
    resident = residency.current()
    n_ctx = resident.model.n_ctx if resident is not None and resident.entry.same_weights(entry) else None
    return json_response(described(entry, header, n_ctx=n_ctx, verbose=verbose))


def _refusing(path: str, method: str) -> Route:
    async def refuse(request: Request) -> Response:
        raise NotSupported(path)

    return Route(path, refuse, methods=[method])


routes = [
    Route("/api/version", version, methods=["GET"]),
    Route("/api/tags", tags, methods=["GET"]),
    Route("/api/ps", ps, methods=["GET"]),
    Route("/api/show", show, methods=["POST"]),
    *(_refusing(f"/api/{name}", "POST") for name in NOT_BUILT),
    _refusing("/api/delete", "DELETE"),
]
