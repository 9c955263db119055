"""The doors of the server: who may ask, for which host, with what kind of body and how long a one.

Pure ASGI, in front of the routes. Each refusal is llama-server's error object (Ollama's under `/api`).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import math
from collections.abc import Sequence

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import JSON, BodyTooSlow, PayloadTooLarge, TooManyBodies, door_body
from server.streams import ServerStopping

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request's body at most."""

READ_TIMEOUT = 30.0
"""Seconds within which the next piece of a request's body must come."""

BODY_SECONDS = 120.0
"""Seconds within which all of it must come."""

MAX_BODIES = 256 * 1024 * 1024
"""Bytes of all bodies together whose requests are not answered yet."""

UPLOADS = "/api/blobs/"
"""Where bodies are files: they go to the disk as they come, and what limits them is the disk."""

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
        max_body: bytes of a body.
        max_bodies: bytes of all bodies together.
        read_timeout: seconds for a piece of a body.
        body_seconds: seconds for all of it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        api_keys: Sequence[str] = (),
        max_body: int = MAX_BODY,
        max_bodies: int = MAX_BODIES,
        read_timeout: float = READ_TIMEOUT,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self.app = app
        self.loopback_only = all(map(is_loopback, hosts))
        self.api_keys = tuple(key.encode("utf-8", "surrogateescape") for key in api_keys)
        self.max_body = max_body
        self.max_bodies = max_bodies
        self.read_timeout = read_timeout
        self.body_seconds = body_seconds
        self.n_held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refuse(scope, Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = _Body(self, receive, unlimited=scope["path"].startswith(UPLOADS))
        try:
            await self.app(scope, body.receive, send)
        finally:
            self.n_held -= body.n_read

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
        length = "" if scope["path"].startswith(UPLOADS) else headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self.max_body:
            return _refusal(scope, 413, PayloadTooLarge(self.max_body).message)
        return None

    def _has_key(self, headers: Headers) -> bool:
        """llama-server's rule: `Authorization`, else `X-Api-Key`, with or without `Bearer ` in front."""
        given = headers.get("authorization") or headers.get("x-api-key") or ""
        key = given.removeprefix("Bearer ").encode("latin-1")  # the bytes that were sent
        matches = [hmac.compare_digest(key, known) for known in self.api_keys]  # all of them, whichever matches
        return any(matches)


class _Body:
    """A request's body on its way in: one that grows past a limit or comes too slowly raises where it is read.

    An unlimited one may be of any length and take any time, as long as it comes.
    """

    def __init__(self, doors: Guards, receive: Receive, *, unlimited: bool = False) -> None:
        self._doors = doors
        self._receive = receive
        self._reading = True
        self._unlimited = unlimited
        self._ends_at = math.inf if unlimited else asyncio.get_running_loop().time() + doors.body_seconds
        self.n_read = 0

    async def receive(self) -> Message:
        """The next message, as the server gives it."""
        if not self._reading:
            return await self._receive()
        message = await self._next()
        self._reading = message["type"] == "http.request" and message.get("more_body", False)
        if self._unlimited:
            return message
        n_bytes = len(message.get("body", b""))
        self.n_read += n_bytes
        self._doors.n_held += n_bytes
        if self.n_read > self._doors.max_body:
            raise PayloadTooLarge(self._doors.max_body)
        if self._doors.n_held > self._doors.max_bodies:
            raise TooManyBodies
        return message

    async def _next(self) -> Message:
        stalled_at = asyncio.get_running_loop().time() + self._doors.read_timeout
        try:
            async with asyncio.timeout_at(min(stalled_at, self._ends_at)):
                return await self._receive()
        except TimeoutError:
            if stalled_at <= self._ends_at:
                raise BodyTooSlow(f"the request body stopped for {self._doors.read_timeout:g} seconds") from None
            raise BodyTooSlow(f"the request body took more than {self._doors.body_seconds:g} seconds") from None
        except asyncio.CancelledError:  # by uvicorn, whose time to stop has come
            raise ServerStopping from None


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
