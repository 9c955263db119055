"""Conversations through `/api/chat`, whole and streamed, through `/v1`, and again after the model went and came: the
reference's answers every time, and as many tokens found in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.oracles import replay
from testing.server_process import BankmlServer

MODEL = "smollm2"
NAMES = ("conversation-short", "conversation-taken-up-again")
RECORDED = [record for record in replay.load("smollm2_q4_1")["conversations"] if record["name"] in NAMES]

Answered = tuple[str, str, int, int, int]
"""Text, why it ended, tokens found in the cache, tokens of the prompt, tokens of the answer."""


@pytest.fixture(scope="module")
def server(model_path: Path) -> Iterator[BankmlServer]:
    with BankmlServer(model_path, threads=2) as server:
        yield server


def wanted(turn: dict[str, Any]) -> Answered:
    usage = turn["usage"]
    n_prompt, n_answer = usage["prompt_tokens"], usage["completion_tokens"]
    return turn["content"], turn["finish_reason"], turn["cache_n"], n_prompt, n_answer


def ollama_body(request: dict[str, Any]) -> dict[str, Any]:
    """The same request in Ollama's words; whether the cache may be used is not among them."""
    assert set(request) <= {"messages", "temperature", "max_tokens", "cache_prompt"}
    options = {"temperature": request["temperature"], "num_predict": request["max_tokens"]}
    return {"model": MODEL, "messages": request["messages"], "options": options}


def of_ollama(answer: dict[str, Any], text: str) -> Answered:
    counts = (answer["bankml_cache_n"], answer["prompt_eval_count"], answer["eval_count"])
    return (text, answer["done_reason"], *counts)


def by_chat(server: BankmlServer, request: dict[str, Any]) -> Answered:
    answer = server.post("/api/chat", {**ollama_body(request), "stream": False})
    return of_ollama(answer, answer["message"]["content"])


def by_streamed_chat(server: BankmlServer, request: dict[str, Any]) -> Answered:
    response = server.client.post("/api/chat", json=ollama_body(request)).raise_for_status()
    lines = [json.loads(line) for line in response.text.splitlines()]
    return of_ollama(lines[-1], "".join(line["message"]["content"] for line in lines))


def by_v1(server: BankmlServer, request: dict[str, Any]) -> Answered:
    body = {name: value for name, value in request.items() if name != "cache_prompt"}
    answer = server.post("/v1/chat/completions", body)
    choice, usage = answer["choices"][0], answer["usage"]
    counts = (answer["timings"]["cache_n"], usage["prompt_tokens"], usage["completion_tokens"])
    return (choice["message"]["content"], choice["finish_reason"], *counts)


@pytest.mark.parametrize("ask", [by_chat, by_streamed_chat, by_v1])
@pytest.mark.parametrize("record", RECORDED, ids=lambda record: record["name"])
def test_a_conversation_is_the_references_through_every_api(
    server: BankmlServer, record: dict[str, Any], ask: Callable[[BankmlServer, dict[str, Any]], Answered]
) -> None:
    """Each begins with an empty slot: the model was unloaded and is loaded anew."""
    unloaded = server.post("/api/generate", {"model": MODEL, "keep_alive": 0})
    assert unloaded["done_reason"] == "unload"
    for turn in record["turns"]:
        assert ask(server, turn["request"]) == wanted(turn)
