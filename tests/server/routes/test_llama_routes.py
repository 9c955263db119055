"""`/completion` and its neighbours on a running server: queue, disconnects, receipts, context limit."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from testing.oracles.http_shapes import events
from testing.server_process import BankmlServer

ENDLESS = {"prompt": "Tell me a story about", "n_predict": 8000, "ignore_eos": True, "temperature": 0}


@contextmanager
def hanging(server: BankmlServer, path: str, body: dict[str, Any]) -> Iterator[socket.socket]:
    """A request on a bare socket, sent and not read; leaving the block hangs up."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
        yield connection


def slot_length(client: httpx.Client) -> int:
    """Tokens in the slot: an empty prompt leaves it alone and says so."""
    cached: int = client.post("/completion", json={"prompt": ""}).json()["tokens_cached"]
    return cached


def wait_until_begun() -> None:
    """Long enough for a request to reach the engine."""
    time.sleep(0.3)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_client_who_leaves_stops_its_generation(server: BankmlServer, client: httpx.Client, stream: bool) -> None:
    with hanging(server, "/completion", {**ENDLESS, "stream": stream}):
        wait_until_begun()
        assert client.get("/health").json() == {"status": "ok"}
    # Had it run on, the next request would wait for 8,000 tokens and the slot would hold them.
    assert slot_length(client) < 4000


def test_a_client_who_leaves_while_the_prompt_is_read_stops_it(start_server: Callable[..., BankmlServer]) -> None:
    with start_server("-ub", "32", "-b", "32") as server:
        client = server.client
        with hanging(server, "/completion", {"prompt": "word " * 8000, "n_predict": 1}):
            wait_until_begun()
            assert client.post("/tokenize", json={"content": "a"}).status_code == 200
            assert client.get("/props").status_code == 200
        assert slot_length(client) < 8000
        assert client.post("/completion", json={"prompt": "x", "n_predict": 1}).status_code == 200


def test_requests_are_answered_in_the_order_they_came(server: BankmlServer) -> None:
    order: list[int] = []

    def listen(number: int, connection: socket.socket) -> None:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        order.append(number)

    with ExitStack() as waiting:
        threads = []
        with hanging(server, "/completion", ENDLESS):
            for number in range(4):
                body = {"prompt": f"{number}", "n_predict": 4}
                connection = waiting.enter_context(hanging(server, "/completion", body))
                threads.append(threading.Thread(target=listen, args=(number, connection)))
                threads[-1].start()
                time.sleep(0.1)
        for thread in threads:
            thread.join()
    assert order == [0, 1, 2, 3]


def test_a_queued_client_who_leaves_is_not_served(server: BankmlServer, client: httpx.Client) -> None:
    with hanging(server, "/completion", ENDLESS):
        with hanging(server, "/completion", {"prompt": "a queued prompt", "n_predict": 1}):
            time.sleep(0.2)
        time.sleep(0.2)
    # The slot still holds the first one's prompt: nothing has run since.
    answer = client.post("/completion", json={**ENDLESS, "n_predict": 1}).json()
    assert answer["timings"]["cache_n"] == answer["tokens_evaluated"] - 1


