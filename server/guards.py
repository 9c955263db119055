"""The doors of the server: who may ask, for which host, with what kind of body and how long a one.

Pure ASGI, in front of the routes. Each refusal is llama-server's error object (Ollama's under `/api`).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Sequence

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import JSON, BodyTooSlow, PayloadTooLarge, door_body
from server.streams import ServerStopping

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request's body at most."""

READ_TIMEOUT = 30.0
"""Seconds within which the next piece of a request's body must come."""

PUBLIC = frozenset({"/health", "/v1/health", "/"})
"""Paths that need no API key, as in llama-server."""


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` is reachable from this machine only."""
    if host.lower() == "localhost" or host.endswith(".sock"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def names_loopback(host_header: str) -> bool:
    """Whether a Host header names this machine: 127.0.0.1, localhost or [::1], with any port."""
    name, separator, port = host_header.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()):
        name = host_header
    return name.lower() in ("127.0.0.1", "localhost", "[::1]")


def _refusal(scope: Scope, status: int, message: str) -> Response:
    body = orjson.dumps({"error": message}) if scope["path"].startswith("/api/") else door_body(status, message)
    return Response(body, status_code=status, media_type=JSON)


class Guards:
    """The doors, one after another: Host, API key, kind of body, length of body.

    Args:
        app: what lies behind them.
        hosts: the addresses the server is bound to. When all are loopback ones, the Host header must
            name this machine too, so that a web page cannot reach the server through a name of its own.
        api_keys: keys that open the door; none means no key is needed.
        max_body: bytes.
        read_timeout: seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        api_keys: Sequence[str] = (),
        max_body: int = MAX_BODY,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self.app = app
        self.loopback_only = all(map(is_loopback, hosts))
        self.api_keys = tuple(key.encode("utf-8", "surrogateescape") for key in api_keys)
        self.max_body = max_body
        self.read_timeout = read_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refuse(scope, Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self.app(scope, self._limited(receive), send)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        if self.loopback_only and not names_loopback(headers.get("host", "")):
            return _refusal(scope, 403, "Host must be 127.0.0.1, localhost or [::1]")
        if self.api_keys and scope["path"] not in PUBLIC and not self._has_key(headers):
            return _refusal(scope, 401, "Invalid API Key")
        if (
            scope["method"] == "POST"
            and not _is_json(headers.get("content-type", ""))
            and _must_be_json(scope, headers)
        ):
            return _refusal(scope, 415, "Content-Type must be application/json")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self.max_body:
            return _refusal(scope, 413, PayloadTooLarge(self.max_body).message)
        return None

    def _has_key(self, headers: Headers) -> bool:
        """llama-server's rule: `Authorization`, else `X-Api-Key`, with or without `Bearer ` in front."""
        given = headers.get("authorization") or headers.get("x-api-key") or ""
        key = given.removeprefix("Bearer ").encode("utf-8", "surrogateescape")
        matches = [hmac.compare_digest(key, known) for known in self.api_keys]  # all of them, whichever matches
        return any(matches)

    def _limited(self, receive: Receive) -> Receive:
        """`receive`, watching the body: one that grows past the limit or stops coming raises where it is read."""
        n_read = 0
        reading = True

        async def counted() -> Message:
            nonlocal n_read, reading
            if not reading:
                return await receive()
            try:
                async with asyncio.timeout(self.read_timeout):
                    message = await receive()
            except TimeoutError:
                raise BodyTooSlow(self.read_timeout) from None
            except asyncio.CancelledError:  # by uvicorn, whose time to stop has come
                raise ServerStopping from None
            reading = message["type"] == "http.request" and message.get("more_body", False)
            n_read += len(message.get("body", b""))
            if n_read > self.max_body:
                raise PayloadTooLarge(self.max_body)
            return message

        return counted


def _must_be_json(scope: Scope, headers: Headers) -> bool:
    """Whether a body must say that it is JSON: always, but for `curl -d` on Ollama's API, as its users type it.

    None at all need not, for `curl -X POST` on a slot. A browser sends both to any address without asking first, and
    always says where it comes from.
    """
    from_browser = any(name in headers for name in ("origin", "referer", "sec-fetch-site"))
    empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    return from_browser or not (empty or scope["path"].startswith("/api/"))


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
