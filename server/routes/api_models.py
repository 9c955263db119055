"""Ollama's endpoints about the server and its models: what there is, what is loaded, copying and deleting."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.catalog import Catalog, Entry
from registry.errors import ModelNotFound
from registry.folder import ModelFolder
from registry.headers import Header, look
from registry.names import ModelName, split_source
from server.errors import ApiError, BadRequest
from server.receipts import VERSION
from server.routes.api_names import DETAILS, entry_for
from server.routes.common import folder_of, json_response, parsed, residency_of
from server.wire import ollama_models
from server.wire.golang import quote
from server.wire.ollama_models import described, listed, running


async def version(request: Request) -> Response:
    """`GET /api/version`."""
    return json_response({"version": VERSION, "bankml": True})


async def tags(request: Request) -> Response:
    """`GET /api/tags`: every model of the catalog, the newest first, with the reason where one cannot be
    played."""
    residency = residency_of(request)

    def models() -> list[dict[str, Any]]:
        entries = sorted(residency.catalog.entries(), key=lambda entry: entry.modified_at, reverse=True)
        return [listed(entry, *look(entry, residency.options)) for entry in entries]

    return json_response({"models": await asyncio.to_thread(models)})


async def ps(request: Request) -> Response:
    """`GET /api/ps`: the resident model, under the name of the model whose request loaded it; once that is removed,
    under that of another one with its weights, their own file's first."""
    residency = residency_of(request)
    resident = residency.current()
    if resident is None:
        return json_response({"models": []})

    def seen() -> tuple[Entry, Header | None]:
        entry = residency.catalog.still(resident.shown or resident.entry)
        return entry, look(entry, residency.options)[0]

    entry, header = await asyncio.to_thread(seen)
    n_ctx = resident.shown_n_ctx or resident.model.n_ctx
    model = running(entry, header, n_ctx=n_ctx, expires_at=resident.expires_at, now=time.time())
    return json_response({"models": [model]})


async def show(request: Request) -> Response:
    """`POST /api/show`: one model's details, template and metadata."""
    asked = await parsed(request, ollama_models.parse_show)
    residency = residency_of(request)
    try:
        entry = await entry_for(residency, asked.model, DETAILS)
    except ModelNotFound:
        raise ModelNotFound(ModelName.parse(split_source(asked.model)[0]).shown) from None
    entry.require_usable()
    resident = residency.current()
    n_ctx = resident.model.n_ctx if resident is not None and resident.entry.same_weights(entry) else None

    def answer() -> Response:
        header, reason = look(entry, residency.options, arrays=asked.verbose)
        if header is None:
            raise BadRequest(str(reason))
        return json_response(described(entry, header, asked, n_ctx=n_ctx))

    return await asyncio.to_thread(answer)  # with its arrays a header is megabytes


async def copy(request: Request) -> Response:
    """`POST /api/copy`: a derived model under another name; of a file, an empty layer over it."""
    source, destination, written = await parsed(request, ollama_models.parse_copy)
    folder = folder_of(request)
    await asyncio.to_thread(_copy, residency_of(request).catalog, folder, source, destination, written)
    return Response()


def _copy(catalog: Catalog, folder: ModelFolder, source: ModelName, destination: ModelName, written: str) -> None:
    name = folder.existing_name(destination)
    if folder.existing_name(source).full == name.full:
        return  # whether it is there or not, as in Ollama
    try:
        entry = catalog.resolve(written)
    except ModelNotFound:
        raise ApiError(404, f"model {quote(written)} not found") from None
    if source == destination:
        return
    entry.require_usable()
    if catalog.file_named(destination.shown) is not None:
        raise BadRequest(f"{destination.shown} is a model file: another model cannot have its name")
    folder.write(entry.as_derived(name, datetime.now(UTC)))


async def delete(request: Request) -> Response:
    """`DELETE /api/delete`: a derived or pulled model; weights that no other model uses go with it, out of memory, too.

    A file that is pinned, or was given on the command line, stays; so does the default model's in the cache.
    """
    name, written = await parsed(request, ollama_models.parse_delete)
    residency = residency_of(request)
    try:
        entry = await residency.catalog.find(written)
    except ModelNotFound:
        raise ApiError(404, f"model '{written}' not found") from None
    if not entry.derived:
        raise BadRequest(f"'{written}' is a model file, which is not deleted over HTTP: remove it and its pin by hand")
    await asyncio.to_thread(folder_of(request).delete, name)
    resident = residency.current()
    if resident is not None and not await asyncio.to_thread(_is_known, residency.catalog, resident.entry):
        await residency.unload(resident.entry)
    return Response()


def _is_known(catalog: Catalog, loaded: Entry) -> bool:
    """Whether some model still has the weights of one that was loaded."""
    return loaded.found and any(entry.same_weights(loaded) for entry in catalog.entries())


routes = [
    Route("/api/version", version, methods=["GET"]),
    Route("/api/tags", tags, methods=["GET"]),
    Route("/api/ps", ps, methods=["GET"]),
    Route("/api/show", show, methods=["POST"]),
    Route("/api/copy", copy, methods=["POST"]),
    Route("/api/delete", delete, methods=["DELETE"]),
]
