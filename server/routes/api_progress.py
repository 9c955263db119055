"""How Ollama's endpoints that take long say how far they are: a line for each step, or the last one alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from server.errors import ApiError, as_api_error, log_failure
from server.routes.common import json_response, residency_of
from server.streams import NDJSON, EventStream, ServerStopping, ndjson, until_disconnect, until_set
from server.wire.ollama_answers import error as error_line

Steps = AsyncGenerator[Mapping[str, Any], None]
"""Progress objects, as they come."""


async def progress_response(request: Request, steps: Steps, *, stream: bool, failed: int | None = None) -> Response:
    """The answer that `steps` are. They end early when the client leaves, and when the server stops.

    Args:
        steps: closed in the end. What fails before the first one is an ordinary error answer.
        stream: NDJSON lines, the last of which is what fails; else one object.
        failed: without a stream, the status of whatever fails; None for each error's own.
    """
    steps = until_set(residency_of(request).interrupted, steps)
    if stream:
        return EventStream(_lines(steps, request.url.path), NDJSON)
    return json_response(await until_disconnect(request, _last(steps, request.url.path, failed)))


async def _lines(steps: Steps, path: str) -> AsyncGenerator[bytes, None]:
    began = False
    async with aclosing(steps):
        try:
            async for step in steps:
                yield ndjson(step)
                began = True
        except Exception as error:
            if not began:
                raise
            log_failure(path, error)
            yield ndjson(error_line(as_api_error(error).message))


async def _last(steps: Steps, path: str, failed: int | None) -> Mapping[str, Any]:
    last: Mapping[str, Any] = {}
    async with aclosing(steps):
        try:
            async for step in steps:
                last = step
        except ServerStopping:
            raise
        except Exception as error:
            if failed is None:
                raise
            log_failure(path, error)
            raise ApiError(failed, as_api_error(error).message) from error
    return last
