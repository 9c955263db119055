"""How many tokens a request's prompt has: `/v1/chat/completions/input_tokens` and its likes. Nothing is generated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.routes.chat import ChatRun
from server.routes.common import Body, in_turn, json_response, model_for, read_body
from server.wire import anthropic, openai, responses

OBJECT: Final = {"object": "response.input_tokens"}
"""What OpenAI's answers have besides the number."""


async def chat(request: Request) -> Response:
    """`POST /v1/chat/completions/input_tokens`."""
    body = await read_body(request)
    return json_response(await _counted(request, body, body.json) | OBJECT)


async def response(request: Request) -> Response:
    """`POST /v1/responses/input_tokens`."""
    body = await read_body(request)
    converted, _ = await in_turn(request, len(body.raw), responses.chat_request, body.json)
    return json_response(await _counted(request, body, converted) | OBJECT)


async def message(request: Request) -> Response:
    """`POST /v1/messages/count_tokens`."""
    body = await read_body(request)
    converted, _ = await in_turn(request, len(body.raw), anthropic.chat_request, body.json)
    return json_response(await _counted(request, body, converted))


async def _counted(request: Request, body: Body, chat: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of a chat request's prompt. Only the fields that make the prompt are looked at."""
    talk = await ChatRun.of(request, body, openai.for_prompt(chat))
    model = await model_for(request, body.json)
    _, tokens = await asyncio.to_thread(talk.prompt_for, model)
    return {"input_tokens": len(tokens)}


routes = [
    *(Route(f"{path}/input_tokens", chat, methods=["POST"]) for path in ("/v1/chat/completions", "/chat/completions")),
    *(Route(f"{path}/input_tokens", response, methods=["POST"]) for path in ("/v1/responses", "/responses")),
    Route("/v1/messages/count_tokens", message, methods=["POST"]),
]
