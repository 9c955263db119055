"""Ask the reference what happens at the edges of a generation.

`python -m testing.oracles.record_generation MODEL.gguf`. Stop strings, cut characters, limits, a full context, an
empty prompt: each request goes to `/completion` twice, whole and streamed, from an empty slot, against a server with a
context of 256. `records/generation.json` gets both answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from testing.oracles.record import RECORDS, sha256_of, tokenize
from testing.oracles.reference_server import ReferenceServer

N_CTX = 256
_FRANCE = "The capital of France is"
_EMOJI = "🙂🚀🙂🚀🙂🚀🙂🚀"
_ANSWER = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
_CODE = "def f(x):\n    if x:\n        return 1\n\ndef g(x):\n"
_COUNT = " one two three four five six seven eight nine ten"
GREEDY = {"temperature": 0, "n_predict": 16}


def _budget(tokens: int, start: str, *ends: str, message: str | None = " Enough.", **more: Any) -> Mapping[str, Any]:
    """Fields that take what stands between markers for reasoning. Without a message nothing is forced."""
    fields = {f"reasoning_budget_{name}": value for name, value in (("start_tag", start), ("end_tags", ends))}
    fields |= {} if message is None else {"reasoning_budget_message": message}
    return {"prompt": _FRANCE, "reasoning_budget_tokens": tokens, **fields, **more}


_LAZY: Mapping[str, Any] = {
    "grammar": 'root ::= "Paris." [x-z]*',
    "grammar_lazy": True,
    "grammar_triggers": [{"type": 1, "value": "Paris."}],
    "n_predict": 12,
}
REASONING: Mapping[str, Mapping[str, Any]] = {
    "limited": _budget(3, ".", "!!"),
    "limited-to-nothing": _budget(0, ".", "!!"),
    "of-one-token": _budget(1, ".", "!!"),
    "unlimited": _budget(-1, ".", "!!"),
    "without-a-message": _budget(3, ".", "!!", message=None),
    "with-an-empty-message": _budget(3, ".", "!!", message=""),
    "ended-by-itself": _budget(9, ".", "answer", "The answer"),
    "ended-by-the-first-of-several": _budget(2, ".", "</think>", "answer"),
    "begun-by-the-prompt": _budget(2, " is", "!!", generation_prompt=" is"),
    "begun-again": _budget(2, " Paris", ".", n_predict=30),
    "without-an-end": _budget(2, ".", ""),
    "without-a-start": _budget(2, "", "!!"),
    **{f"cut-character-{n}": _budget(n, "🚀", "!!", prompt=_EMOJI) for n in (1, 2, 3, 4)},
    "and-a-lazy-grammar": _budget(-1, " is", "!!", **_LAZY, generation_prompt=" is"),
    "ended-and-a-lazy-grammar": _budget(-1, " is", " Paris", **_LAZY, generation_prompt=" is"),
    "limited-and-a-lazy-grammar": _budget(1, " is", " Paris", **_LAZY, generation_prompt=" is"),
    "over-and-a-lazy-grammar": _budget(9, ".", "!!", **_LAZY),
}

REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"prompt": _FRANCE},
    "n-predict-0": {"prompt": _FRANCE, "n_predict": 0},
    "n-predict-1": {"prompt": _FRANCE, "n_predict": 1},
    "stop-inside-a-token": {"prompt": _FRANCE, "stop": ["ris"]},
    "stop-over-tokens": {"prompt": _FRANCE, "stop": [".\n\nThe"]},
    "stop-first-of-two": {"prompt": _FRANCE, "stop": ["The", "Paris"]},
    "stop-two-at-one-place": {"prompt": _FRANCE, "stop": [".\n\nT", ".\n"]},
    "stop-never-comes": {"prompt": _FRANCE, "stop": ["Paris, X", "\n\n\n"]},
    "stop-empty": {"prompt": _FRANCE, "stop": [""]},
    "stop-empty-among-others": {"prompt": _EMOJI, "stop": ["xyz", ""]},
    "held-back-at-the-limit": {"prompt": _FRANCE, "stop": ["Paris.\n\nX"], "n_predict": 3},
    "held-back-at-the-end-token": {"prompt": _ANSWER, "stop": [".\nX"], "n_predict": 40},
    "end-token": {"prompt": _ANSWER, "n_predict": 40},
    "ignore-eos": {"prompt": _ANSWER, "n_predict": 24, "ignore_eos": True},
    **{f"emoji-{n}": {"prompt": _EMOJI, "n_predict": n} for n in range(1, 9)},
    "emoji-stop": {"prompt": _EMOJI, "stop": ["🚀"]},
    "emoji-stop-half": {"prompt": _EMOJI, "stop": ["🚀🚀"], "n_predict": 11},
    "bytes-of-no-character": {"prompt": _FRANCE, "n_predict": 6, "logit_bias": [[230, 100]], "seed": 1},
    "indent": {"prompt": _CODE, "n_indent": 4, "n_predict": 48},
    "indent-deep": {"prompt": _CODE, "n_indent": 12, "n_predict": 48},
    "time-limit-at-a-newline": {"prompt": _FRANCE, "t_max_predict_ms": 1},
    "time-limit-without-a-newline": {"prompt": _COUNT * 4, "t_max_predict_ms": 1},
    "seeded": {"prompt": _FRANCE, "temperature": 1.2, "seed": 11, "n_predict": 32},
    "context-full": {"prompt": _COUNT * 24, "n_predict": -1},
    "context-full-at-once": {"prompt": "x", "n_prompt": N_CTX - 1},
    "context-full-after-one": {"prompt": "x", "n_prompt": N_CTX - 2},
    "context-full-and-stop": {"prompt": "x", "n_prompt": N_CTX - 1, "stop": [""]},
    "empty-prompt": {"prompt": ""},
    "too-long": {"prompt": "x", "n_prompt": N_CTX},
    **{f"reasoning-{name}": request for name, request in REASONING.items()},
}
KEPT = (
    *("content", "tokens", "stop_type", "stopping_word", "truncated", "tokens_cached", "tokens_evaluated"),
    *("tokens_predicted", "has_new_line"),
)


def ask(server: ReferenceServer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One request, whole and streamed."""
    request = {**GREEDY, **asked, "cache_prompt": False}
    prompt = tokenize(server, request.pop("prompt"))
    n_prompt = request.pop("n_prompt", len(prompt))
    prompt = (prompt * n_prompt)[:n_prompt] if n_prompt != len(prompt) else prompt
    body = {**request, "prompt": prompt or "", "return_tokens": True}
    record: dict[str, Any] = {"request": request, "prompt_ids": prompt}
    whole = server.client.post("/completion", json=body)
    if whole.status_code != httpx.codes.OK:
        return {**record, "error": whole.json()["error"]}
    answer = whole.json()
    record |= {name: answer[name] for name in KEPT}
    record |= {name: answer["timings"][name] for name in ("cache_n", "prompt_n", "predicted_n")}
    streamed = server.client.post("/completion", json={**body, "stream": True}).text
    events = [json.loads(line.removeprefix("data: ")) for line in streamed.splitlines() if line]
    record["events"] = [[event["content"], event["tokens"], "timings" in event] for event in events]
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model
    with ReferenceServer(model, "-c", str(N_CTX)) as server:
        records = {name: ask(server, asked) for name, asked in REQUESTS.items()}
        header = {**server.identity, "flags": server.flags, "model_sha256": sha256_of(model), "n_ctx": N_CTX}
    lines = [f"{json.dumps(name)}:{json.dumps(record, ensure_ascii=False)}" for name, record in records.items()]
    text = '{"header":' + json.dumps(header) + ',\n"records":{\n' + ",\n".join(lines) + "\n}}\n"
    (RECORDS / "generation.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
