"""server/protocol.py over real sockets: no head that stalls or never ends holds a connection or memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from server.protocol import HEAD_BYTES, HEAD_SECONDS, LINGER_SECONDS, MAX_CONNECTIONS, Protocol

PATIENCE = 60
"""Seconds after which a test gives up."""

SHORT = 0.5
"""The deadline of the tests that wait for it, in seconds."""

REQUEST = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"

LARGE = 32 * 1024 * 1024
"""Bytes of an answer that no socket takes at once."""

Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the request's body, once `/slow` has waited for much longer than a short deadline."""
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(SHORT * 3)
    body = b"%d bytes" % length if scope["path"] != "/large" else bytes(LARGE)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening(
    head_seconds: float = HEAD_SECONDS,
    keep_alive: int = PATIENCE,
    write_seconds: float = PATIENCE,
    max_connections: int = MAX_CONNECTIONS,
) -> AsyncIterator[Dial]:
    """A server with these limits and uvicorn's keep-alive time; gives a function that connects to it."""

    class Quick(Protocol):
        pass

    Quick.head_seconds = head_seconds
    Quick.write_seconds = write_seconds
    Quick.max_connections = max_connections
    config = uvicorn.Config(
        echo, http=Quick, ws="none", lifespan="off", log_config=None, access_log=False, timeout_keep_alive=keep_alive
    )
    config.load()
    state = ServerState()
    writers: list[asyncio.StreamWriter] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Quick(config, state, {}), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def dial() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    try:
        async with asyncio.timeout(PATIENCE):
            yield dial
    finally:
        for writer in writers:
            writer.close()
        server.close()
        for protocol in list(state.connections):
            protocol.transport.abort()


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and body of the next answer, which has a length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].split("\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def refusal(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The error object that the connection ends with."""
    status, body = await answer(reader)
    assert await reader.read() == b""
    error: dict[str, Any] = json.loads(body)["error"]
    assert list(error) == ["message", "type", "code"]
    assert error["code"] == status
    assert error["type"] == "invalid_request_error"
    return error


async def test_a_request_is_answered_and_the_connection_kept() -> None:
    async with listening() as dial:
        reader, writer = await dial()
        for _ in range(3):
            writer.write(REQUEST)
            assert await answer(reader) == (200, b"2 bytes")


@pytest.mark.parametrize("sent", [b"G", b"POST /echo HTTP/1.1\r\nHost: x\r\n"])
async def test_half_a_head_is_refused_after_its_time(sent: bytes) -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(sent)
        error = await refusal(reader)
    assert (error["code"], error["message"]) == (408, f"the request head was not complete after {SHORT} seconds")


async def test_bytes_that_trickle_in_buy_no_time() -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        refused = asyncio.create_task(refusal(reader))
        while not refused.done():
            writer.write(b"y")
            await asyncio.sleep(SHORT / 10)
        assert (await refused)["code"] == 408


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n"])
async def test_a_connection_that_begins_no_request_is_closed_in_silence(sent: bytes) -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(sent)
        assert await reader.read() == b""


async def test_a_head_that_stalls_on_a_kept_alive_connection_is_refused() -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(REQUEST)
        assert await answer(reader) == (200, b"2 bytes")
        writer.write(REQUEST[:20])
        assert (await refusal(reader))["code"] == 408


async def test_a_blank_line_after_a_request_does_not_hold_the_connection() -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(REQUEST)
        assert await answer(reader) == (200, b"2 bytes")
        writer.write(b"\r\n")
        assert await reader.read() == b""


async def test_uvicorns_keep_alive_time_still_ends_an_idle_connection() -> None:
    async with listening(keep_alive=0) as dial:
        reader, writer = await dial()
        writer.write(REQUEST)
        assert await answer(reader) == (200, b"2 bytes")
        assert await reader.read() == b""


async def test_the_time_of_a_head_is_not_that_of_a_body_or_an_answer() -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(REQUEST.replace(b"/echo", b"/slow")[:-1])
        await asyncio.sleep(SHORT * 3)
        writer.write(b"i")
        assert await answer(reader) == (200, b"2 bytes")


async def test_a_head_begun_during_an_answer_has_its_time_after_it() -> None:
    async with listening(SHORT) as dial:
        reader, writer = await dial()
        writer.write(REQUEST.replace(b"/echo", b"/slow") + REQUEST[:20])
        assert await answer(reader) == (200, b"2 bytes")
        assert (await refusal(reader))["code"] == 408


async def test_a_head_in_small_pieces_is_read() -> None:
    async with listening() as dial:
        reader, writer = await dial()
        for _ in range(2):
            for at in range(len(REQUEST)):
                writer.write(REQUEST[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0.001)
            assert await answer(reader) == (200, b"2 bytes")


def head_of(size: int, value: int = 1000) -> bytes:
    """A whole head of `size` bytes in headers of about `value` bytes each."""
    lines = [b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"]
    while (left := size - 2 - sum(map(len, lines))) > 0:
        whole = left if left < value + 20 else value
        lines.append(b"x: " + b"y" * (whole - 5) + b"\r\n")
    return b"".join(lines) + b"\r\n"


@pytest.mark.parametrize("value", [1000, 70 * 1024])
@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("complete", [True, False])
async def test_a_head_that_is_too_long_is_refused(value: int, pieces: int, complete: bool) -> None:
    head = head_of(70 * 1024, value)[: None if complete else -2]
    async with listening() as dial:
        reader, writer = await dial()
        for at in range(0, len(head), -(-len(head) // pieces)):
            writer.write(head[at : at - (-len(head) // pieces)])
            await writer.drain()
            await asyncio.sleep(0.01)
        error = await refusal(reader)
    assert (error["code"], error["message"]) == (431, f"request head exceeds {HEAD_BYTES} bytes")


async def test_the_longest_head_is_read_whatever_its_body() -> None:
    head = head_of(HEAD_BYTES)
    assert len(head) == HEAD_BYTES
    body = b"z" * 1_000_000
    async with listening() as dial:
        reader, writer = await dial()
        for _ in range(2):
            writer.write(head.replace(b"Length: 2\r\n", b"Length: 1000000\r\n").replace(b"y" * 6, b"", 1) + body)
            assert await answer(reader) == (200, b"1000000 bytes")


async def test_a_long_url_is_refused_as_a_long_head_is() -> None:
    async with listening() as dial:
        reader, writer = await dial()
        writer.write(b"GET /" + b"a" * 70_000)
        assert (await refusal(reader))["code"] == 431


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n" * HEAD_BYTES,
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"e" * 3 * HEAD_BYTES,
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n" + b"t: u\r\n" * HEAD_BYTES,
    ],
    ids=["blank lines", "chunk extension", "trailers"],
)
async def test_nothing_else_between_bodies_is_endless(sent: bytes) -> None:
    async with listening() as dial:
        reader, writer = await dial()
        writer.write(sent)
        assert (await refusal(reader))["code"] == 400


async def test_an_error_is_not_written_into_another_requests_answer() -> None:
    async with listening() as dial:
        reader, writer = await dial()
        writer.write(REQUEST.replace(b"/echo", b"/slow") + b"NOT HTTP\r\n\r\n")
        assert await reader.read() == b""


async def test_a_refused_client_that_does_not_leave_is_dropped() -> None:
    assert LINGER_SECONDS < PATIENCE
    async with listening() as dial:
        reader, writer = await dial()
        writer.write(b"NOT HTTP\r\n\r\n")
        assert (await refusal(reader))["code"] == 400

        async def talk_on() -> None:
            while True:
                writer.write(b"more")
                await writer.drain()
                await asyncio.sleep(0.05)

        with pytest.raises(ConnectionError):
            await talk_on()


async def test_a_client_that_reads_nothing_is_cut() -> None:
    async with listening(write_seconds=SHORT) as dial:
        reader, writer = await dial()
        writer.transport.pause_reading()
        writer.write(REQUEST.replace(b"/echo", b"/large"))
        await asyncio.sleep(SHORT * 3)
        writer.transport.resume_reading()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(LARGE)


async def test_a_client_that_reads_slowly_is_not() -> None:
    async with listening(write_seconds=SHORT) as dial:
        reader, writer = await dial()
        writer.write(REQUEST.replace(b"/echo", b"/large"))
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(16):
            await reader.readexactly(LARGE // 16)
            await asyncio.sleep(SHORT / 5)


async def test_one_connection_too_many_takes_the_place_of_the_one_that_is_idle_longest() -> None:
    async with listening(max_connections=3) as dial:
        connections = []
        for _ in range(4):
            connections.append(await dial())
            await asyncio.sleep(0.02)
        assert await connections[0][0].read() == b""
        for reader, writer in connections[1:]:
            writer.write(REQUEST)
            assert await answer(reader) == (200, b"2 bytes")


async def test_where_all_are_busy_one_too_many_is_refused_but_for_health() -> None:
    async with listening(max_connections=2) as dial:
        busy = [await dial() for _ in range(2)]
        for _, writer in busy:
            writer.write(REQUEST.replace(b"/echo", b"/slow"))
        await asyncio.sleep(0.05)
        reader, writer = await dial()
        writer.write(REQUEST)
        assert await answer(reader) == (
            503,
            b'{"error":{"message":"the server has more than 2 connections","type":"unavailable_error","code":503}}',
        )
        reader, writer = await dial()
        writer.write(REQUEST.replace(b"/echo", b"/health?x"))
        assert await answer(reader) == (200, b"2 bytes")
        for reader, _ in busy:
            assert await answer(reader) == (200, b"2 bytes")