def test_a_stream_says_what_a_whole_answer_says(client: httpx.Client) -> None:
    body = {"prompt": "Once upon a time", "n_predict": 24, "seed": 5}
    whole = client.post("/completion", json={**body, "return_tokens": True}).json()
    found = events(client.post("/completion", json={**body, "stream": True}).text)
    assert "".join(event["content"] for event in found[:-1]) == whole["content"]
    assert [event["tokens"][0] for event in found[:-1]] == whole["tokens"]
    assert found[-1]["generation_settings"]["seed"] == whole["generation_settings"]["seed"] == 5


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_receipt_hashes_the_request_and_the_answer(client: httpx.Client, stream: bool) -> None:
    content = json.dumps({"prompt": "Count: 1 2 3", "n_predict": 8, "temperature": 0, "stream": stream, "odd": 1})
    answer = client.post("/completion", content=content, headers={"content-type": "application/json"})
    if stream:
        parts = events(answer.text)
        assert ["bankml_receipt" in part for part in parts] == [part["stop"] for part in parts]
        text, receipt = "".join(part["content"] for part in parts), parts[-1]["bankml_receipt"]
    else:
        body = answer.json()
        text, receipt = body["content"], body["bankml_receipt"]
    assert receipt["response_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert receipt["request_sha256"] == hashlib.sha256(content.encode()).hexdigest()
    assert (receipt["completion_tokens"], receipt["ignored"]) == (8, ["odd"])
    assert receipt["settings"]["threads"] == 2
    assert 0 < receipt["ttft_ms"] <= receipt["wall_ms"]


def test_several_prompts_are_several_answers(client: httpx.Client) -> None:
    body = {"prompt": ["One", "Two"], "n_predict": 3, "temperature": 0}
    first, second = client.post("/completion", json=body).json()
    assert (first["prompt"], second["prompt"], first["index"], second["index"]) == ("One", "Two", 0, 1)
    found = events(client.post("/completion", json={**body, "stream": True}).text)
    text = {0: "", 1: ""}
    for event in found[:-1]:
        text[event["index"]] += event["content"]
    assert text == {0: first["content"], 1: second["content"]}


def test_generation_stops_where_the_context_ends(start_server: Callable[..., BankmlServer]) -> None:
    with start_server("-c", "256") as server:
        body = {"prompt": "word " * 240, "temperature": 0, "ignore_eos": True}
        answer = server.client.post("/completion", json=body).json()
        assert (answer["stop_type"], answer["truncated"], answer["tokens_cached"]) == ("limit", True, 255)
        for stream in (True, False):
            refused = server.client.post("/completion", json={"prompt": "word " * 256, "stream": stream})
            assert refused.status_code == 400
            assert refused.json()["error"]["type"] == "exceed_context_size_error"
            assert refused.json()["error"]["n_ctx"] == 256
        chat = server.client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "a " * 300}]})
        assert chat.json()["error"]["n_prompt_tokens"] > 256


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"",
            b"{",
            b"null",
            b"[]",
            b"5",
            b'"x"',
            b"{}",
            b'{"prompt":"\xff"}',
            b'{"prompt":"\\ud800"}',
            b"[" * 100_000,
        ),
        *(
            b'{"prompt":1e999}',
            b'{"prompt":NaN}',
            b'\xef\xbb\xbf{"prompt":"a"}',
            b'{"prompt":"a"} x',
            b"\x00",
            b"{'a':1}",
        ),
    ],
    ids=lambda content: repr(content[:16]),
)
def test_a_bad_body_is_a_400_and_the_next_request_works(client: httpx.Client, content: bytes) -> None:
    for path in ("/completion", "/v1/completions", "/v1/chat/completions", "/apply-template"):
        answer = client.post(path, content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 400, path
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert "Traceback" not in answer.text
    assert client.post("/completion", json={"prompt": "x", "n_predict": 1}).status_code == 200


def test_a_model_that_was_unloaded_is_loaded_again(start_server: Callable[..., BankmlServer]) -> None:
    with start_server() as server:
        unloaded = server.client.post("/api/generate", json={"model": "smollm2", "keep_alive": 0})
        assert unloaded.status_code == 200
        assert server.client.get("/api/ps").json() == {"models": []}
        body = {"prompt": "Once upon a time", "n_predict": 4, "temperature": 0}
        assert server.client.post("/completion", json=body).json()["content"] == ", the city of"
        assert server.client.get("/api/ps").json()["models"]
        server.client.post("/api/generate", json={"model": "smollm2", "keep_alive": 0})
        assert server.client.get("/props").json()["total_slots"] == 1


def test_n_answers_to_each_prompt_are_those_of_seeds_one_higher_each(client: httpx.Client) -> None:
    asked = {"n_predict": 6, "seed": 7, "cache_prompt": False}
    prompts = ["One day", "The sea"]
    alone = [
        client.post("/completion", json={**asked, "prompt": prompt, "seed": seed}).json()
        for prompt in prompts
        for seed in (7, 8)
    ]
    answer = client.post("/completion", json={**asked, "prompt": prompts, "n": 2}).json()
    assert [one["index"] for one in answer] == [0, 1, 2, 3]
    assert [one["content"] for one in answer] == [one["content"] for one in alone]
    assert [one["generation_settings"]["seed"] for one in answer] == [7, 8, 7, 8]
    assert [one["timings"]["prompt_n"] for one in answer] == [one["timings"]["prompt_n"] for one in alone]
    receipt = answer[0]["bankml_receipt"]
    assert receipt["prompt_tokens"] == alone[0]["tokens_evaluated"] + alone[2]["tokens_evaluated"]
    assert receipt["completion_tokens"] == 24
    streamed = events(client.post("/completion", json={**asked, "prompt": prompts, "n": 2, "stream": True}).text)
    texts = ["".join(event["content"] for event in streamed if event.get("index") == index) for index in range(4)]
    assert texts == [one["content"] for one in answer]


def test_there_is_a_limit_to_n(client: httpx.Client) -> None:
    for n in (0, 17):
        answer = client.post("/completion", json={"prompt": "a", "n": n})
        assert answer.status_code == 400
        message = f"Field 'n': Value must be between 1 <= value <= 16, but got {n}"
        assert answer.json()["error"]["message"] == message


def test_progress_comes_before_the_first_token_of_a_stream(start_server: Callable[..., BankmlServer]) -> None:
    asked = {"prompt": "word " * 60, "n_predict": 1, "return_progress": True, "stream": True}
    with start_server("-b", "32", "-c", "256") as server:
        told = events(server.client.post("/completion", json=asked).text)[:-2]
    n_prompt = told[0]["tokens_evaluated"]
    assert [one["prompt_progress"]["processed"] for one in told] == [0, 32, n_prompt]
    assert all((one["tokens"], one["tokens_predicted"], one["content"]) == ([0], 0, "") for one in told)
    assert list(told[0]["prompt_progress"]) == ["total", "cache", "processed", "time_ms"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"stop": ["x"] * 1025}, "Field 'stop': there are more than 1024 items"),
        ({"dry_sequence_breakers": ["x"] * 1025}, "Field 'dry_sequence_breakers': there are more than 1024 items"),
        ({"samplers": ["top_k"] * 1025}, "Field 'samplers': there are more than 1024 items"),
        ({"response_fields": ["x"] * 1025}, "Field 'response_fields': there are more than 1024 items"),
        ({f"field{n}": 1 for n in range(1025)}, "the body has more than 1024 fields"),
        ({"prompt": ["x"] * 1025}, '"prompt" has more than 1024 prompts'),
        ({"prompt": [[]] * 100_001}, "the body has more than 100000 arrays and objects"),
        (
            {"n_probs": 49152, "n_predict": 200, "ignore_eos": True},
            "the answer has more than 1000000 probabilities; ask for fewer",
        ),
    ],
)
def test_what_would_take_all_time_or_memory_is_refused(client: httpx.Client, body: dict[str, Any], says: str) -> None:
    answer = client.post("/completion", json={"prompt": "a", "n_predict": 1, **body})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, says)
    assert client.post("/completion", json={"prompt": "a", "n_predict": 1}).status_code == 200


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_response_fields_leave_out_the_receipt_unless_they_name_it(client: httpx.Client, stream: bool) -> None:
    for wanted in (["stop"], ["stop", "bankml_receipt"]):
        body = {"prompt": "A", "n_predict": 1, "response_fields": wanted, "stream": stream}
        answer = client.post("/completion", json=body)
        shown = events(answer.text)[-1] if stream else answer.json()
        assert list(shown) == wanted
