"""The slot over HTTP: what it does, saved, restored, erased; Savante's and the console's use of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.server_process import BankmlServer

CHAT = {"messages": [{"role": "user", "content": "Name a river."}], "max_tokens": 8, "temperature": 0}
FILE = {"filename": "a.bin"}


@pytest.fixture(scope="module")
def slot_server(
    start_server: Callable[..., BankmlServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BankmlServer]:
    with start_server("--slot-dir", str(tmp_path_factory.mktemp("slots"))) as server:
        yield server


@pytest.fixture
def http(slot_server: BankmlServer) -> httpx.Client:
    slot_server.client.post("/slots/0?action=erase")
    return slot_server.client


def error(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


def chat(http: httpx.Client) -> tuple[str, int]:
    body = http.post("/v1/chat/completions", json=CHAT).json()
    return body["choices"][0]["message"]["content"], body["timings"]["cache_n"]


def test_a_saved_slot_spares_the_prompt_and_changes_no_word(http: httpx.Client) -> None:
    first, _ = chat(http)
    saved = http.post("/slots/0?action=save", json=FILE).json()
    assert list(saved) == ["id_slot", "filename", "n_saved", "n_written", "timings"]
    assert list(saved["timings"]) == ["save_ms"]
    assert http.post("/slots/0?action=erase").json() == {"id_slot": 0, "n_erased": saved["n_saved"]}
    restored = http.post("/slots/0?action=restore", json=FILE).json()
    assert list(restored) == ["id_slot", "filename", "n_restored", "n_read", "timings"]
    assert restored["n_restored"] == saved["n_saved"]
    assert restored["n_read"] == saved["n_written"]
    again, cached = chat(http)
    assert again == first
    assert cached > 0


def test_a_restart_restores_what_was_saved(start_server: Callable[..., BankmlServer], tmp_path: Path) -> None:
    flags = ("--slot-save-path", str(tmp_path))
    with start_server(*flags) as server:
        first, _ = chat(server.client)
        server.post("/slots/0?action=save", FILE)
        server.kill()
    with start_server(*flags) as server:
        server.post("/slots/0?action=restore", FILE)
        again, cached = chat(server.client)
    assert again == first
    assert cached > 0


def test_a_failed_restore_is_a_400_and_leaves_the_slot_empty(http: httpx.Client) -> None:
    chat(http)
    answer = http.post("/slots/0?action=restore", json={"filename": "missing.bin"})
    assert error(answer) == (400, "Unable to restore slot: No such file or directory")
    assert http.post("/slots/0?action=erase").json()["n_erased"] == 0


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/slots/1?action=save", FILE, 400, "Invalid slot ID"),
        ("/slots/x?action=save", FILE, 400, "Invalid slot ID"),
        ("/slots/0", FILE, 400, "Invalid action"),
        ("/slots/0?action=load", FILE, 400, "Invalid action"),
        ("/slots/0?action=save", {"filename": "../a"}, 400, "Invalid filename"),
        ("/slots/0?action=save", {"filename": ""}, 400, "Invalid filename"),
        ("/slots/0?action=save", {}, 400, "[json.exception.out_of_range.403] key 'filename' not found"),
        (
            "/slots/0?action=restore",
            {"filename": 1},
            400,
            "[json.exception.type_error.302] type must be string, but is number",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    http: httpx.Client, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    assert error(http.post(path, json=body)) == (status, message)


def test_without_a_folder_there_are_no_actions(client: httpx.Client) -> None:
    refusal = "This server does not support slots action. Start it with `--slot-save-path`"
    assert error(client.post("/slots/0?action=erase")) == (501, refusal)


def test_the_list_shows_what_the_slot_does_while_it_does_it(http: httpx.Client) -> None:
    endless = {"prompt": "Tell me", "n_predict": 400, "ignore_eos": True, "temperature": 0, "top_k": 7}
    asking = threading.Thread(target=http.post, args=("/completion",), kwargs={"json": endless})
    asking.start()
    shown = http.get("/slots").json()[0]
    while not (shown["is_processing"] and shown["next_token"][0]["n_decoded"]):
        time.sleep(0.01)
        shown = http.get("/slots").json()[0]
    assert http.get("/slots?fail_on_no_slot=1").status_code == 503
    asking.join()
    assert shown["params"]["top_k"] == 7
    token = shown["next_token"][0]
    assert token["n_remain"] == 400 - token["n_decoded"]
    shown = http.get("/slots?fail_on_no_slot=1").json()[0]
    assert not shown["is_processing"]
    assert shown["n_prompt_tokens"] > 400
    assert shown["next_token"] == [{"has_next_token": False, "has_new_line": False, "n_remain": -1, "n_decoded": 0}]


def test_a_chat_is_listed_with_the_form_of_its_answer(http: httpx.Client) -> None:
    chat(http)
    params = http.get("/slots").json()[0]["params"]
    assert (params["chat_format"], params["generation_prompt"]) == ("peg-native", "<|im_start|>assistant\n")


def test_without_slots_the_list_is_a_501(start_server: Callable[..., BankmlServer]) -> None:
    with start_server("--no-slots") as server:
        refusal = "This server does not support slots endpoint. Start it with `--slots`"
        assert error(server.client.get("/slots")) == (501, refusal)
        assert server.get("/props")["endpoint_slots"] is False
