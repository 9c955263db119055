"""How `/api/generate` and `/api/chat` make their prompts: earlier tokens, gaps, and prompts only shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from testing.oracles.infill_shapes import GAP, SETUPS
from testing.server_process import BankmlServer

MODEL = "smollm2"
GREEDY = {"temperature": 0, "num_predict": 8}


def post(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    response = client.post(path, json={"model": MODEL, "stream": False, "options": GREEDY, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def tokens(client: httpx.Client, text: str) -> list[int]:
    found: list[int] = client.post("/tokenize", json={"content": text}).json()["tokens"]
    return found


def rendered(client: httpx.Client, path: str, **body: Any) -> str:
    answer = post(client, path, _debug_render_only=True, **body)
    shown: str = answer["_debug_info"]["rendered_template"]
    return shown


# -- only shown --------------------------------------------------------------------------------------------------------


def test_a_rendered_prompt_is_that_of_apply_template(client: httpx.Client) -> None:
    messages = [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi"}]
    wanted = client.post("/apply-template", json={"messages": messages}).json()["prompt"]
    assert rendered(client, "/api/chat", messages=messages) == wanted
    assert rendered(client, "/api/generate", prompt="Hi", system="Be terse.") == wanted
    assert rendered(client, "/api/generate", prompt="Hi", raw=True) == "Hi"
    answer = post(client, "/api/chat", messages=messages, _debug_render_only=True)
    assert list(answer) == ["model", "created_at", "message", "done", "_debug_info"]
    assert answer["message"] == {"role": "", "content": ""}


# -- context -----------------------------------------------------------------------------------------------------------


def test_the_context_is_the_tokens_of_prompt_and_answer(client: httpx.Client) -> None:
    answer = post(client, "/api/generate", prompt="Say hi.")
    prompt = rendered(client, "/api/generate", prompt="Say hi.")
    assert answer["context"] == tokens(client, prompt + answer["response"])
    body = {"model": MODEL, "prompt": "Say hi.", "options": GREEDY}
    lines = [json.loads(line) for line in client.post("/api/generate", json=body).text.splitlines()]
    assert [line.get("context") for line in lines] == [None] * (len(lines) - 1) + [answer["context"]]


def test_a_context_stands_before_the_prompt(client: httpx.Client) -> None:
    first = post(client, "/api/generate", prompt="Say hi.")
    before = client.post("/detokenize", json={"tokens": first["context"]}).json()["content"]
    after = rendered(client, "/api/generate", prompt="Again.")
    second = post(client, "/api/generate", prompt="Again.", context=first["context"])
    raw = post(client, "/api/generate", prompt=before + after, raw=True)
    assert second["response"] == raw["response"]
    assert second["prompt_eval_count"] == raw["prompt_eval_count"]
    assert second["context"] == tokens(client, before + after + second["response"])
    assert rendered(client, "/api/generate", prompt="Again.", context=first["context"]) == before + after


def test_a_raw_answer_has_no_context_and_a_chat_neither(client: httpx.Client) -> None:
    assert "context" not in post(client, "/api/generate", prompt="Hi", raw=True)
    assert "context" not in post(client, "/api/chat", messages=[{"role": "user", "content": "Hi"}])


def test_a_context_of_unknown_tokens_is_refused(client: httpx.Client) -> None:
    for context in ([-1], [49_152], [2**70]):
        body = {"model": MODEL, "prompt": "Hi", "context": context}
        response = client.post("/api/generate", json=body)
        assert response.status_code == 400
        assert list(response.json()) == ["error"]


# -- gaps --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server whose vocabulary has the markers of a gap."""
    (setup,) = (setup for setup in SETUPS if setup.name == "no file tokens")
    path = setup.model().write(tmp_path_factory.mktemp("gap") / "smollm2.gguf")
    with BankmlServer(path, *setup.flags) as server:
        yield server.client


def test_a_gap_is_filled_as_infill_fills_it(filling: httpx.Client) -> None:
    sides = {"prompt": "def f(x):\n    ", "suffix": "\n    return y\n"}
    options = {"num_predict": 5, "seed": 1}
    mine = post(filling, "/api/generate", **sides, options=options)
    body = {"input_prefix": sides["prompt"], "input_suffix": sides["suffix"], "n_predict": 5, "seed": 1}
    theirs = filling.post("/infill", json=body).json()
    assert mine["response"] == theirs["content"]
    assert mine["prompt_eval_count"] == theirs["tokens_evaluated"]
    text = f"{GAP[0]}{sides['prompt']}{GAP[1]}{sides['suffix']}{GAP[2]}"
    assert rendered(filling, "/api/generate", **sides) == text
    assert mine["context"] == tokens(filling, text + mine["response"])


def test_a_gap_that_does_not_fit_is_refused(filling: httpx.Client) -> None:
    response = filling.post("/api/generate", json={"model": MODEL, "prompt": "word " * 400, "suffix": "x"})
    assert response.status_code == 400
    assert "exceeds the available context size" in response.json()["error"]


def test_a_vocabulary_without_the_markers_cannot_fill_gaps(client: httpx.Client) -> None:
    response = client.post("/api/generate", json={"model": MODEL, "prompt": "a", "suffix": "b"})
    assert response.status_code == 400
    assert response.json() == {"error": "registry.ollama.ai/library/smollm2:latest does not support insert"}
