"""OpenAI's endpoints with OpenAI's own client for Node, unmodified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testing.server_process import BankmlServer

SAID = "Hello there, welcome to"


@pytest.fixture(scope="module")
def results(
    run_node: Callable[..., dict[str, Any]],
    server: BankmlServer,
    calling_server: BankmlServer,
    embedding_server: BankmlServer,
) -> dict[str, Any]:
    """What each scenario of the script came to."""
    return run_node("openai_client.mjs", server, calling_server, embedding_server)


def test_models(results: dict[str, Any]) -> None:
    assert len(results["models"]) == 1


def test_a_chat(results: dict[str, Any]) -> None:
    chat = results["chat"]
    assert (chat["content"], chat["finish_reason"]) == (SAID, "length")
    assert (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"]) == (33, 5)
    assert chat["receipt"]["completion_tokens"] == 5


def test_a_stream_with_usage(results: dict[str, Any]) -> None:
    assert results["stream"]["content"] == SAID
    assert results["stream"]["usage"]["total_tokens"] == 38


def test_the_stream_helper_puts_the_answer_together(results: dict[str, Any]) -> None:
    assert results["streamHelper"] == "Hello there"


def test_logprobs(results: dict[str, Any]) -> None:
    assert "".join(token for token, _ in results["logprobs"]) == SAID
    assert {best for _, best in results["logprobs"]} == {2}


def test_an_answer_of_a_schema(results: dict[str, Any]) -> None:
    assert isinstance(results["form"]["city"], str)


def test_a_completion(results: dict[str, Any]) -> None:
    assert results["completion"] == ", the city of"


def test_a_response(results: dict[str, Any]) -> None:
    response = results["response"]
    assert (response["text"], response["status"]) == (SAID, "completed")
    assert response["usage"]["total_tokens"] == 38
    assert response["receipt"]["completion_tokens"] == 5


def test_a_streamed_response(results: dict[str, Any]) -> None:
    stream = results["responseStream"]
    assert (stream["text"], stream["status"]) == (SAID, "completed")
    assert (stream["types"][0], stream["types"][-1]) == ("response.created", "response.completed")
    assert stream["receipt"]["completion_tokens"] == 5


def test_a_tool_is_called(results: dict[str, Any]) -> None:
    call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert results["tool"] == {"finish_reason": "tool_calls", "calls": [call]}
    assert results["toolStream"] == [call]


def test_embeddings(results: dict[str, Any]) -> None:
    assert results["embeddings"] == [576, 576]


@pytest.mark.parametrize(
    ("scenario", "error", "status", "text"),
    [
        ("tooLong", "BadRequestError", 400, "exceeds the available context size"),
        ("badField", "BadRequestError", 400, "type must be number, but is string"),
        ("nowhere", "NotFoundError", 404, "File Not Found"),
    ],
)
def test_errors_become_the_clients_exceptions(
    results: dict[str, Any], scenario: str, error: str, status: int, text: str
) -> None:
    found = results[scenario]
    assert (found["error"], found["status"]) == (error, status)
    assert text in found["message"]


def test_a_stream_that_is_aborted_frees_the_server(results: dict[str, Any]) -> None:
    assert results["abort"] == {"chunks": 3, "after": 1}
