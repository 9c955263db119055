"""Ollama's endpoints about ollama.com: the user's account there, and what its cloud does for a server.

There is none of it here, and ollama.com is not asked: the answers are Ollama's own where nobody is signed in and its
cloud is turned off.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.pins import DEFAULT_MODEL
from server.errors import ApiError, BadRequest
from server.routes.api_names import cloud_disabled
from server.routes.common import json_response
from server.wire.golang import MISSING_BODY

_CLOUD: Final = {"disabled": True, "source": "env"}
"""Of Ollama's sources the one that no client can change."""

_RECOMMENDED: Final = {
    "model": DEFAULT_MODEL.aliases[0],
    "description": "Small enough for any machine, and often wrong",
}


async def status(request: Request) -> Response:
    """`GET /api/status`: whether Ollama's cloud is turned off."""
    return json_response({"cloud": _CLOUD})


async def me(request: Request) -> Response:
    """`POST /api/me`: who is signed in. Nobody; and there is no address to sign in at."""
    await request.body()
    raise ApiError(401, "unauthorized")


async def sign_out(request: Request) -> Response:
    """`POST /api/signout`, and what older clients ask for: nobody is signed in."""
    await request.body()
    raise ApiError(401, "you are not currently signed in")


async def web_search(request: Request) -> Response:
    """`POST /api/experimental/web_search`: refused, for ollama.com would search."""
    return await _refused(request, "web search is unavailable")


async def web_fetch(request: Request) -> Response:
    """`POST /api/experimental/web_fetch`: refused, for ollama.com would fetch."""
    return await _refused(request, "web fetch is unavailable")


async def _refused(request: Request, what: str) -> Response:
    if not (await request.body()).strip():
        raise BadRequest(MISSING_BODY)
    raise cloud_disabled(what)


async def recommendations(request: Request) -> Response:
    """`GET /api/experimental/model-recommendations`: the model that is served unless another is asked for."""
    return json_response({"recommendations": [_RECOMMENDED]})


routes = [
    Route("/api/status", status, methods=["GET"]),
    Route("/api/me", me, methods=["POST"]),
    Route("/api/signout", sign_out, methods=["POST"]),
    Route("/api/user/keys/{key}", sign_out, methods=["DELETE"]),
    Route("/api/experimental/web_search", web_search, methods=["POST"]),
    Route("/api/experimental/web_fetch", web_fetch, methods=["POST"]),
    Route("/api/experimental/model-recommendations", recommendations, methods=["GET"]),
]
