"""Models by name, in a running server: loads, unloads and switches under concurrent requests leave nothing behind, and
never are two models in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from registry.fork_file import ForkFile, PinnedFile
from registry.pins import sha256_file
from testing.oracles.small_models import BY_NAME
from testing.server_process import BankmlServer, wait_until

CYCLES = 200
FILES = ("llama-mixed", "qwen3-q8_0", "qwen2-f16")


def write_pinned(folder: Path, name: str) -> Path:
    """A small model in the folder, and its pin."""
    path = Path(BY_NAME[name].file().write(folder / f"{name}.gguf"))
    pinned = PinnedFile(path.name, sha256_file(path).sha256, path.stat().st_size)
    ForkFile((pinned,), record={"kind": "test"}).write(folder / f"{path.name}.FORK.json")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forks")
    for name in FILES:
        write_pinned(folder, name)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[BankmlServer]:
    with BankmlServer(folder / f"{FILES[0]}.gguf", "--registry", str(folder), "-c", "256", threads=1) as process:
        yield process


def chat(client: httpx.Client, model: str, **more: Any) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "the cat"}], "stream": False}
    body["options"] = {"num_predict": 2, "temperature": 0}
    answer = client.post("/api/chat", json={**body, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def leave(client: httpx.Client, model: str, **more: Any) -> None:
    """Ask for a long answer and go away after its first line."""
    body = {"model": model, "prompt": "the cat", "options": {"num_predict": 200, "temperature": 0}, **more}
    with client.stream("POST", "/api/generate", json=body) as answer:
        assert answer.status_code == 200
        next(answer.iter_lines())


def mapped(pid: int) -> set[str]:
    """The model files that a process has in memory."""
    return {entry.path for entry in psutil.Process(pid).memory_maps() if entry.path.endswith(".gguf")}


def anonymous(pid: int) -> int:
    """Bytes of memory that are no file's."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def unload(server: BankmlServer) -> None:
    """Have nothing loaded. The answer to a request with a `keep_alive` of 0 comes before the model has gone."""
    chat(server.client, FILES[0], keep_alive=0)
    wait_until(lambda: not mapped(server.pid))


class Watch:
    """Looks at a server's memory all the while.

    Attributes:
        most: the most model files that were mapped at one time.
        looks: how often it looked.
    """

    def __init__(self, pid: int) -> None:
        self.most = self.looks = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            n_mapped = len(mapped(self._pid))
            if n_mapped > 1:  # the list is not read in one go: again, with nothing moving
                process = psutil.Process(self._pid)
                process.suspend()
                try:
                    n_mapped = len(mapped(self._pid))
                finally:
                    process.resume()
            self.most = max(self.most, n_mapped)
            self.looks += 1
            self._over.wait(0.002)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def cycle(server: BankmlServer, count: int) -> list[int]:
    """So many loads of one model after another, three clients at a time, that leave every third answer unread; the
    statuses of all other answers."""
    statuses: list[int] = []

    def ask(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=600, trust_env=False) as client:
            for i in range(count):
                model, keep_alive = FILES[(i + number) % len(FILES)], 0 if i % 4 == 3 else "5m"
                if i % 3 == 2:
                    leave(client, model, keep_alive=keep_alive)
                else:
                    chat(client, model, keep_alive=keep_alive)
                statuses.append(client.get("/api/ps").status_code)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(ask, range(3)))
    return statuses


