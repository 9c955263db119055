"""Ollama's endpoints with Ollama's own client for Node, unmodified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testing.server_process import BankmlServer


@pytest.fixture(scope="module")
def results(
    run_node: Callable[..., dict[str, Any]],
    server: BankmlServer,
    calling_server: BankmlServer,
    embedding_server: BankmlServer,
) -> dict[str, Any]:
    """What each scenario of the script came to."""
    return run_node("ollama_client.mjs", server, calling_server, embedding_server)


@pytest.mark.parametrize("name", ["chat", "generate"])
def test_an_answer_and_its_stream_are_the_same(results: dict[str, Any], name: str) -> None:
    assert results[name]["content"]
    assert results[name]["done"] is True
    assert results[f"{name}Stream"] == results[name]


def test_an_answer_of_a_schema(results: dict[str, Any]) -> None:
    assert isinstance(results["form"]["city"], str)


def test_a_tool_is_called_whole_and_streamed(results: dict[str, Any]) -> None:
    call = {"index": 0, "name": "get_weather", "arguments": {"city": "Paris"}}
    assert results["tool"] == results["toolStream"] == [call]


def test_vectors(results: dict[str, Any]) -> None:
    assert results["embed"] == [16, 16]
    assert results["embeddings"] == 576


def test_what_there_is(results: dict[str, Any]) -> None:
    about = results["about"]
    assert about["listed"] == about["running"]
    assert len(about["listed"]) == 1
    assert "completion" in about["capabilities"]
    assert about["version"] == "string"


@pytest.mark.parametrize(
    ("scenario", "status", "text"),
    [
        ("nowhere", 404, "model 'nosuch' not found"),
        ("badOption", 400, 'option "temperature" must be of type float32'),
    ],
)
def test_errors_become_the_clients_exceptions(results: dict[str, Any], scenario: str, status: int, text: str) -> None:
    found = results[scenario]
    assert (found["error"], found["status"]) == ("ResponseError", status)
    assert text in found["message"]


def test_a_stream_that_is_aborted_frees_the_server(results: dict[str, Any]) -> None:
    assert results["abort"] == {"parts": 3, "aborted": "AbortError", "after": 1}
