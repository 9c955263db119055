"""Ollama's endpoints that move models between registries and the folder: `/api/pull` and `/api/push`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.derived import Layer
from registry.errors import RegistryError
from registry.headers import look
from registry.transfer.ticks import Progress
from server.errors import ApiError
from server.routes.api_progress import Steps, progress_response
from server.routes.common import folder_of, parsed, residency_of, settings_of
from server.wire import ollama_transfers as wire
from server.wire.ollama_models import details
from server.wire.ollama_transfers import Transfer

if TYPE_CHECKING:
    from registry.transfer.pull import Puller

Lines = AsyncGenerator[Progress, None]


async def pull(request: Request) -> Response:
    """`POST /api/pull`: a model out of a registry. Cut off, it goes on where it stopped when asked for again."""
    asked = await parsed(request, wire.parse_pull)
    return await _response(request, asked, puller_of(request).pull(asked.name, insecure=asked.insecure))


def puller_of(request: Request) -> Puller:
    """What pulls into the folder; one for all requests, since pulls of the same blobs share them.

    Raises:
        BadRequest: no folder is served.
        ApiError: the server is not to use the network.
    """
    folder = folder_of(request)
    _require_network(request)
    from registry.transfer.pull import Puller  # slow: httpx is not needed before

    state = request.app.state
    if not hasattr(state, "puller"):
        state.puller = Puller(folder, check=wire.check_layer)
    puller: Puller = state.puller
    return puller


async def push(request: Request) -> Response:
    """`POST /api/push`: a model into the registry that its name names."""
    asked = await parsed(request, wire.parse_push)
    folder_of(request)
    _require_network(request)
    return await _response(request, asked, _pushed(request, asked))


def _require_network(request: Request) -> None:
    if settings_of(request).offline:
        text = f"the server was started with --offline, which forbids {request.url.path} to use the network"
        raise ApiError(403, text)


async def _pushed(request: Request, asked: Transfer) -> Lines:
    from registry.transfer.push import Outgoing, push

    yield Progress("retrieving manifest")
    residency, folder = residency_of(request), folder_of(request)
    try:
        name = await asyncio.to_thread(folder.existing_name, asked.name)
        entry = await residency.catalog.find(name.shown)
        header, reason = await asyncio.to_thread(look, entry, residency.options)
        if header is None:
            raise ApiError(400, f"model '{entry.shown}' cannot be pushed: {reason}")
    except (RegistryError, ApiError):
        yield Progress("couldn't retrieve manifest")
        raise
    layer = entry.layer or Layer(base_sha256=entry.sha256)
    template = None
    if layer.template_sha256 is not None and folder.has_blob(layer.template_sha256):
        template = await asyncio.to_thread(folder.blob_path(layer.template_sha256).read_bytes)
    model = Outgoing(entry.path, layer, template, wire.config_of(details(header), layer))
    async with aclosing(push(name, model, insecure=asked.insecure)) as lines:
        async for line in lines:
            yield line


async def _response(request: Request, asked: Transfer, lines: Lines) -> Response:
    """The progress as Ollama shows it, which says 500 of whatever fails."""

    async def steps() -> Steps:
        async with aclosing(lines):
            async for line in lines:
                yield wire.line(line)

    return await progress_response(request, steps(), stream=asked.stream, failed=500)


routes = [
    Route("/api/pull", pull, methods=["POST"]),
    Route("/api/push", push, methods=["POST"]),
]
