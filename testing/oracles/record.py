"""Ask the reference and write down what it answered: `python -m testing.oracles.record [--only NAME] MODEL.gguf`.

Greedy chats, seeded completions and conversations go to `records/smollm2_q4_1.json`; completions that use the rarer
samplers, that follow a grammar, and with the ten best tokens of each step go to files beside it. A record names the
model's sha256, the reference's build and its flags; each request starts from an empty slot (`cache_prompt` false), but
for the later turns of a conversation. Token ids are those the server returned (`return_tokens`), the end token
included.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from testing.oracles import cases, prompts
from testing.oracles.constrained_cases import CONSTRAINED
from testing.oracles.reference_server import ReferenceServer
from testing.server_process import ServerError

RECORDS = Path(__file__).parent / "records"
N_PREDICT = 96
N_BEST = 10
Json = dict[str, Any]


def sha256_of(path: Path) -> str:
    """The file's sha256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tokenize(server: ReferenceServer, text: str) -> list[int]:
    """The prompt's token ids, as the server's own endpoints make them of a text."""
    body = {"content": text, "add_special": True, "parse_special": True}
    tokens: list[int] = server.post("/tokenize", body)["tokens"]
    return tokens


def templated(server: ReferenceServer, messages: Iterable[Mapping[str, str]]) -> list[int]:
    """The token ids of a chat's prompt."""
    return tokenize(server, server.post("/apply-template", {"messages": list(messages)})["prompt"])


def fill(case: cases.Case, start: int, measure: Callable[[str], int]) -> str:
    """The case's text, filled until `measure` says `n_prompt`."""
    if case.n_prompt is None or "{text}" not in case.text:
        return case.text
    head, _, tail = case.text.partition("{text}")
    if "{text}" in tail:  # the same words twice, for a sampler that looks for repetitions
        half = prompts.text_of(case.n_prompt // 2, measure, start)
        return case.text.replace("{text}", half)
    return head + prompts.text_of(case.n_prompt, lambda text: measure(head + text), start, tail)


def record_chat(server: ReferenceServer, case: cases.Case, start: int) -> Json:
    """One greedy chat."""

    def messages(text: str) -> list[Mapping[str, str]]:
        return [*case.before, {"role": "user", "content": text}]

    text = fill(case, start, lambda text: len(templated(server, messages(text))))
    request = {"messages": messages(text), "temperature": 0, "max_tokens": N_PREDICT, "cache_prompt": False}
    return {"name": case.name, **ask_chat(server, {**request, **case.options})}


def ask_chat(server: ReferenceServer, request: Json) -> Json:
    """The record of one request to /v1/chat/completions."""
    answer = server.post("/v1/chat/completions", {**request, "return_tokens": True, "verbose": True})
    choice, native = answer["choices"][0], answer["__verbose"]
    return {
        "request": request,
        "prompt_ids": templated(server, request["messages"]),
        "cache_n": answer["timings"]["cache_n"],
        "prompt_n": answer["timings"]["prompt_n"],
        "tokens": native["tokens"],
        "content": choice["message"]["content"],
        "finish_reason": choice["finish_reason"],
        "stop_type": native["stop_type"],
        "stopping_word": native["stopping_word"],
        "truncated": native["truncated"],
        "tokens_cached": native["tokens_cached"],
        "tokens_evaluated": native["tokens_evaluated"],
        "usage": answer["usage"],
    }


def record_completion(server: ReferenceServer, case: cases.Case, start: int) -> Json:
    """One completion."""
    prompt = fill(case, start, lambda text: len(tokenize(server, text)))
    request = {"prompt": prompt, "n_predict": N_PREDICT, "cache_prompt": False, **case.options}
    answer = server.post("/completion", {**request, "return_tokens": True})
    fields = ("tokens", "content", "stop_type", "stopping_word", "truncated", "tokens_cached", "tokens_evaluated")
    record = {"name": case.name, "request": request, "prompt_ids": tokenize(server, prompt)}
    record.update({field: answer[field] for field in fields})
    if "n_probs" in request:
        steps = answer["completion_probabilities"]
        record["best"] = [[[best["id"], best["logprob"]] for best in step["top_logprobs"]] for step in steps]
    return record


def record_conversation(server: ReferenceServer, name: str, turns: Iterable[cases.Turn]) -> Json:
    """A conversation: the first turn from an empty slot, the others with the slot as the turn before left it."""
    messages: list[Json] = []
    records: list[Json] = []
    request: Json = {}
    for index, turn in enumerate(turns):
        if not turn.again:
            text = turn.text.replace("{text}", " ".join(islice(prompts.passage(3 * index), turn.n_sentences)))
            messages = [*messages[: turn.keep], {"role": "user", "content": text}]
            request = {"messages": messages, "temperature": 0, "max_tokens": N_PREDICT, "cache_prompt": index > 0}
        elif index > 0:
            request = {**request, "cache_prompt": True}
        record = ask_chat(server, request)
        records.append(record)
        if not turn.again:
            messages = [*messages, {"role": "assistant", "content": record["content"]}]
    return {"name": name, "turns": records}


def write(path: Path, header: Json, groups: Mapping[str, list[Json]]) -> None:
    """Write a record file: compact JSON, one line a record, so that a difference names it."""
    lines = [f'"header":{json.dumps(header, ensure_ascii=False)}']
    for group, records in groups.items():
        entries = ",\n".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
        lines.append(f'"{group}":[\n{entries}\n]')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def record_all(server: ReferenceServer, header: Json, only: str | None, folder: Path) -> list[Path]:
    """Write the record files asked for; returns their paths."""

    def completions(group: tuple[cases.Case, ...], **options: Any) -> list[Json]:
        return [
            record_completion(
                server, cases.Case(case.name, case.n_prompt, case.text, {**case.options, **options}), 5 * index
            )
            for index, case in enumerate(group)
        ]

    def main_groups() -> dict[str, list[Json]]:
        return {
            "chats": [record_chat(server, case, 7 * index) for index, case in enumerate(cases.CHATS)],
            "completions": completions(cases.COMPLETIONS),
            "conversations": [record_conversation(server, *item) for item in cases.CONVERSATIONS.items()],
        }

    files: dict[str, Callable[[], dict[str, list[Json]]]] = {
        "smollm2_q4_1": main_groups,
        "smollm2_q4_1_samplers": lambda: {"completions": completions(cases.SAMPLERS, n_predict=48)},
        "smollm2_q4_1_constrained": lambda: {"completions": completions(CONSTRAINED)},
        "smollm2_q4_1_probabilities": lambda: {
            "completions": completions(cases.PROBABILITIES, n_predict=24, temperature=0, n_probs=N_BEST)
        },
    }
    written = []
    for name, make in files.items():
        if only in (None, name):
            path = folder / f"{name}.json"
            write(path, header, make())
            written.append(path)
    return written


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--only", metavar="NAME", help="one record file, such as smollm2_q4_1")
    parser.add_argument("--folder", type=Path, default=RECORDS, help="where the records go")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    model: Path = arguments.model
    try:
        with ReferenceServer(model, port=arguments.port) as server:
            header = {
                "model": {"file": model.name, "bytes": model.stat().st_size, "sha256": sha256_of(model)},
                "reference": {**server.identity, "flags": server.flags},
                "slot": "cache_prompt is false in each request but the later turns of a conversation",
            }
            for path in record_all(server, header, arguments.only, arguments.folder):
                print(f"{path}: {path.stat().st_size} bytes")
    except ServerError as error:
        print(f"record: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
