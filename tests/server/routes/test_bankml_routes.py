"""bankML's own endpoints of a running server, as Savante and its console read them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from registry.pins import DEFAULT_MODEL
from testing.server_process import BankmlServer, free_port


def test_identity_is_ready_as_every_client_checks_it(client: httpx.Client, model_path: Path) -> None:
    body = client.get("/bankml").json()
    assert "error" not in body
    verified = body["verified"]
    assert list(verified) == ["verdict", "guard", "engine", "model_sha256", "bankml", "arch", "name", "types"]
    assert (verified["verdict"], verified["guard"]) == ("play", "play")
    assert verified["model_sha256"] == DEFAULT_MODEL.sha256
    assert (verified["arch"], verified["types"]["Q4_1"]) == ("llama", 210)
    assert (body["model"], body["engine"]) == (str(model_path), "native")
    assert body["resident"] in body["models"]
    assert body == client.get("/bankml").json()


def test_another_load_is_another_key_and_what_was_verified_last_stays_known(
    start_server: Callable[..., BankmlServer],
) -> None:
    with start_server("-c", "512") as server:
        before = server.get("/bankml")
        server.post("/api/generate", {"model": before["resident"], "keep_alive": 0})
        while server.get("/api/ps")["models"]:
            time.sleep(0.01)
        gone = server.get("/bankml")
        assert gone == {**before, "resident": None}
        server.post("/completion", {"prompt": "a", "n_predict": 1})
        again = server.get("/bankml")
        assert (again["resident"], again["verified"]) == (before["resident"], before["verified"])
        assert again["hashed_at"] > before["hashed_at"]


def test_the_last_record_is_there_before_the_stream_ends(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "stream": True, "temperature": 0}
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if "bankml_receipt" in line:
                metrics = client.get("/bankml/metrics").json()
    record = metrics["records"][-1]
    assert (record["completion_tokens"], record["finish"], record["model"]) == (
        4,
        "length",
        "SmolLM2-135M-Instruct.Q4_1",
    )
    assert metrics["kept"] == len(metrics["records"])


def test_usage_is_sampled_once_for_all_who_ask_within_a_second(client: httpx.Client) -> None:
    first, second = (client.get("/bankml/usage").json() for _ in range(2))
    assert first == second
    assert first["processes"][0]["rss_bytes"] > 0


def test_status_has_everything_and_reads_nothing_from_the_engine(client: httpx.Client, server: BankmlServer) -> None:
    with client.stream("POST", "/completion", json={"prompt": "a", "n_predict": 400, "stream": True}) as answer:
        next(answer.iter_lines())
        status = client.get("/bankml/status").json()
    assert list(status) == ["at", "bankml", "verified", "serve", "cpu", "usage", "metrics", "disk", "checks", "log"]
    assert (status["serve"]["pid"], status["serve"]["native"], status["serve"]["threads"]) == (server.pid, True, 2)
    assert status["serve"]["listen"] == f"127.0.0.1:{server.port}"
    assert {one["check"] for one in status["checks"]} == {"model", "memory", "swap", "disk"}
    assert any(line["msg"].startswith("model ") and line["level"] == 2 for line in status["log"])


def test_diagnostics_ping_the_own_addresses(client: httpx.Client, server: BankmlServer) -> None:
    report = client.get("/bankml/diagnostics").json()
    assert [one["address"] for one in report["ping"]] == [f"127.0.0.1:{server.port}"]
    assert report["ping"][0]["connect_ms"] > 0
    assert report["processes"][0]["pid"] == server.pid
    assert (report["gpus"], report["energy"]) == ([], None)


def test_both_addresses_are_told(model_path: Path) -> None:
    upstream = f"127.0.0.1:{free_port()}"
    server = BankmlServer(model_path, "-c", "512")
    at = server.command.index("--host")
    server.command[at : at + 4] = [f"--listen=127.0.0.1:{server.port}", f"--upstream={upstream}"]
    with server:
        served = server.get("/bankml/status")["serve"]
        assert (served["listen"], served["upstream"]) == (f"127.0.0.1:{server.port}", upstream)
        assert server.get("/bankml")["upstream"] == upstream


@pytest.mark.parametrize("accept", ["text/html", "text/html,application/xhtml+xml,*/*;q=0.8"])
def test_a_browser_gets_the_status_page(client: httpx.Client, accept: str) -> None:
    page = client.get("/", headers={"accept": accept})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "/bankml/status" in page.text
    assert not re.search(r"""(src|href)\s*=|https?://""", page.text)  # nothing is loaded from anywhere
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_they_ask_for_the_key_and_only_read(start_server: Callable[..., BankmlServer]) -> None:
    with start_server("-c", "512", "--api-key", "k") as server, httpx.Client(trust_env=False) as http:
        for path in ("", "/metrics", "/usage", "/status", "/diagnostics"):
            url = f"{server.url}/bankml{path}"
            assert http.get(url).status_code == 401
            assert http.get(url, headers={"X-Api-Key": "k"}).status_code == 200
            assert http.post(url, headers={"X-Api-Key": "k"}, json={}).status_code == 404
