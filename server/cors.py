"""Which web pages may call the server: those of the listed origins, and no others."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import JSON, door_body


class Origins(CORSMiddleware):
    """Lets pages of the listed origins, letter for letter, use every method and header, from a public page too, but
    without credentials that the browser holds. A preflight from elsewhere is a 403.

    Args:
        app: what lies behind.
        allow_origins: the origins, such as `https://example.com`.
    """

    def __init__(self, app: ASGIApp, allow_origins: Collection[str] = ()) -> None:
        methods = ("GET", "HEAD", "POST", "DELETE")
        super().__init__(app, allow_origins, methods, allow_headers=("*",), allow_private_network=True)

    def preflight_response(self, request_headers: Headers) -> Response:
        """The answer to a browser that asks whether a page may call."""
        if not self.is_allowed_origin(request_headers["origin"]):
            return Response(door_body(403, "this origin is not in --allow-origin"), 403, media_type=JSON)
        return super().preflight_response(request_headers)

    async def simple_response(self, scope: Scope, receive: Receive, send: Send, request_headers: Headers) -> None:
        """Any other request; where nothing is listed, answers depend on no origin and say nothing of it."""
        if self.allow_origins:
            await super().simple_response(scope, receive, send, request_headers)
        else:
            await self.app(scope, receive, send)
