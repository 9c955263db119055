"""OpenAI's `/v1/responses`, as llama-server answers it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.routes.chat import ChatRun, answer_chat
from server.routes.common import in_turn, read_body
from server.wire.responses import ResponseEvents, chat_request, response_body


async def responses(request: Request) -> Response:
    """`POST /v1/responses`, whole or streamed."""
    body = await read_body(request)
    converted, ignored = await in_turn(request, len(body.raw), chat_request, body.json)
    chat = await ChatRun.of(request, body, converted, ignored)
    return await answer_chat(request, chat, response_body, ResponseEvents)


routes = [Route(path, responses, methods=["POST"]) for path in ("/v1/responses", "/responses")]
