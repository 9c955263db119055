"""Anthropic's `/v1/messages`, as llama-server answers it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.routes.chat import ChatRun, answer_chat
from server.routes.common import in_turn, read_body
from server.wire import anthropic


async def messages(request: Request) -> Response:
    """`POST /v1/messages`, whole or streamed."""
    body = await read_body(request)
    converted, ignored = await in_turn(request, len(body.raw), anthropic.chat_request, body.json)
    chat = await ChatRun.of(request, body, converted, ignored)
    return await answer_chat(request, chat, anthropic.message_body, anthropic.MessageEvents, error_event="error")


routes = [Route("/v1/messages", messages, methods=["POST"])]
