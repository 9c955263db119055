"""Ollama's endpoints that make models: `/api/create`, and `/api/blobs/:digest` for the files they are made of."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.blobs import BlobWriter
from registry.creation import Creator
from registry.names import ModelName
from server.errors import ApiError
from server.routes.api_progress import Steps, progress_response
from server.routes.api_transfers import puller_of
from server.routes.common import folder_of, parsed, residency_of
from server.streams import unless_set
from server.wire.ollama_create import CreateRequest, parse_create
from server.wire.ollama_transfers import line

_PIECE: Final = 1 << 20
"""Bytes of an upload that are hashed and written in one go, away from the event loop."""


async def create(request: Request) -> Response:
    """`POST /api/create`: a model out of another one, or out of blobs."""
    asked = await parsed(request, parse_create)
    folder_of(request)
    return await progress_response(request, _steps(request, asked), stream=asked.stream)


async def head_blob(request: Request) -> Response:
    """`HEAD /api/blobs/:digest`: whether the blob is here."""
    digest = request.path_params["digest"]
    if not await asyncio.to_thread(folder_of(request).has_blob, digest):
        raise ApiError(404, f'blob "{digest}" not found')
    return Response()


async def post_blob(request: Request) -> Response:
    """`POST /api/blobs/:digest`: the body becomes a blob, once it is whole and has this digest."""
    folder, digest = folder_of(request), request.path_params["digest"]
    if await asyncio.to_thread(folder.has_blob, digest):
        return Response()
    await asyncio.to_thread(folder.require_space, int(request.headers.get("content-length", 0)))
    with await asyncio.to_thread(folder.blob_writer, digest) as writer:
        await unless_set(residency_of(request).interrupted, _receive(request, writer))
        await asyncio.to_thread(writer.commit)
    return Response(status_code=201)


async def _receive(request: Request, writer: BlobWriter) -> None:
    """Writes the body as it comes."""
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= _PIECE:
            await asyncio.to_thread(writer.write, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(writer.write, bytes(waiting))


async def _steps(request: Request, asked: CreateRequest) -> Steps:
    """The progress objects of a create."""
    for warning in asked.warnings:
        yield {"status": warning}
    residency = residency_of(request)

    async def pull(name: ModelName) -> Steps:
        async with aclosing(puller_of(request).pull(name)) as lines:
            async for progress in lines:
                yield line(progress)

    async with aclosing(Creator(residency.catalog, residency.options, pull).create(asked.recipe)) as steps:
        async for step in steps:
            yield step


routes = [
    Route("/api/create", create, methods=["POST"]),
    Route("/api/blobs/{digest}", head_blob, methods=["HEAD"]),
    Route("/api/blobs/{digest}", post_blob, methods=["POST"]),
]
