"""Ollama's endpoints asked as Open WebUI asks them: the bodies that its `routers/ollama.py` sends, options it knows."""

from __future__ import annotations

import json
from typing import Any

import httpx

MODEL = "smollm2-135m-instruct.q4_1:latest"
PARAMS = {
    "temperature": 0,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "seed": 42,
    "mirostat": 0,
    "mirostat_eta": 0.1,
    "mirostat_tau": 5.0,
    "num_ctx": 2048,
    "num_batch": 512,
    "num_keep": 24,
    "num_predict": 8,
    "repeat_last_n": 64,
    "repeat_penalty": 1.1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "tfs_z": 1,
    "stop": ["<|never|>"],
    "num_gpu": 0,
    "use_mmap": True,
    "use_mlock": False,
    "num_thread": 2,
}
SAID = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "Say hi."},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "Again."},
]


def chat(client: httpx.Client, **body: Any) -> list[dict[str, Any]]:
    with client.stream("POST", "/api/chat", json={"model": MODEL, "messages": SAID, **body}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.iter_lines()]


def test_it_finds_the_server_and_its_models(client: httpx.Client) -> None:
    assert client.get("/api/version").json()["version"]
    for path in ("/api/tags", "/api/ps"):
        for model in client.get(path).json()["models"]:
            assert model["model"] == model["name"] == MODEL
    assert client.post("/api/show", json={"model": MODEL}).json()["details"]["format"] == "gguf"


def test_a_chat_with_every_option_that_it_can_set_is_streamed(client: httpx.Client) -> None:
    lines = chat(client, stream=True, options=PARAMS, keep_alive="5m")
    assert "".join(line["message"]["content"] for line in lines)
    last = lines[-1]
    assert last["done"] is True
    for name in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"):
        assert last[name] > 0  # what its rates are divided by
    assert last["eval_count"] <= 8
    assert last["bankml_receipt"]["ignored"] == [
        f"options.{name}"
        for name in ("num_batch", "num_keep", "tfs_z", "num_gpu", "use_mmap", "use_mlock", "num_thread")
    ]


def test_a_title_is_asked_for_whole(client: httpx.Client) -> None:
    body = {"model": MODEL, "messages": SAID, "stream": False, "options": {"num_predict": 8}}
    answer = client.post("/api/chat", json=body).json()
    assert answer["message"]["content"]
    assert answer["done"] is True


def test_openais_endpoints_of_the_same_server_are_used_too(client: httpx.Client) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    body = {"model": model["id"], "messages": SAID, "stream": False, "max_tokens": 4}
    assert client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]


def test_a_model_is_unloaded_by_an_empty_prompt(client: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": "", "keep_alive": 0}
    assert client.post("/api/generate", json=body).json()["done_reason"] == "unload"
    assert client.get("/api/ps").json() == {"models": []}
    assert client.post("/api/generate", json={"model": MODEL, "keep_alive": -1}).json()["done_reason"] == "load"
