"""What stands beside the answers of `/v1/messages` and `/v1/responses`, and how their streams fail."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from testing.oracles.http_shapes import events

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]
SAID = "Hello there, welcome to"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {"messages": ASK, "max_tokens": 5, "temperature": 0, "metadata": {"user_id": "me"}},
    "/v1/responses": {"input": "Say hi.", "max_output_tokens": 5, "temperature": 0, "metadata": {}},
    "/responses": {"input": "Say hi.", "max_output_tokens": 5, "temperature": 0, "metadata": {}},
}


@pytest.mark.parametrize("path", BODIES)
def test_the_receipt_stands_in_the_answer(client: httpx.Client, path: str) -> None:
    whole = client.post(path, json=BODIES[path]).json()
    last = events(client.post(path, json={**BODIES[path], "stream": True}).text)[-1]["data"]
    for found in (whole["bankml_receipt"], last.get("response", last)["bankml_receipt"]):
        assert found["response_sha256"] == hashlib.sha256(SAID.encode()).hexdigest()
        assert (found["prompt_tokens"], found["completion_tokens"], found["ignored"]) == (33, 5, ["metadata"])


@pytest.mark.parametrize("path", BODIES)
def test_a_bad_request_is_answered_and_so_is_the_next_one(client: httpx.Client, path: str) -> None:
    for content in (b"", b"{", b"[]", b'{"a": "\xff"}', b"[" * 2000, b'{"messages": NaN}'):
        response = client.post(path, content=content, headers={"content-type": "application/json"})
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
    assert client.post(path, json=BODIES[path]).status_code == 200


def test_an_input_nested_too_deep_is_the_clients_fault(client: httpx.Client) -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": deep}
    body = {**BODIES["/v1/messages"], "messages": [*ASK, {"role": "assistant", "content": [call]}]}
    assert client.post("/v1/messages", json=body).status_code == 400
