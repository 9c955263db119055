"""The doors: Host, API key, kind and length of the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from server.errors import BodyTooSlow, PayloadTooLarge, TooManyBodies, handle
from server.guards import Guards, is_loopback, names_loopback
from server.streams import ServerStopping

JSON = {"content-type": "application/json"}


def client(base_url: str = "http://127.0.0.1:11434", **options: Any) -> httpx.AsyncClient:
    """A client of an application that echoes the length of a body, behind the doors."""

    async def length(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    routes = [Route(path, length, methods=["GET", "POST", "DELETE"]) for path in ("/health", "/x", "/api/x")]
    doors = Middleware(Guards, **{"hosts": ["127.0.0.1"], **options})
    app = Starlette(routes=routes, middleware=[doors], exception_handlers={PayloadTooLarge: handle})
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.3.2.1", "/run/bankml.sock"])
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "example.com", ""])
def test_other_addresses(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("header", ["127.0.0.1", "127.0.0.1:80", "localhost", "LocalHost:8080", "[::1]", "[::1]:1"])
def test_host_headers_that_name_this_machine(header: str) -> None:
    assert names_loopback(header)


@pytest.mark.parametrize(
    "header", ["", "evil.com", "evil.com:80", "localhost.evil.com", "127.0.0.1.evil.com", "[::2]:1"]
)
def test_host_headers_that_do_not(header: str) -> None:
    assert not names_loopback(header)


async def test_a_foreign_host_is_turned_away_from_a_loopback_server() -> None:
    async with client() as http:
        refused = await http.get("/x", headers={"host": "evil.com"})
        assert refused.status_code == 403
        assert refused.json()["error"]["type"] == "permission_error"
        assert (await http.get("/x")).status_code == 200


async def test_any_host_may_be_named_on_an_open_address() -> None:
    for hosts in (["0.0.0.0"], ["127.0.0.1", "0.0.0.0"]):
        async with client(hosts=hosts) as http:
            assert (await http.get("/x", headers={"host": "my.server"})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer k1"}, {"Authorization": "k2"}, {"X-Api-Key": "k1"}, {"X-Api-Key": "Bearer k2"}],
)
async def test_a_key_opens_the_door_with_or_without_bearer_in_either_header(headers: dict[str, str]) -> None:
    async with client(api_keys=("k1", "k2")) as http:
        assert (await http.get("/x", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "bearer k1"}, {"Authorization": "Bearer k"}, {"Authorization": "x", "X-Api-Key": "k1"}],
)
async def test_anything_else_is_a_401_with_the_references_body(headers: dict[str, str]) -> None:
    async with client(api_keys=("k1",)) as http:
        for path in ("/x", "/nowhere"):
            refused = await http.get(path, headers=headers)
            assert refused.status_code == 401
            body = {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
            assert refused.json() == body


async def test_a_key_is_compared_by_the_bytes_that_are_sent() -> None:
    async with client(api_keys=["kéy"]) as http:
        headers = {b"authorization": "Bearer kéy".encode()}
        assert (await http.get("/x", headers=headers)).status_code == 200
        headers = {b"authorization": "Bearer kéy".encode("latin-1")}
        assert (await http.get("/x", headers=headers)).status_code == 401


async def test_health_needs_no_key() -> None:
    async with client(api_keys=("k1",)) as http:
        assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_post_must_be_json(kind: str) -> None:
    async with client() as http:
        assert (await http.post("/x", content=b"{}", headers={"content-type": kind})).status_code == 415


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", ""])
async def test_ollamas_paths_take_the_body_of_a_plain_curl(kind: str) -> None:
    async with client() as http:
        assert (await http.post("/api/x", content=b"{}", headers={"content-type": kind})).status_code == 200


@pytest.mark.parametrize("header", ["Origin", "Referer", "Sec-Fetch-Site"])
async def test_what_a_browser_sends_must_be_json_everywhere(header: str) -> None:
    async with client() as http:
        headers = {"content-type": "text/plain", header: "https://evil.com"}
        assert (await http.post("/api/x", content=b"{}", headers=headers)).status_code == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/ld+json"])
async def test_json_may_have_parameters(kind: str) -> None:
    async with client() as http:
        assert (await http.post("/x", content=b"{}", headers={"content-type": kind})).status_code == 200


async def test_a_delete_needs_no_content_type() -> None:
    async with client() as http:
        assert (await http.delete("/x")).status_code == 200


async def test_a_long_body_is_refused_by_its_length_and_while_it_is_read() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"12345"

    async with client(max_body=10) as http:
        assert (await http.post("/x", content=b"1234567890", headers=JSON)).text == "10"
        for content in (b"12345678901", pieces()):
            refused = await http.post("/x", content=content, headers=JSON)
            assert refused.status_code == 413
            assert refused.json()["error"]["message"] == "request body exceeds 10 bytes"


async def test_a_body_that_stops_coming_is_given_up() -> None:
    async def stalled() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/x",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    with pytest.raises(BodyTooSlow):
        await Guards(read, hosts=["127.0.0.1"], read_timeout=0.01)(scope, stalled, stalled)


async def test_a_body_that_never_ends_is_given_up_however_steadily_it_comes() -> None:
    async def trickle() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            await receive()

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    with pytest.raises(BodyTooSlow, match=r"^the request body took more than 0\.1 seconds$"):
        await Guards(read, hosts=["127.0.0.1"], body_seconds=0.1)(scope, trickle, trickle)


async def test_bodies_together_are_bounded_until_their_requests_are_answered() -> None:
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(request: Request) -> Response:
        length = len(await request.body())
        if request.headers.get("x-hold"):
            held.set()
            await release.wait()
        return PlainTextResponse(str(length))

    doors = Middleware(Guards, hosts=["127.0.0.1"], max_bodies=10)
    app = Starlette(
        routes=[Route("/x", hold, methods=["POST"])], middleware=[doors], exception_handlers={TooManyBodies: handle}
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        holding = asyncio.create_task(http.post("/x", content=b"123456", headers={**JSON, "x-hold": "1"}))
        await held.wait()
        refused = await http.post("/x", content=b"12345", headers=JSON)
        assert refused.status_code == 503
        assert refused.json()["error"]["type"] == "unavailable_error"
        assert (await http.post("/x", content=b"1234", headers=JSON)).text == "4"
        release.set()
        assert (await holding).text == "6"
        assert (await http.post("/x", content=b"1234567890", headers=JSON)).text == "10"


async def test_waiting_for_the_client_to_leave_has_no_deadline() -> None:
    messages = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.sleep(0.05)
            return {"type": "http.disconnect"}
        return messages.pop()

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    await Guards(read, hosts=["127.0.0.1"], read_timeout=0.01)(scope, receive, receive)


async def test_ollamas_paths_get_ollamas_error_body() -> None:
    async with client(api_keys=("k1",)) as http:
        refused = await http.post("/api/x", content=b"{}", headers=JSON)
    assert refused.json() == {"error": "Invalid API Key"}


async def test_a_body_that_is_cut_off_by_the_servers_end_is_answered() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    async def nothing_more() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def sent(message: Message) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"127.0.0.1")]}
    task = asyncio.create_task(Guards(read, hosts=["127.0.0.1"])(scope, nothing_more, sent))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(ServerStopping):
        await task
