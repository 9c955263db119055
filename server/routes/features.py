"""llama-server's endpoints for features that are not here: each says so as the reference does when its own is off."""

from __future__ import annotations

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.errors import JSON, ApiError, BadRequest
from server.routes.common import json_response, read_body


async def control(request: Request) -> Response:
    """`POST /v1/chat/completions/control`: no answer can be told to end its reasoning."""
    body = (await read_body(request)).json
    answer_id, action = body.get("id"), body.get("action")
    if not isinstance(answer_id, str) or not answer_id:
        raise BadRequest("missing completion id")
    if action != "reasoning_end":
        raise BadRequest("unknown control action")
    return json_response({"success": False, "message": "no active completion for this id"})


async def audio(request: Request) -> Response:
    """`POST /v1/audio/transcriptions`: models are text only."""
    raise ApiError(501, "The current model does not support audio input.")


async def off(request: Request) -> Response:
    """What the web page of llama-server uses: its tools and its proxy."""
    body = orjson.dumps({"error": {"message": "this feature is disabled", "type": "feature_disabled"}})
    return Response(body, status_code=403, media_type=JSON)


async def stream(request: Request) -> Response:
    """`GET` and `DELETE /v1/stream`: streams are not kept, so there is none to go on with, and none to end."""
    if not request.query_params.get("conv_id"):
        raise BadRequest("Missing conversation id in path")
    if request.method == "DELETE":
        return Response(status_code=204, media_type="application/json")
    raise HTTPException(404)


async def lookup(request: Request) -> Response:
    """`POST /v1/streams/lookup`: none of the asked conversations has a stream that is kept."""
    await read_body(request)
    return json_response([])


routes = [
    Route("/v1/chat/completions/control", control, methods=["POST"]),
    *(Route(path, audio, methods=["POST"]) for path in ("/v1/audio/transcriptions", "/audio/transcriptions")),
    *(Route(path, off, methods=["GET", "POST"]) for path in ("/tools", "/cors-proxy")),
    Route("/v1/stream", stream, methods=["GET", "DELETE"]),
    Route("/v1/streams/lookup", lookup, methods=["POST"]),
]
