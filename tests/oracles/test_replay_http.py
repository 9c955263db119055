"""The same answers through the real server: what a client of the reference would have read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.oracles import replay
from testing.oracles.replay import Record
from testing.server_process import BankmlServer

CHATS = ("chat-greeting", "chat-arithmetic", "chat-history-128", "chat-unicode-200")
COMPLETIONS = ("completion-5", "completion-hot-30", "completion-topp-100")
CONVERSATION = "conversation-short"
KNOWN = replay.known_differences()


@pytest.fixture(scope="module")
def server(model_path: Path) -> Iterator[BankmlServer]:
    """`bankml serve` with the records' thread count."""
    with BankmlServer(model_path, threads=2) as server:
        yield server


def recorded(group: str, names: tuple[str, ...]) -> list[Record]:
    """The named records of a group, without those known to differ."""
    found = {record["name"]: record for record in replay.load("smollm2_q4_1")[group]}
    return [found[name] for name in names if name not in KNOWN]


def name_of(record: Record) -> str:
    """A test's id."""
    return str(record["name"])


def assert_chat(answer: Any, record: Record) -> None:
    """The answer of /v1/chat/completions is the recorded one."""
    choice = answer["choices"][0]
    assert choice["message"]["content"] == record["content"]
    assert choice["finish_reason"] == record["finish_reason"]
    assert answer["usage"] == record["usage"]
    assert answer["timings"]["cache_n"] == record["cache_n"]
    assert answer["timings"]["prompt_n"] == record["prompt_n"]


@pytest.mark.parametrize("record", recorded("chats", CHATS), ids=name_of)
def test_a_chat_is_answered_as_recorded(server: BankmlServer, record: Record) -> None:
    assert_chat(server.post("/v1/chat/completions", record["request"]), record)


@pytest.mark.parametrize("record", recorded("chats", CHATS), ids=name_of)
def test_a_streamed_chat_adds_up_to_the_recorded_text(server: BankmlServer, record: Record) -> None:
    pieces: list[str] = []
    reasons: list[str] = []
    with server.client.stream("POST", "/v1/chat/completions", json={**record["request"], "stream": True}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    for event in map(json.loads, lines):
        for choice in event["choices"]:
            pieces.append(choice["delta"].get("content") or "")
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    assert "".join(pieces) == record["content"]
    assert reasons == [record["finish_reason"]]


@pytest.mark.parametrize("record", recorded("completions", COMPLETIONS), ids=name_of)
def test_a_completion_is_answered_as_recorded(server: BankmlServer, record: Record) -> None:
    answer = server.post("/completion", {**record["request"], "return_tokens": True})
    fields = ("tokens", "content", "stop_type", "stopping_word", "truncated", "tokens_cached", "tokens_evaluated")
    assert {name: answer[name] for name in fields} == {name: record[name] for name in fields}


def test_a_conversation_reuses_the_slot_as_recorded(server: BankmlServer) -> None:
    [turns] = [
        entry["turns"] for entry in replay.load("smollm2_q4_1")["conversations"] if entry["name"] == CONVERSATION
    ]
    for turn in turns:
        assert_chat(server.post("/v1/chat/completions", turn["request"]), turn)