def test_cycles_under_concurrent_requests_leak_nothing_and_never_map_two_models(server: BankmlServer) -> None:
    cycle(server, 5)
    unload(server)
    before, files = anonymous(server.pid), psutil.Process(server.pid).num_fds()
    with Watch(server.pid) as watch:
        statuses = cycle(server, -(-CYCLES // 3))
    unload(server)
    assert set(statuses) == {200}
    assert watch.looks > 50
    assert watch.most == 1
    assert psutil.Process(server.pid).num_fds() <= files
    wait_until(lambda: anonymous(server.pid) < before + (4 << 20))  # given back after the map went, in another thread


def test_a_model_is_gone_within_two_seconds_of_its_keep_alive_s_end(server: BankmlServer) -> None:
    chat(server.client, FILES[1], keep_alive="300ms")
    ends = time.monotonic() + 0.3
    while mapped(server.pid):
        assert time.monotonic() < ends + 2, "it is still there"
        time.sleep(0.02)
    assert server.get("/api/ps") == {"models": []}


@pytest.mark.parametrize("keep_alive", [-1, "-1m"])
def test_a_model_that_is_kept_for_good_is_dated_so(server: BankmlServer, keep_alive: Any) -> None:
    chat(server.client, FILES[1], keep_alive=keep_alive)
    (model,) = server.get("/api/ps")["models"]
    assert model["name"] == f"{FILES[1]}:latest"
    assert int(model["expires_at"][:4]) > 2300


def test_a_conversation_has_the_same_tokens_and_counts_in_both_apis_and_after_a_reload(server: BankmlServer) -> None:
    def turns(ask: Any) -> list[tuple[str, int, int]]:
        messages: list[dict[str, str]] = []
        told = []
        for text in ("the cat and what is it", "that is the thing you hello"):
            messages.append({"role": "user", "content": text})
            content, prompt, cached = ask(messages)
            told.append((content, prompt, cached))
            messages.append({"role": "assistant", "content": content})
        return told

    def by_ollama(messages: list[dict[str, str]]) -> tuple[str, int, int]:
        options = {"num_predict": 12, "temperature": 0}
        answer = chat(server.client, FILES[0], messages=messages, options=options)
        return answer["message"]["content"], answer["prompt_eval_count"], answer["bankml_cache_n"]

    def by_openai(messages: list[dict[str, str]]) -> tuple[str, int, int]:
        body = {"model": FILES[0], "messages": messages, "max_tokens": 12, "temperature": 0}
        answer = server.post("/v1/chat/completions", body)
        timings = answer["timings"]
        prompt = answer["usage"]["prompt_tokens"]
        return answer["choices"][0]["message"]["content"], prompt, timings["cache_n"]

    told = []
    for ask in (by_ollama, by_openai, by_ollama):
        chat(server.client, FILES[1])  # another model in between: this one is loaded anew
        told.append(turns(ask))
    assert told[0] == told[1] == told[2]
    assert told[0][1][2] > 0


def test_a_file_replaced_edited_or_deleted_between_answers_is_refused_and_the_next_is_served(
    server: BankmlServer, folder: Path
) -> None:
    path = folder / f"{FILES[2]}.gguf"
    whole = path.read_bytes()

    def status_of(model: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "a"}], "stream": False}
        return server.client.post("/api/chat", json={**body, "options": {"num_predict": 1}}).status_code

    assert status_of(FILES[2]) == 200
    for damage in (whole[:-1] + b"\x7f", whole[:1000], None, (folder / f"{FILES[1]}.gguf").read_bytes()):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        assert status_of(FILES[2]) == (404 if damage is None else 503)
        assert server.client.get("/v1/models").status_code == 200
        assert status_of(FILES[0]) == 200
        path.unlink(missing_ok=True)
        path.write_bytes(whole)
        assert status_of(FILES[2]) == 200


def test_bytes_that_never_were_the_pinned_ones_are_a_400_in_every_api(server: BankmlServer, folder: Path) -> None:
    path = write_pinned(folder, "llama-f32")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    messages = [{"role": "user", "content": "a"}]
    for url, body in (
        ("/api/chat", {"messages": messages}),
        ("/v1/chat/completions", {"messages": messages}),
        ("/v1/messages", {"messages": messages, "max_tokens": 1}),
        ("/v1/responses", {"input": "a"}),
        ("/completion", {"prompt": "a"}),
    ):
        answer = server.client.post(url, json={"model": "llama-f32", "stream": False, **body})
        assert answer.status_code == 400, url
        assert "llama-f32.gguf has sha256" in answer.text
        assert server.client.post(url, json={"model": "nobody", "stream": False, **body}).status_code == 404
