"""What the server says about itself, and the doors of the real program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from engine.model import Model
from registry.pins import DEFAULT_MODEL
from server.receipts import BUILD
from server.routes.status import file_type
from testing.server_process import BankmlServer


def test_health(client: httpx.Client) -> None:
    for path in ("/health", "/v1/health"):
        assert client.get(path).json() == {"status": "ok"}


def test_models_name_the_file_and_its_numbers(client: httpx.Client, model_path: Path) -> None:
    body = client.get("/v1/models").json()
    assert body["data"][0]["id"] == str(model_path)
    assert body["data"][0]["meta"]["n_ctx"] == 8192
    assert body["models"][0]["details"]["format"] == "gguf"


def test_props_have_what_clients_read(client: httpx.Client, model_path: Path) -> None:
    props = client.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 8192
    assert props["model_path"] == str(model_path)
    assert props["build_info"] == BUILD


@pytest.mark.parametrize("path", ["/health/", "/nope", "/v1", "/v1/nope", "/%00", "/completion/x"])
def test_an_unknown_path_is_a_404(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "File Not Found"


def test_flags_are_shown_and_keys_are_asked_for(start_server: Callable[..., BankmlServer]) -> None:
    flags = ["-c", "512", "--alias", "small,alias", "--tags", "a,b", "--api-key", "k1,k2", "--temp", "0.25", "-n", "3"]
    with start_server(*flags) as server, httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        assert client.get("/v1/models").status_code == 401
        assert client.get("/nowhere").status_code == 401
        assert client.get("/health").status_code == 200
        client.headers["Authorization"] = "Bearer k2"
        model = client.get("/v1/models").json()["data"][0]
        assert (model["id"], model["aliases"], model["tags"]) == ("alias", ["alias", "small"], ["a", "b"])
        settings = client.get("/props").json()["default_generation_settings"]
        assert (settings["n_ctx"], settings["params"]["temperature"]) == (512, 0.25)
        answer = client.post("/completion", json={"prompt": "Once"}).json()
        assert (answer["model"], answer["tokens_predicted"]) == ("alias", 3)
        assert (answer["generation_settings"]["n_predict"], answer["generation_settings"]["temperature"]) == (3, 0.25)


def test_a_foreign_host_and_other_kinds_of_bodies_are_turned_away(server: BankmlServer, client: httpx.Client) -> None:
    assert client.get("/health", headers={"host": "evil.com"}).status_code == 403
    assert client.get("/health", headers={"host": f"localhost:{server.port}"}).status_code == 200
    text = client.post("/completion", content=b'{"prompt":"x"}', headers={"content-type": "text/plain"})
    assert text.status_code == 415
    long = client.post("/completion", content=b" " * (17 * 2**20), headers={"content-type": "application/json"})
    assert long.status_code == 413
    assert client.get("/health").status_code == 200


def test_the_record_and_the_server_speak_of_the_same_file(client: httpx.Client) -> None:
    answer = client.post("/completion", json={"prompt": "x", "n_predict": 1}).json()
    assert answer["bankml_receipt"]["model_sha256"] == DEFAULT_MODEL.sha256


@pytest.mark.parametrize("value", [None, "x", 1.5, float("nan"), [1, 2], -1, 10**6])
def test_a_weight_type_that_is_no_known_number_is_unknown(value: Any) -> None:
    model = cast(Model, SimpleNamespace(metadata={} if value is None else {"general.file_type": value}))
    assert file_type(model) == "unknown, may not work"


METRICS = (
    ("counter", "prompt_tokens_total prompt_tokens_cached_total prompt_seconds_total tokens_predicted_total"),
    ("counter", "tokens_predicted_seconds_total n_decode_total n_tokens_max spec_decode_num_draft_tokens_total"),
    ("counter", "spec_decode_num_accepted_tokens_total spec_decode_num_drafts_total"),
    ("gauge", "prompt_tokens_seconds predicted_tokens_seconds requests_processing requests_deferred"),
    ("gauge", "n_busy_slots_per_decode"),
)


def test_metrics_are_the_references_by_name_kind_and_order(start_server: Callable[..., BankmlServer]) -> None:
    with start_server("--metrics", "-c", "256") as server:
        assert server.client.get("/props").json()["endpoint_metrics"] is True
        asked = {"prompt": "one two three", "n_predict": 4, "seed": 1, "ignore_eos": True}
        prompts = server.client.post("/tokenize", json={"content": asked["prompt"]}).json()["tokens"]
        server.client.post("/completion", json=asked)
        answer = server.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"
    assert int(answer.headers["process-start-time-unix"]) > 1_700_000_000
    lines = answer.text.splitlines()
    kinds = [line.removeprefix("# TYPE llamacpp:") for line in lines if line.startswith("# TYPE llamacpp:")]
    assert kinds == [f"{name} {kind}" for kind, names in METRICS for name in names.split()]
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["llamacpp:prompt_tokens_total"] == str(len(prompts))
    assert values["llamacpp:tokens_predicted_total"] == "4"
    assert values["llamacpp:n_decode_total"] == "4"
    assert values["llamacpp:requests_processing"] == "0"


def test_props_change_only_with_their_flag(client: httpx.Client) -> None:
    answer = client.post("/props", json={})
    assert answer.status_code == 501
    assert answer.json()["error"]["message"] == (
        "This server does not support changing global properties. Start it with `--props`"
    )
    assert client.get("/props").json()["endpoint_props"] is False


def test_metrics_need_their_flag(client: httpx.Client) -> None:
    answer = client.get("/metrics")
    assert answer.status_code == 501
    assert answer.json()["error"]["message"] == (
        "This server does not support metrics endpoint. Start it with `--metrics`"
    )
    assert client.get("/props").json()["endpoint_metrics"] is False


def test_the_command_line_may_give_the_chat_template_and_what_streams_and_answers_show(
    start_server: Callable[..., BankmlServer],
) -> None:
    template = "{% for message in messages %}{{ mark }}{{ message.content }}{% endfor %}"
    flags = ["--chat-template", template, "--chat-template-kwargs", '{"mark": ">"}', "-c", "256", "-v"]
    with start_server(*flags) as server:
        assert server.client.get("/props").json()["chat_template"] == template
        asked = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        shown = server.client.post("/v1/chat/completions", json=asked).json()["__verbose"]
        assert shown["prompt"] == ">Hi"
        asked["verbose"] = False
        assert "__verbose" not in server.client.post("/v1/chat/completions", json=asked).json()
