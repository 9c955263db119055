"""Events to bytes, and what a client's leaving does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.types import Message

from server.streams import NDJSON, PING, SSE, ClientDisconnected, EventStream, ServerStopping, ndjson, sse
from server.streams import _watched as watched

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


class Wire:
    """The two ends an ASGI server gives an application; `leave` is the client's hanging up."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.left = asyncio.Event()
        self.pinged = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if self.body.count(PING) == 2:
            self.pinged.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def test_a_server_sent_event_is_one_data_line_and_a_blank_one() -> None:
    assert sse({"a": "b\nc", "d": None}) == b'data: {"a":"b\\nc","d":null}\n\n'
    assert sse({"text": "é🦙"}) == 'data: {"text":"é🦙"}\n\n'.encode()


def test_a_line_of_ndjson_is_one_line() -> None:
    assert ndjson({"a": "b\nc"}) == b'{"a":"b\\nc"}\n'


async def test_a_stream_sends_each_chunk_and_ends() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b""
        yield b"one"
        yield b"two"

    wire = Wire()
    await EventStream(chunks(), SSE)(SCOPE, wire.receive, wire.send)
    assert [message["type"] for message in wire.sent] == ["http.response.start", *["http.response.body"] * 3]
    assert [message.get("body") for message in wire.sent[1:]] == [b"one", b"two", b""]
    assert [message["more_body"] for message in wire.sent[1:]] == [True, True, False]


@pytest.mark.parametrize("kind", [SSE, NDJSON])
async def test_the_content_type_stands_as_it_is_and_proxies_do_not_buffer(kind: str) -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"x"

    wire = Wire()
    await EventStream(chunks(), kind)(SCOPE, wire.receive, wire.send)
    assert wire.sent[0]["headers"] == [(b"content-type", kind.encode()), (b"x-accel-buffering", b"no")]


async def test_an_error_before_the_first_chunk_sends_nothing() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        raise ValueError("refused")
        yield b""

    wire = Wire()
    with pytest.raises(ValueError, match="refused"):
        await EventStream(chunks(), SSE)(SCOPE, wire.receive, wire.send)
    assert wire.sent == []


async def test_a_client_who_leaves_closes_the_generator() -> None:
    closed = asyncio.Event()
    wire = Wire()

    async def chunks() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            wire.left.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    await EventStream(chunks(), SSE)(SCOPE, wire.receive, wire.send)
    assert closed.is_set()
    assert wire.body == b"one"


async def test_a_silent_stream_is_kept_open_by_comments() -> None:
    wire = Wire()

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b""
        await wire.pinged.wait()
        yield b"data: x\n\n"

    await EventStream(chunks(), SSE, ping=0.02)(SCOPE, wire.receive, wire.send)
    assert wire.body.startswith(PING + PING)
    assert wire.body.endswith(b"data: x\n\n")


async def test_work_is_cancelled_and_waited_for_when_the_client_leaves() -> None:
    wire = Wire()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            wire.left.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    with pytest.raises(ClientDisconnected):
        await watched(wire.receive, work())
    assert ended.is_set()


async def test_work_cut_short_by_the_servers_end_is_waited_for_and_said_so() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    request = asyncio.create_task(watched(Wire().receive, work()))
    await begun.wait()
    request.cancel()
    with pytest.raises(ServerStopping):
        await request
    assert ended.is_set()


async def test_a_stream_cut_short_by_the_servers_end_is_closed() -> None:
    wire = Wire()
    begun = asyncio.Event()

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield b"one"
        begun.set()
        await asyncio.Event().wait()

    request = asyncio.create_task(EventStream(chunks(), SSE)(SCOPE, wire.receive, wire.send))
    await begun.wait()
    request.cancel()
    await request
    assert wire.body == b"one"
    assert wire.sent[-1]["more_body"] is False


async def test_work_gives_its_result_or_its_error() -> None:
    async def work(error: Exception | None = None) -> str:
        if error:
            raise error
        return "done"

    assert await watched(Wire().receive, work()) == "done"
    with pytest.raises(KeyError):
        await watched(Wire().receive, work(KeyError("x")))
