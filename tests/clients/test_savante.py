"""Savante and its console, call by call: what they send, and the fields they read, with the HTTP client they use.

The sequence is theirs: status, context, restore, token counts, a streamed chat, a save in the background; then the
server is killed, started again, and the conversation goes on from the saved slot.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testing.server_process import ServerProcess, bankml_command, free_port

PERSONA = "You are a helpful assistant. " + "Answer in short sentences. " * 20


@dataclass(slots=True)
class Carrier:
    """The two addresses and the folder, as the client's environment names them."""

    gateway: int
    upstream: int
    slots: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Carrier:
        return cls(free_port(), free_port(), folder / "slots")

    def server(self, model: Path) -> ServerProcess:
        addresses = ("--listen", f"127.0.0.1:{self.gateway}", "--upstream", f"127.0.0.1:{self.upstream}")
        flags = (*addresses, "--ctx", "2048", "--slot-dir", str(self.slots))
        return ServerProcess([*bankml_command(), "serve", str(model), *flags], self.gateway)


def get(port: int, path: str, timeout: float = 5) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
        return json.load(answer)


def post(port: int, path: str, body: Mapping[str, Any], timeout: float = 120) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data=data, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


@dataclass(slots=True)
class Talk:
    """A conversation as Savante leads it."""

    carrier: Carrier
    history: list[dict[str, str]] = field(default_factory=list)
    restored: bool = False

    def slot_file(self) -> str:
        status = get(self.carrier.gateway, "/bankml", 3)
        n_ctx = get(self.carrier.gateway, "/props", 3)["default_generation_settings"]["n_ctx"]
        key = f"{status['verified']['model_sha256']}|{n_ctx}|{PERSONA}"
        return "savante-" + hashlib.sha256(key.encode()).hexdigest()[:24] + ".bin"

    def warm(self) -> None:
        """Restore the slot if its file is there; whatever goes wrong means "no warm slot"."""
        name = self.slot_file()
        if (self.carrier.slots / name).exists():
            self.restored = "n_restored" in post(self.carrier.upstream, "/slots/0?action=restore", {"filename": name})

    def save(self) -> None:
        post(self.carrier.upstream, "/slots/0?action=save", {"filename": self.slot_file()})

    def ask(self, question: str) -> dict[str, Any]:
        """A streamed answer, read line by line; returns the receipt and the timings."""
        messages = [{"role": "system", "content": PERSONA}, *self.history, {"role": "user", "content": question}]
        for message in messages:
            assert len(post(self.carrier.upstream, "/tokenize", {"content": message["content"]}, 5)["tokens"]) > 0
        options = {"stream": True, "max_tokens": 24, "temperature": 0.0, "stream_options": {"include_usage": True}}
        connection = http.client.HTTPConnection("127.0.0.1", self.carrier.gateway, timeout=3600)
        body = json.dumps({"messages": messages, **options})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        pieces, found = [], {}
        for line in answer:  # to the end of the body, not to [DONE]
            if not line.startswith(b"data:") or line.strip() == b"data: [DONE]":
                continue
            event = json.loads(line[5:])
            if "bankml_receipt" in event:
                found["receipt"] = event["bankml_receipt"]
                continue
            found["timings"] = event.get("timings", found.get("timings"))
            pieces += [choice["delta"].get("content") or "" for choice in event.get("choices") or []]
        connection.close()
        text = "".join(pieces)
        assert found["receipt"]["response_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        self.history += [{"role": "user", "content": question}, {"role": "assistant", "content": text.strip()}]
        return found


def test_a_conversation_survives_a_crash_and_goes_on_from_the_saved_slot(model_path: Path, tmp_path: Path) -> None:
    carrier = Carrier.in_folder(tmp_path)
    with carrier.server(model_path) as server:
        talk = Talk(carrier)
        talk.warm()
        assert not talk.restored
        first = talk.ask("What is a river?")
        assert first["timings"]["cache_n"] == 0
        second = talk.ask("And a lake?")
        assert second["timings"]["cache_n"] > 0
        saving = threading.Thread(target=talk.save)
        saving.start()
        saving.join()
        server.kill()
    with carrier.server(model_path):
        again = Talk(carrier, talk.history)
        again.warm()
        assert again.restored
        third = again.ask("And a sea?")
    receipt = third["receipt"]
    assert third["timings"]["cache_n"] > second["timings"]["cache_n"]
    read = ("prompt_tokens", "completion_tokens", "wall_ms", "ttft_ms", "bankml", "engine", "model_sha256")
    assert all(receipt[name] is not None for name in read)


def test_the_console_reads_what_the_server_says_of_itself(model_path: Path, tmp_path: Path) -> None:
    carrier = Carrier.in_folder(tmp_path)
    with carrier.server(model_path):
        status = get(carrier.gateway, "/bankml")
        assert status["verified"]["verdict"] == status["verified"]["guard"] == "play"
        assert isinstance(status["verified"]["types"], dict)
        assert "error" not in status
        assert get(carrier.upstream, "/bankml") == status
        before = get(carrier.gateway, "/bankml/metrics")["records"]
        Talk(carrier).ask("What is a river?")
        after = get(carrier.gateway, "/bankml/metrics")["records"]
        assert len(after) == len(before) + 1
        assert after[-1]["completion_tokens"] == 24
        for path in ("/bankml/usage", "/bankml/status", "/health"):
            assert get(carrier.gateway, path, 10)


def test_the_warmer_gives_way_to_a_question_and_its_prompt_is_kept(model_path: Path, tmp_path: Path) -> None:
    carrier = Carrier.in_folder(tmp_path)
    with carrier.server(model_path):
        system = {"role": "system", "content": PERSONA}
        warm = {"messages": [system], "stream": False, "max_tokens": 1, "temperature": 0}
        post(carrier.gateway, "/v1/chat/completions", warm)
        long = {"messages": [{"role": "system", "content": "word " * 1500}], "max_tokens": 1}
        connection = http.client.HTTPConnection("127.0.0.1", carrier.gateway, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps(long), {"Content-Type": "application/json"})
        connection.close()
        assert Talk(carrier).ask("What is a river?")["timings"]["cache_n"] > 0


def test_a_refusal_reads_as_one(model_path: Path, tmp_path: Path) -> None:
    carrier = Carrier.in_folder(tmp_path)
    with carrier.server(model_path):
        body = {"messages": [{"role": "user", "content": "word " * 4000}], "stream": True, "max_tokens": 16}
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(carrier.gateway, "/v1/chat/completions", body)
        error = json.load(refused.value)["error"]
    assert error["type"] == "exceed_context_size_error"
    assert error["n_ctx"] == 2048
