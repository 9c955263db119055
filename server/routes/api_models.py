"""Ollama's endpoints about the server and its models: `/api/version`, `/api/tags`, `/api/ps` and `/api/show`."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import EngineError
from engine.gguf import GGUFFile
from registry.catalog import Entry
from registry.errors import RegistryError
from registry.pins import FileIdentity
from server.errors import NotSupported
from server.receipts import VERSION
from server.routes.common import json_response, parsed, residency_of
from server.wire import ollama
from server.wire.ollama_models import Header, described, listed, plain, running

NOT_BUILT: Final = ("embed", "embeddings", "pull", "push", "create", "copy", "blobs/{digest}")
"""Ollama's other endpoints, refused by name."""


async def version(request: Request) -> Response:
    """`GET /api/version`."""
    return json_response({"version": VERSION, "bankml": True})


async def tags(request: Request) -> Response:
    """`GET /api/tags`: every model of the catalog, with the reason where one cannot be played."""

    def models() -> list[dict[str, Any]]:
        return [listed(entry, *_header_or_reason(entry)) for entry in residency_of(request).catalog.entries()]

    return json_response({"models": await asyncio.to_thread(models)})


async def ps(request: Request) -> Response:
    """`GET /api/ps`: the resident model."""
    resident = residency_of(request).current()
    if resident is None:
        return json_response({"models": []})
    header, _ = await asyncio.to_thread(_header_or_reason, resident.entry)
    now = time.time()
    model = running(resident.entry, header, n_ctx=resident.model.n_ctx, expires_at=resident.expires_at, now=now)
    return json_response({"models": [model]})


async def show(request: Request) -> Response:
    """`POST /api/show`: one model's details, template and metadata."""
    name, verbose = parsed(ollama.parse_show, await request.body())
    residency = residency_of(request)
    entry = residency.catalog.resolve(name)
    header = await asyncio.to_thread(_read_header, entry.path, FileIdentity.of(entry.path), verbose)
    resident = residency.current()
    n_ctx = resident.model.n_ctx if resident is not None and resident.entry == entry else None
    return json_response(described(entry, header, n_ctx=n_ctx, verbose=verbose))


def _header_or_reason(entry: Entry) -> tuple[Header | None, str | None]:
    """A model's header, or why it has none."""
    try:
        return _read_header(entry.path, FileIdentity.of(entry.path), False), None
    except (RegistryError, EngineError) as error:
        return None, str(error)


@lru_cache(maxsize=64)
def _read_header(path: Path, identity: FileIdentity, verbose: bool) -> Header:
    """A file's header; its arrays are null unless `verbose`. `identity` makes another state of the file another entry.

    Raises:
        InvalidModelFile: it is not one.
    """
    with GGUFFile.open(path) as file:
        metadata = {name: plain(value, arrays=verbose) for name, value in file.metadata.items()}
        tensors = tuple((info.name, info.type.name, info.shape) for info in file.tensors.values())
    return Header(metadata, sum(prod(shape) for _, _, shape in tensors), tensors)


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
