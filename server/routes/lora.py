"""`/lora-adapters`: there are none."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.errors import ApiError, BadRequest
from server.routes.common import json_response, parse_json


async def adapters(request: Request) -> Response:
    """`GET /lora-adapters`: the adapters that are loaded, as llama-server lists them when there are none."""
    return json_response([])


async def scale_adapters(request: Request) -> Response:
    """`POST /lora-adapters`: refused, for nothing would follow from it."""
    if not isinstance(parse_json(await request.body()), list):
        raise BadRequest("Request body must be an array")
    raise ApiError(501, "LoRA adapters are not supported: none is loaded that could be scaled")


routes = [
    Route("/lora-adapters", adapters, methods=["GET"]),
    Route("/lora-adapters", scale_adapters, methods=["POST"]),
]
