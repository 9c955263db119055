"""What stands beside the answers of `/v1/messages` and `/v1/responses`, and how their streams fail."""

from __future__ import annotations

import hashlib
import json
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


DEEP = '{"a":' * 1000 + "1" + "}" * 1000
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": DEEP}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/messages",
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": "DEEP"}]}, *ASK]},
        ),
        ("/v1/messages", {"messages": ASK, "tools": [{"name": "f", "input_schema": "DEEP"}]}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": [{"type": "text", "text": "DEEP"}]}]}),
        ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "DEEP"}]}]}),
        ("/v1/responses", {"input": [*ASK, CALL, *ASK]}),
    ],
)
def test_what_is_nested_too_deep_is_the_clients_fault(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    content = json.dumps({**body, "max_tokens": 1}).replace('"DEEP"', DEEP).encode()
    response = client.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code in (200, 400)
    assert client.post("/v1/messages", json=BODIES["/v1/messages"]).status_code == 200


def test_several_responses_are_a_list_and_in_a_stream_one_behind_the_other(client: httpx.Client) -> None:
    body = {**BODIES["/v1/responses"], "n": 2}
    whole = client.post("/v1/responses", json=body).json()
    assert [one["output"][0]["content"][0]["text"] for one in whole] == [SAID, SAID]
    assert {one["bankml_receipt"]["completion_tokens"] for one in whole} == {10}
    stream = events(client.post("/v1/responses", json={**body, "stream": True}).text)
    names = [event["event"] for event in stream]
    ends = [event["data"]["response"] for event in stream if event["event"] == "response.completed"]
    assert names.count("response.created") == 2
    assert ["bankml_receipt" in end for end in ends] == [False, True]
    assert len({end["id"] for end in ends}) == 2
