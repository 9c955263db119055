"""Requests about the rest of the surface: every field of the completion endpoints besides sampling, the small
endpoints, features that are off, and bodies that are wrong.
`python -m testing.oracles.record_http --surface MODEL.gguf` asks the reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from testing.oracles.http_shapes import Exchange

FLAGS: Final = ("--metrics", "--props")
"""What the server under test is started with, besides the usual flags."""

PROMPT: Final = "Once upon a time"
QUESTION: Final = [{"role": "user", "content": "Say hi."}]
LIST: Final = "A list of fruit:\n1. apple\n2. banana\n3."


def _post(path: str, name: str, body: Any = None, raw: str | None = None) -> Exchange:
    return Exchange(f"{path}: {name}", "POST", path, body, raw)


def _native(name: str, **fields: Any) -> Exchange:
    return _post("/completion", name, {"prompt": PROMPT, "n_predict": 3, "temperature": 0, "seed": 1, **fields})


def _openai(name: str, **fields: Any) -> Exchange:
    return _post("/v1/completions", name, {"prompt": PROMPT, "max_tokens": 3, "temperature": 0, "seed": 1, **fields})


def _chat(name: str, **fields: Any) -> Exchange:
    body = {"messages": QUESTION, "max_tokens": 3, "temperature": 0, "seed": 1, **fields}
    return _post("/v1/chat/completions", name, body)


def _everywhere(name: str, **fields: Any) -> Iterable[Exchange]:
    """A request to each of the three endpoints, whole and streamed."""
    for make in (_native, _openai, _chat):
        yield make(name, **fields)
        yield make(f"{name}, streamed", stream=True, **fields)


def _progress() -> Iterable[Exchange]:
    yield from _everywhere("progress", return_progress=True, cache_prompt=False)
    for make in (_native, _openai, _chat):
        yield make("progress of a cached prompt, streamed", return_progress=True, stream=True)
        yield make("progress and timings", return_progress=True, timings_per_token=True, stream=True)
    yield _chat("progress and probabilities", return_progress=True, logprobs=True, top_logprobs=2, stream=True)
    yield _chat("progress and usage", return_progress=True, stream=True, stream_options={"include_usage": True})
    yield _chat("progress is a text", return_progress="yes", stream=True)
    prefill = [*QUESTION, {"role": "assistant", "content": "Hello, I"}]
    yield _chat("progress of a continued answer", return_progress=True, messages=prefill, stream=True)


def _verbose() -> Iterable[Exchange]:
    yield from _everywhere("verbose", verbose=True)
    yield from _everywhere("verbose with usage", verbose=True, stream_options={"include_usage": True})
    yield _openai("verbose, some fields", verbose=True, response_fields=["content", "generation_settings/n_predict"])
    yield _chat("verbose, some fields", verbose=True, response_fields=["content"])
    yield _chat("verbose, with tokens", verbose=True, return_tokens=True)
    yield _chat("verbose, a schema", verbose=True, max_tokens=8, response_format={"type": "json_object"})
    yield _chat("verbose, probabilities", verbose=True, logprobs=True, top_logprobs=1)
    yield _openai("verbose, probabilities, streamed", verbose=True, logprobs=1, stream=True)
    yield _openai("verbose, two prompts", verbose=True, prompt=["One", "Two"])
    yield _chat("verbose, progress, streamed", verbose=True, return_progress=True, stream=True)
    yield _native("verbose is a number", verbose=1)


def _lengths() -> Iterable[Exchange]:
    for number in (0, 1, -1, -2, 2**31, 2.9, True, None, "3", [3]):
        more = {"stop": ["."]} if number in (-1, None, 2**31) else {}
        yield _native(f"n_predict {number!r}", n_predict=number, **more)
    yield _native("n_predict 0, streamed", n_predict=0, stream=True)
    yield _native("max_tokens beside n_predict", max_tokens=1)
    yield _native("max_completion_tokens alone", n_predict=None, max_completion_tokens=2, max_tokens=1)
    yield _chat("max_tokens 0", max_tokens=0)
    yield _openai("max_tokens 0", max_tokens=0)
    yield _chat("max_tokens -2", max_tokens=-2)
    for name, good, bad in (
        ("n_keep", (0, 2, -1), (-2, "1")),
        ("n_discard", (0, 5), (-1, [1])),
        ("n_indent", (0, 2), (-1, "a")),
        ("n_cache_reuse", (0,), (-1, "a")),
        ("t_max_predict_ms", (-1, 0, 10**12), (-2, "a")),
        ("sse_ping_interval", (-1, 0, 60), (-2, "a")),
    ):
        for value in (*good, *bad):
            yield _native(f"{name} {value!r}", **{name: value})
    yield _native("n_indent cuts", prompt=LIST, n_predict=20, n_indent=4)
    yield _native("n_indent cuts, streamed", prompt=LIST, n_predict=20, n_indent=4, stream=True)
    yield _native("a time limit that has room", prompt=LIST, n_predict=12, t_max_predict_ms=10**9)


def _shapes() -> Iterable[Exchange]:
    yield from _everywhere("timings per token", timings_per_token=True)
    yield from _everywhere("tokens", return_tokens=True)
    yield _native("tokens of an answer with an end", prompt="The end.<|im_end|>", n_predict=20, return_tokens=True)
    fields = ["content", "timings/prompt_n", "generation_settings/seed", "nothing", "prompt/x", "", "a/"]
    yield _native("some fields", response_fields=fields)
    yield _native("some fields, streamed", response_fields=fields, stream=True)
    yield _openai("some fields", response_fields=fields)
    yield _native("no fields", response_fields=[])
    yield _native("fields is a text", response_fields="content")
    yield _native("fields with a number", response_fields=["content", 1])
    for value in (0, -1, "0", None):
        yield _native(f"id_slot {value!r}", id_slot=value)
    yield _native("no cache", cache_prompt=False)
    yield _native("cache is a number", cache_prompt=1)
    yield _openai("echo", echo=True)
    yield _openai("echo, streamed", echo=True, stream=True)
    yield _openai("suffix", suffix=" the end")
    yield _openai("best_of, user", best_of=1, user="me")
    yield _openai("usage asked for, streamed", stream=True, stream_options={"include_usage": True})
    yield _openai("no usage asked for, streamed", stream=True, stream_options={"include_usage": False})
    yield _native("n is 1", n=1, n_cmpl=1)
    yield _native("n is 0", n=0)
    yield _native("n is a text", n="1")
    yield _openai("n is null", n=None)
    yield _native("two prompts", prompt=["One", "Two"])
    yield _native("two prompts, streamed", prompt=["One", "Two"], stream=True)
    yield _openai("two prompts", prompt=["One", "Two"])
    yield _openai("two prompts, streamed", prompt=["One", "Two"], stream=True)
    yield _native("prompts of three kinds", prompt=["One", [57, 58], {"prompt_string": "Two"}])
    yield _native("prompt of tokens", prompt=[57, 58, 59])
    yield _native("mixed prompt", prompt=["One", 57])
    yield _native("an empty prompt among others", prompt=["", "Two"])
    yield _native("an empty prompt, streamed", prompt="", stream=True)
    yield _openai("an empty prompt, streamed", prompt="", stream=True)
    yield _openai("an empty prompt", prompt="")
    for name, prompt in (("a number", 5), ("true", True), ("an object", {"a": 1}), ("nothing", []), ("null", None)):
        yield _native(f"prompt is {name}", prompt=prompt)
        yield _openai(f"prompt is {name}", prompt=prompt)
    yield _native("a prompt among others is a number", prompt=["a", {}])
    yield _native("a token outside", prompt=[10**6])
    yield _native("a negative token", prompt=[-1])


def _texts() -> Iterable[Exchange]:
    for flags in ({}, {"add_special": True}, {"parse_special": True}, {"parse_special": False, "add_special": True}):
        name = ", ".join(f"{key} {value}" for key, value in flags.items()) or "plain"
        yield _post("/tokenize", name, {"content": "Hi <|im_end|> é🦙", **flags})
        yield _post("/tokenize", f"{name}, pieces", {"content": "Hi <|im_end|> é🦙", "with_pieces": True, **flags})
    yield _post("/tokenize", "a list", {"content": ["Hi", 57, " there"], "with_pieces": True})
    yield _post("/tokenize", "an empty text", {"content": ""})
    yield _post("/tokenize", "an empty list", {"content": []})
    yield _post("/tokenize", "an object", {"content": {"a": 1}})
    yield _post("/tokenize", "flags of other types", {"content": "Hi", "add_special": 1, "with_pieces": "yes"})
    yield _post("/tokenize", "null flags", {"content": "Hi", "add_special": None, "with_pieces": None})
    yield _post("/detokenize", "special", {"tokens": [1, 2, 57]})
    yield _post("/detokenize", "no tokens", {"tokens": []})
    yield _post("/detokenize", "floats", {"tokens": [57.9]})
    yield _post("/detokenize", "null", {"tokens": None})
    yield _post("/detokenize", "an object", {"tokens": {"a": 57}})
    yield _post("/apply-template", "plain", {"messages": QUESTION})
    yield _post("/apply-template", "system", {"messages": [{"role": "system", "content": "Be brief."}, *QUESTION]})
    yield _post("/apply-template", "none", {"messages": []})
    yield _post("/apply-template", "no messages", {})
    yield _post("/apply-template", "a text", {"messages": "hi"})
    yield _post("/apply-template", "variables", {"messages": QUESTION, "chat_template_kwargs": {"a": 1}})
    yield _post("/apply-template", "prefill", {"messages": [*QUESTION, {"role": "assistant", "content": "Well"}]})


def _endpoints() -> Iterable[Exchange]:
    yield Exchange("GET /props with its flags", "GET", "/props")
    yield _post("/props", "an object", {})
    yield _post("/props", "a value", {"chat_template": "x"})
    yield _post("/props", "no JSON", raw="nope")
    infill = {"input_prefix": "def f(", "input_suffix": "return 1"}
    yield _post("/infill", "a model without the tokens", infill)
    yield _post("/infill", "no JSON, a model without the tokens", raw="nope")
    control = "/v1/chat/completions/control"
    yield _post(control, "nothing", {})
    yield _post(control, "no action", {"id": "x"})
    yield _post(control, "another action", {"id": "x", "action": "stop"})
    yield _post(control, "nobody", {"id": "x", "action": "reasoning_end"})
    yield _post(control, "wrong types", {"id": 1, "action": 2})
    yield _post(control, "no JSON", raw="nope")
    for path in ("/v1/audio/transcriptions", "/audio/transcriptions"):
        yield _post(path, "no audio", {})
    for method in ("GET", "POST"):
        for path in ("/tools", "/cors-proxy"):
            yield Exchange(f"{method} {path}", method, path, {} if method == "POST" else None)
    yield Exchange("GET /v1/stream", "GET", "/v1/stream")
    yield Exchange("GET /v1/stream of nobody", "GET", "/v1/stream?conv_id=x")
    yield Exchange("DELETE /v1/stream", "DELETE", "/v1/stream")
    yield _post("/v1/streams/lookup", "nothing", {})
    yield _post("/v1/streams/lookup", "unknown", {"conversation_ids": ["x", 1]})
    for path in ("/models/load", "/models/unload"):
        yield _post(path, "no router", {"model": "x"})
    yield Exchange("DELETE /models", "DELETE", "/models")


def _bad_bodies() -> Iterable[Exchange]:
    """Bodies that are wrong, to every endpoint that takes one. Where the reference complains of its parse the words are
    its library's."""
    paths = ("/completion", "/completions", "/v1/completions", "/v1/chat/completions", "/chat/completions")
    for path in (*paths, "/tokenize", "/detokenize", "/apply-template"):
        for name, raw in (("empty", ""), ("cut short", '{"prompt": "a"'), ("two", "{} {}"), ("NaN", '{"prompt": NaN}')):
            yield _post(path, f"a body that is {name}", raw=raw)
        if path not in ("/tokenize", "/detokenize"):
            for value in ([1], "text", 5, None):
                yield _post(path, f"a body that is {type(value).__name__}", raw=json.dumps(value))
        yield _post(path, "an empty object", {})


EXCHANGES: Final = tuple(
    exchange
    for part in (_progress, _verbose, _lengths, _shapes, _texts, _endpoints, _bad_bodies)
    for exchange in part()
)
