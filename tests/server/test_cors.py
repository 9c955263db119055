"""server/cors.py: which web pages may call the server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from server.cors import Origins

LISTED = "https://page.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type, authorization"}


def client(*origins: str) -> httpx.AsyncClient:
    async def hello(request: Request) -> Response:
        return PlainTextResponse("hello", headers={"vary": "Accept"})

    doors: list[Any] = [Middleware(Origins, allow_origins=origins)]
    app = Starlette(routes=[Route("/x", hello, methods=["GET", "POST"])], middleware=doors)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def test_a_listed_page_may_ask_and_read() -> None:
    async with client("https://other.example", LISTED) as http:
        asked = await http.options("/x", headers={"Origin": LISTED, **PREFLIGHT})
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == LISTED
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert asked.headers["access-control-allow-headers"] == "content-type, authorization"
        assert "access-control-allow-credentials" not in asked.headers
        answer = await http.post("/x", headers={"Origin": LISTED})
        assert answer.headers["access-control-allow-origin"] == LISTED
        assert answer.headers["vary"] == "Accept, Origin"


async def test_a_listed_public_page_is_let_into_the_private_network() -> None:
    async with client(LISTED) as http:
        headers = {"Origin": LISTED, "Access-Control-Request-Private-Network": "true", **PREFLIGHT}
        asked = await http.options("/x", headers=headers)
    assert asked.headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("listed", [(), (LISTED,)])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://page.example", f"{LISTED}:444", f"{LISTED}.evil.example", "null", ""]
)
async def test_another_page_is_refused_and_cannot_read(listed: tuple[str, ...], origin: str) -> None:
    async with client(*listed) as http:
        asked = await http.options("/x", headers={"Origin": origin, **PREFLIGHT})
        assert asked.status_code == 403
        assert asked.json()["error"]["type"] == "permission_error"
        answer = await http.post("/x", headers={"Origin": origin})
        for response in (asked, answer):
            assert not [name for name in response.headers if name.startswith("access-control")]


async def test_nothing_is_said_of_origins_where_none_is_listed() -> None:
    async with client() as http:
        assert (await http.get("/x")).headers["vary"] == "Accept"
