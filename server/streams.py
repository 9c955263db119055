"""From an answer's events to bytes on the wire: server-sent events and newline-delimited JSON, and who still listens.

The writers are pure: objects in, bytes out. `EventStream` and `until_disconnect` are the only places where a client's
leaving is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.json_bytes import json_bytes

T = TypeVar("T")

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"

DONE = b"data: [DONE]\n\n"
"""How OpenAI's streams end."""

PING = b":\n\n"
"""A comment that keeps a silent stream's connection open, as llama-server sends it."""


class ClientDisconnected(Exception):
    """The client has left; nobody is there to read an answer."""


class ServerStopping(Exception):
    """The server ends before the answer does."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


def sse(event: object, name: str = "") -> bytes:
    """One server-sent event with `event` as JSON: `data: {...}` and a blank line, behind its name if it has one."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + json_bytes(event) + b"\n\n"


def ndjson(event: object) -> bytes:
    """One line of newline-delimited JSON."""
    return json_bytes(event) + b"\n"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _watched(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; if the client leaves first, cancel it, wait for its end and raise `ClientDisconnected`.

    Who cancels the request itself is the HTTP server when its time to stop has come: `ServerStopping`.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    except asyncio.CancelledError:
        raise ServerStopping from None
    finally:
        watch.cancel()
        task.cancel()
        while not task.done():
            await asyncio.wait({task})


async def until_set(stop: asyncio.Event, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The items as they come, until `stop` is set: what makes them is cancelled then, and closed.

    Raises:
        ServerStopping: it was set before the last one.
    """
    stopping = asyncio.ensure_future(stop.wait())
    try:
        async with aclosing(items):
            while True:
                item = asyncio.ensure_future(_next(items))
                try:
                    await asyncio.wait({item, stopping}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if cut := not item.done():
                        item.cancel()
                        await asyncio.wait({item})
                if cut:
                    raise ServerStopping
                try:
                    made = item.result()
                except StopAsyncIteration:
                    return
                yield made
    finally:
        stopping.cancel()


async def unless_set(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as `stop` is set.

    Raises:
        ServerStopping: it was set first; `work` has ended by then.
    """
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ServerStopping
        return task.result()
    finally:
        stopping.cancel()
        task.cancel()
        while not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # what the cancellation made of it is told as the stop that it was


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


async def until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client leaves.

    The request's body must have been read.

    Raises:
        ClientDisconnected: the client left first; `work` has ended by then.
        ServerStopping: the server ends first; likewise.
    """
    return await _watched(request.receive, work)


class EventStream(Response):
    """A response whose body comes from a generator of bytes, which is closed as soon as the client leaves.

    The generator's first item opens the response; what it raises before that becomes an ordinary error answer, with
    its status. It may yield `b""` first, to send the headers before the first event is there.

    Args:
        chunks: the body, in pieces, each sent at once.
        media_type: `SSE` or `NDJSON`.
        ping: seconds of silence after which a comment is sent (server-sent events only); 0 or less never.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        media_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        ping: float = 0,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.begun = False
        self.chunks = chunks
        self.ping = ping
        # given as a header, the content type stays as it is; proxies must not collect a stream before passing it on
        self.init_headers({"content-type": media_type, "x-accel-buffering": "no", **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _watched(receive, self._send_all(send))
        except ClientDisconnected:
            return
        except ServerStopping:
            if not self.begun:
                raise
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        pinger: asyncio.Task[None] | None = None

        async def ping_when_silent() -> None:
            while True:
                await asyncio.sleep(max(0.0, last + self.ping - loop.time()))
                if loop.time() - last >= self.ping:
                    await write(PING)

        async def write(chunk: bytes) -> None:
            nonlocal last
            last = loop.time()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

        try:
            async with aclosing(self.chunks):
                async for chunk in self.chunks:
                    if pinger is None:
                        self.begun = True
                        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                        pinger = loop.create_task(ping_when_silent() if self.ping > 0 else asyncio.sleep(0))
                    if chunk:
                        await write(chunk)
        finally:
            if pinger is not None:
                pinger.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
