"""Ollama's endpoints about ollama.com, answered without asking anybody."""

from __future__ import annotations

import httpx
import pytest


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("POST", "/api/me", "unauthorized"),
        ("POST", "/api/signout", "you are not currently signed in"),
        ("DELETE", "/api/user/keys/c3NoLWVkMjU1MTk", "you are not currently signed in"),
    ],
)
def test_nobody_is_signed_in(client: httpx.Client, method: str, path: str, said: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()) == (401, {"error": said})


def test_the_cloud_is_turned_off_and_a_client_cannot_turn_it_on(client: httpx.Client) -> None:
    assert client.get("/api/status").json() == {"cloud": {"disabled": True, "source": "env"}}
    assert client.post("/api/status").status_code == 405


@pytest.mark.parametrize("what", ["search", "fetch"])
def test_nothing_is_searched_or_fetched_in_the_web(client: httpx.Client, what: str) -> None:
    path = f"/api/experimental/web_{what}"
    empty, asked = client.post(path, content=b" "), client.post(path, json={"query": "x", "url": "https://example.com"})
    assert (empty.status_code, empty.json()) == (400, {"error": "missing request body"})
    assert (asked.status_code, asked.json()) == (403, {"error": f"ollama cloud is disabled: web {what} is unavailable"})


def test_what_is_recommended_can_be_asked_for(client: httpx.Client) -> None:
    (recommended,) = client.get("/api/experimental/model-recommendations").json()["recommendations"]
    assert list(recommended) == ["model", "description"]
    assert client.post("/api/show", json={"model": recommended["model"]}).status_code == 200
