"""The application: its doors, its routes and its lifespan, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from engine.model import ModelOptions
from registry.catalog import Catalog
from server.app import create_app
from server.settings import Settings
from slots.residency import Residency

NOT_FOUND = b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}'


@pytest.fixture
def app(model_path: Path) -> Starlette:
    return create_app(Settings(), Residency(Catalog.of_file(model_path), ModelOptions(n_ctx=256, n_threads=1)))


@pytest.fixture
async def client(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to the application without its lifespan: no model is loaded."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nope"),
        ("POST", "/nope"),
        # a path that is there, asked in another way
        *(("GET", path) for path in ("/completion", "/v1/chat/completions", "/tokenize")),
        *(("DELETE", path) for path in ("/health", "/v1/models", "/completion")),
        ("POST", "/health"),
        # no redirect to or from a slash at the end
        *(("GET", path) for path in ("/health/", "/v1/models/", "//health")),
        ("POST", "/completion/"),
    ],
)
async def test_what_is_not_there_is_llama_servers_404(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, "http://127.0.0.1" + path, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.content) == (404, NOT_FOUND)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert "location" not in answer.headers
    assert "allow" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "text", "allow"),
    [
        ("GET", "/api/nope", 404, "404 page not found", None),
        ("POST", "/api/tags/", 404, "404 page not found", None),
        ("GET", "/api/chat", 405, "405 method not allowed", "POST"),
        ("POST", "/api/delete", 405, "405 method not allowed", "DELETE"),
    ],
)
async def test_what_is_not_there_under_api_is_said_as_ollama_says_it(
    client: httpx.AsyncClient, method: str, path: str, status: int, text: str, allow: str | None
) -> None:
    answer = await client.request(method, path, json={})
    assert (answer.status_code, answer.text, answer.headers.get("allow")) == (status, text, allow)
    assert answer.headers["content-type"] == "text/plain"


async def test_the_doors_stand_before_the_routes(app: Starlette) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://elsewhere.test") as client:
        for path in ("/health", "/nope", "/api/tags"):
            assert (await client.get(path)).status_code == 403


async def test_the_application_s_life_is_the_models(app: Starlette, client: httpx.AsyncClient) -> None:
    residency: Residency = app.state.residency
    assert residency.current() is None
    async with app.router.lifespan_context(app):
        assert residency.current() is not None
        assert (await client.get("/health")).json() == {"status": "ok"}
    assert residency.current() is None
