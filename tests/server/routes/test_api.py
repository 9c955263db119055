"""Ollama's API against a real server with the real model: its own client unmodified, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import ollama
import pytest

from registry.pins import DEFAULT_MODEL
from server.wire.ollama import CHAT_FIELDS, GENERATE_FIELDS
from testing.server_process import ServerProcess

Start = Callable[..., AbstractContextManager[ServerProcess]]

MODEL = "smollm2"
CONTEXT = 512
GREEDY = {"temperature": 0, "num_predict": 12}
SEEDED = {"temperature": 1.1, "seed": 4, "num_predict": 12}
ASK = [{"role": "user", "content": "Say hello."}]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


@pytest.fixture(scope="module")
def server(start_server: Start) -> Iterator[ServerProcess]:
    """A server of our own: these tests unload its model."""
    with start_server("-c", str(CONTEXT)) as process:
        yield process


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def post(http: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    response = http.post(path, json={"model": MODEL, "stream": False, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


# -- about the server --------------------------------------------------------------------------------------------------


def test_the_client_lists_what_there_is_and_what_runs(client: ollama.Client) -> None:
    client.generate(MODEL, keep_alive="10m")
    (listed,) = client.list().models
    (running,) = client.ps().models
    for model in (listed, running):
        assert model.model == "smollm2-135m-instruct.q4_1:latest"
        assert model.size == DEFAULT_MODEL.size
        assert model.digest == DEFAULT_MODEL.sha256
        assert model.details is not None
        assert model.details.family == "llama"
        assert model.details.parameter_size == "134.52M"
        assert model.details.quantization_level == "Q4_1"
    assert running.context_length == CONTEXT
    assert running.size_vram == 0
    assert isinstance(running.expires_at, datetime)
    assert timedelta(minutes=9) < running.expires_at - datetime.now(UTC) < timedelta(minutes=11)


def test_the_client_shows_a_model(client: ollama.Client) -> None:
    shown = client.show(MODEL)
    assert shown.template is not None
    assert "<|im_start|>" in shown.template
    assert shown.capabilities == ["completion"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.modelinfo["general.parameter_count"] == 134_515_008
    assert shown.modelinfo["tokenizer.ggml.tokens"] is None


def test_the_root_is_recognised_as_ollamas(http: httpx.Client) -> None:
    for method in ("GET", "HEAD"):
        response = http.request(method, "/")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/plain")
        assert response.text == ("Ollama is running" if method == "GET" else "")


def test_the_version_says_that_this_is_bankml(http: httpx.Client) -> None:
    version = http.get("/api/version").json()
    assert version["bankml"] is True
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", version["version"])


@pytest.mark.parametrize("path", ["/api/version", "/api/tags"])
def test_heads_are_answered(http: httpx.Client, path: str) -> None:
    assert http.head(path).status_code == 200


def test_tags_say_whether_a_model_can_be_played(http: httpx.Client) -> None:
    (model,) = http.get("/api/tags").json()["models"]
    assert list(model) == ["name", "model", "modified_at", "size", "digest", "details", "capabilities", "bankml"]
    assert TIME.fullmatch(model["modified_at"])
    assert model["bankml"] == {"native": True, "reason": None, "file": DEFAULT_MODEL.file_name, "found": True}


def test_a_show_has_floats_of_32_bits_as_go_writes_them(http: httpx.Client) -> None:
    text = http.post("/api/show", json={"model": "smollm2"}).text
    assert '"llama.attention.layer_norm_rms_epsilon":0.00001,' in text
    assert '"llama.rope.freq_base":100000,' in text


def test_a_verbose_show_has_the_arrays_and_the_tensors(http: httpx.Client) -> None:
    shown = http.post("/api/show", json={"name": "SmolLM2:latest", "verbose": True}).json()
    assert len(shown["model_info"]["tokenizer.ggml.tokens"]) == 49_152
    assert {"name": "output_norm.weight", "type": "F32", "shape": [576]} in shown["tensors"]


# -- answers -----------------------------------------------------------------------------------------------------------


def test_format_gives_what_llama_server_s_field_gives(client: ollama.Client, http: httpx.Client) -> None:
    schema = {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 2, "maxItems": 4}
    body = {"messages": ASK, "json_schema": schema, "seed": 5, "max_tokens": 40}
    there = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    here = client.chat(MODEL, messages=ASK, format=schema, options={"seed": 5, "num_predict": 40})
    assert here.message.content == there


def test_what_a_schema_asks_in_vain_is_in_the_receipt_whatever_brought_it(start_server: Start) -> None:
    schema = {"type": "integer", "multipleOf": 3}
    with (
        start_server("--json-schema", json.dumps(schema), "-c", "512") as process,
        httpx.Client(base_url=process.url, timeout=120) as http,
    ):
        asked: list[tuple[str, dict[str, Any]]] = [
            ("/completion", {"prompt": "x", "n_predict": 3}),
            ("/completion", {"prompt": "x", "n_predict": 3, "json_schema": schema}),
            ("/v1/chat/completions", {"messages": ASK, "max_tokens": 3, "json_schema": schema}),
            ("/api/chat", {"model": MODEL, "messages": ASK, "stream": False, "format": schema, "options": GREEDY}),
        ]
        for path, body in asked:
            receipt = http.post(path, json=body).json()["bankml_receipt"]
            assert ["multipleOf" in warning for warning in receipt["warnings"]] == [True], (path, body)
        free = http.post("/completion", json={"prompt": "x", "n_predict": 3, "grammar": "root ::= .*"}).json()
        assert free["bankml_receipt"]["warnings"] == []


def test_a_format_that_cannot_be_is_refused(http: httpx.Client) -> None:
    for path, given in (("/api/chat", {"messages": ASK}), ("/api/generate", {"prompt": "x", "raw": True})):
        response = http.post(path, json={"model": MODEL, "format": {"type": "wat"}, **given})
        assert response.status_code == 400
        assert "unrecognized type wat" in response.json()["error"]


@pytest.mark.parametrize(("path", "key"), [("/api/generate", "response"), ("/api/chat", "message")])
def test_answers_are_ndjson_lines_unless_told_otherwise(http: httpx.Client, path: str, key: str) -> None:
    body = {"model": MODEL, "prompt": "Hi", "messages": ASK, "options": GREEDY}
    body.pop("messages" if key == "response" else "prompt")
    response = http.post(path, json=body)
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert response.text.endswith("\n")
    for line in lines[:-1]:
        assert list(line) == ["model", "created_at", key, "done"]
        assert TIME.fullmatch(line["created_at"])
    assert lines[-1][key] in ("", {"role": "assistant", "content": ""})
    times = [datetime.fromisoformat(line["created_at"][:26].rstrip("Z") + "+00:00") for line in lines]
    assert times == sorted(times)
    whole = http.post(path, json={**body, "stream": False})
    assert whole.headers["content-type"].startswith("application/json")
    assert list(whole.json()) == list(lines[-1])


def test_the_counts_and_durations_are_measured(http: httpx.Client) -> None:
    prompt = "The cat sat on the mat because it"
    first = post(http, "/api/generate", prompt="Something else entirely.", raw=True, options=GREEDY)
    assert first["done_reason"] == "length"
    answer = post(http, "/api/generate", prompt=prompt, raw=True, options=GREEDY)
    assert answer["eval_count"] == 12
    assert answer["prompt_eval_count"] == len(http.post("/tokenize", json={"content": prompt}).json()["tokens"])
    assert answer["bankml_cache_n"] == 0
    assert answer["total_duration"] >= answer["prompt_eval_duration"] + answer["eval_duration"] > 0
    assert answer["total_duration"] >= answer["load_duration"] > 0
    again = post(http, "/api/generate", prompt=prompt, raw=True, options=GREEDY)
    assert again["response"] == answer["response"]
    assert again["bankml_cache_n"] == again["prompt_eval_count"] - 1


def test_the_receipt_hashes_what_was_asked_and_said(http: httpx.Client) -> None:
    body = json.dumps({"model": MODEL, "messages": ASK, "options": {**GREEDY, "num_thread": 7}, "colour": 1}).encode()
    response = http.post("/api/chat", content=body, headers={"Content-Type": "application/json"})
    lines = [json.loads(line) for line in response.text.splitlines()]
    text = "".join(line["message"]["content"] for line in lines)
    receipt = lines[-1]["bankml_receipt"]
    assert receipt["response_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert receipt["request_sha256"] == hashlib.sha256(body).hexdigest()
    assert receipt["model_sha256"] == DEFAULT_MODEL.sha256
    assert receipt["prompt_tokens"] == lines[-1]["prompt_eval_count"]
    assert receipt["completion_tokens"] == lines[-1]["eval_count"] == 12
    assert receipt["ignored"] == ["colour", "options.num_thread"]


def test_a_request_samples_as_llama_server_would(http: httpx.Client) -> None:
    mine = post(http, "/api/chat", messages=ASK, options={"seed": 7, "num_predict": 16})
    body = {"messages": ASK, "seed": 7, "max_tokens": 16}
    theirs = http.post("/v1/chat/completions", json=body).json()
    assert mine["message"]["content"] == theirs["choices"][0]["message"]["content"]


def test_a_raw_prompt_is_continued_as_it_is(http: httpx.Client) -> None:
    mine = post(http, "/api/generate", prompt="Once upon a time", raw=True, options=GREEDY)
    theirs = http.post("/completion", json={"prompt": "Once upon a time", "temperature": 0, "n_predict": 12}).json()
    assert mine["response"] == theirs["content"]


def test_a_stop_string_ends_the_answer_and_is_not_in_it(http: httpx.Client) -> None:
    whole = post(http, "/api/generate", prompt="1, 2, 3, 4,", raw=True, options=GREEDY)["response"]
    stop = whole[4:7]
    options = {**GREEDY, "stop": [stop]}
    answer = post(http, "/api/generate", prompt="1, 2, 3, 4,", raw=True, options=options)
    assert answer["done_reason"] == "stop"
    assert answer["response"] == whole[: whole.index(stop)]


def logprobs_of(http: httpx.Client, path: str, **body: Any) -> tuple[str, list[dict[str, Any]]]:
    """The text and the `logprobs` of a streamed answer, which must be those of the whole one."""
    whole = post(http, path, logprobs=True, **body)
    lines = http.post(path, json={"model": MODEL, "logprobs": True, **body}).text.splitlines()
    tokens = [token for line in map(json.loads, lines) for token in line.get("logprobs", [])]
    assert tokens == whole["logprobs"]
    return whole["response"] if path == "/api/generate" else whole["message"]["content"], tokens


def test_the_client_reads_logprobs_whole_and_streamed(client: ollama.Client) -> None:
    asked = {"options": GREEDY, "logprobs": True, "top_logprobs": 2}
    whole = client.chat(MODEL, messages=ASK, **asked)
    assert whole.logprobs is not None
    assert "".join(token.token for token in whole.logprobs) == whole.message.content
    assert all(token.top_logprobs and len(token.top_logprobs) == 2 for token in whole.logprobs)
    parts = list(client.chat(MODEL, messages=ASK, stream=True, **asked))
    assert [token for part in parts for token in part.logprobs or ()] == whole.logprobs
    assert all("".join(token.token for token in part.logprobs or ()) == part.message.content for part in parts)
    generated = client.generate(MODEL, prompt="Say hello.", options=GREEDY, logprobs=True)
    assert generated.logprobs is not None
    assert "".join(token.token for token in generated.logprobs) == generated.response
    assert generated.logprobs[0].top_logprobs is None


@pytest.mark.parametrize(("n_best", "options"), [(0, GREEDY), (1, SEEDED), (5, GREEDY), (20, SEEDED)])
def test_logprobs_are_llama_servers_floats(http: httpx.Client, n_best: int, options: dict[str, Any]) -> None:
    native = {"prompt": "Once upon a time", "n_probs": max(1, n_best), "n_predict": options["num_predict"]}
    native |= {name: value for name, value in options.items() if name != "num_predict"}
    probable = http.post("/completion", json=native).json()["completion_probabilities"]
    raw = {"prompt": native["prompt"], "raw": True, "options": options, "top_logprobs": n_best}
    _, tokens = logprobs_of(http, "/api/generate", **raw)
    assert [(token["token"], token["logprob"]) for token in tokens] == [
        (one["token"], one["logprob"]) for one in probable
    ]
    best = [[(top["token"], top["logprob"]) for top in token.get("top_logprobs", [])] for token in tokens]
    assert best == [[(top["token"], top["logprob"]) for top in one["top_logprobs"][:n_best]] for one in probable]


def test_tokens_with_logprobs_join_to_the_text(http: httpx.Client) -> None:
    smile = "Here are ten emoji characters: 😀 😃 😄 😁 😆 😅 😂 🤣"
    for options in ({**GREEDY, "stop": ["hat", " a"]}, {**GREEDY, "num_predict": 40}, GREEDY):
        for prompt in (smile, "Say hello."):
            text, tokens = logprobs_of(http, "/api/generate", prompt=prompt, raw=True, options=options)
            whole = bytes(value for token in tokens for value in token.get("bytes", ()))
            # of a token that a stop string cut in two the text keeps the first part
            assert text.startswith(whole.decode()) if "stop" in options else text == whole.decode()


def test_nobody_gets_logprobs_who_did_not_ask(http: httpx.Client) -> None:
    answer = post(http, "/api/chat", messages=ASK, options=GREEDY, top_logprobs=3)
    assert "logprobs" not in answer
    assert answer["bankml_receipt"]["ignored"] == ["top_logprobs"]
    whole = post(http, "/api/chat", messages=ASK, options={**GREEDY, "stop": ["e", "i", "l"]}, logprobs=True)
    assert len(whole["message"]["content"]) >= sum(len(token["token"]) for token in whole.get("logprobs", []))


def test_what_a_stop_string_held_back_is_streamed_in_the_end(http: httpx.Client) -> None:
    whole = post(http, "/api/generate", prompt="1, 2, 3, 4,", raw=True, options=GREEDY)["response"]
    body = {"model": MODEL, "prompt": "1, 2, 3, 4,", "raw": True, "options": {**GREEDY, "stop": [whole[-1] + "never"]}}
    lines = [json.loads(line) for line in http.post("/api/generate", json=body).text.splitlines()]
    assert "".join(line["response"] for line in lines) == whole


@pytest.mark.parametrize("limit", [0, -1, -2])
def test_num_predict_below_one_is_no_limit(http: httpx.Client, limit: int) -> None:
    options = {"temperature": 0, "num_predict": limit, "stop": ["."]}
    answer = post(http, "/api/generate", prompt="Say hello.", options=options)
    assert answer["done_reason"] == "stop"
    assert answer["eval_count"] > 1


def test_repeat_last_n_minus_one_looks_back_over_the_whole_context(http: httpx.Client) -> None:
    options = {**GREEDY, "repeat_penalty": 1.3}
    all_of_it = post(http, "/api/generate", prompt="a b a b", raw=True, options={**options, "repeat_last_n": -1})
    as_many = post(http, "/api/generate", prompt="a b a b", raw=True, options={**options, "repeat_last_n": CONTEXT})
    assert all_of_it["response"] == as_many["response"]


def test_a_final_assistant_message_is_continued(http: httpx.Client) -> None:
    whole = post(http, "/api/chat", messages=ASK, options=GREEDY)["message"]["content"]
    begun = whole[: whole.index(" ", 3)]
    messages = [*ASK, {"role": "assistant", "content": begun}]
    rest = post(http, "/api/chat", messages=messages, options=GREEDY)["message"]["content"]
    assert (begun + rest).startswith(whole)


# -- loading and unloading ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "key"), [("/api/generate", "response"), ("/api/chat", "message")])
def test_without_a_prompt_the_model_is_loaded_or_unloaded(http: httpx.Client, path: str, key: str) -> None:
    empty = "" if key == "response" else {"role": "assistant", "content": ""}
    for keep_alive, reason, resident in ((0, "unload", 0), (0, "unload", 0), ("5m", "load", 1), (None, "load", 1)):
        response = http.post(path, json={"model": MODEL, "keep_alive": keep_alive})
        assert response.headers["content-type"].startswith("application/json")
        answer = response.json()
        assert list(answer) == ["model", "created_at", key, "done", "done_reason"]
        assert (answer[key], answer["done"], answer["done_reason"]) == (empty, True, reason)
        assert len(http.get("/api/ps").json()["models"]) == resident


def test_an_answer_with_keep_alive_0_unloads_the_model_afterwards(http: httpx.Client) -> None:
    answer = post(http, "/api/generate", prompt="Hi", keep_alive=0, options=GREEDY)
    assert answer["done_reason"] in ("stop", "length")
    assert http.get("/api/ps").json() == {"models": []}
    assert post(http, "/api/generate", prompt="Hi", keep_alive=-1, options=GREEDY)["response"] == answer["response"]
    (model,) = http.get("/api/ps").json()["models"]
    assert int(model["expires_at"][:4]) > datetime.now(UTC).year + 200


# -- what goes wrong ---------------------------------------------------------------------------------------------------

JSON_TYPE = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat", "/api/show"])
@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 400, "missing request body"),
        (b"{", 400, "unexpected EOF"),
        (b'{"model": "smollm2",}', 400, "invalid character '}' looking for beginning of object key string"),
        (b'{"model": "a b"}', 400, "invalid model name"),
    ],
)
def test_a_bad_body_is_refused_and_the_next_request_works(
    http: httpx.Client, path: str, body: bytes, status: int, error: str
) -> None:
    response = http.post(path, content=body, headers=JSON_TYPE)
    assert (response.status_code, response.json()) == (status, {"error": error})
    assert post(http, "/api/generate", prompt="Hi", options={**GREEDY, "num_predict": 1})["response"]


ANSWERS = "ollama cloud is disabled: remote model is unavailable"
DETAILS = "ollama cloud is disabled: remote model details are unavailable"
PULL = 'model "nosuch" not found, try pulling it first'


@pytest.mark.parametrize(
    ("path", "without", "unknown", "cloud"),
    [
        ("/api/generate", (404, "model '' not found"), "model 'nosuch' not found", ANSWERS),
        ("/api/chat", (400, "model is required"), "model 'nosuch' not found", ANSWERS),
        ("/api/embed", (404, "model '' not found"), PULL, ANSWERS),
        ("/api/embeddings", (400, "model is required"), PULL, ANSWERS),
        ("/api/show", (400, "model is required"), "model 'nosuch:latest' not found", DETAILS),
    ],
)
def test_a_model_that_is_not_here_is_said_in_each_endpoints_words(
    http: httpx.Client, path: str, without: tuple[int, str], unknown: str, cloud: str
) -> None:
    for body, status, error in (
        ({}, *without),
        ({"model": "nosuch"}, 404, unknown),
        ({"model": "nosuch:local"}, 404, re.sub(r"nosuch(['\"])", r"nosuch:local\1", unknown)),
        ({"model": "nosuch:120b-cloud"}, 403, cloud),
    ):
        answer = http.post(path, json=body)
        assert (answer.status_code, answer.json()) == (status, {"error": error})


def test_a_name_may_say_that_its_model_is_here(http: httpx.Client) -> None:
    assert post(http, "/api/generate", model=" smollm2:135m:LOCAL")["model"] == " smollm2:135m:LOCAL"


WRONG = {"string": 1, "bool": "x", "int": "x", "map[string]interface {}": [], "api.Duration": [], "api.ThinkValue": 1}


@pytest.mark.parametrize(
    ("path", "field", "target"),
    [
        *(("/api/generate", name, target) for name, target in GENERATE_FIELDS.items()),
        *(("/api/chat", name, target) for name, target in CHAT_FIELDS.items()),
    ],
)
def test_a_wrong_type_is_refused_and_the_next_request_works(
    http: httpx.Client, path: str, field: str, target: str
) -> None:
    body: dict[str, Any] = {
        "model": MODEL,
        "prompt": "Hi",
        "messages": ASK,
        "stream": False,
        field: WRONG.get(target, 1),
    }
    body.pop("messages" if path == "/api/generate" else "prompt")
    response = http.post(path, json=body)
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert post(http, "/api/generate", prompt="Hi", options={**GREEDY, "num_predict": 1})["response"]


def test_a_client_that_leaves_stops_its_answer(http: httpx.Client) -> None:
    body = {"model": MODEL, "prompt": "Count from 1 to 1000.", "options": {"temperature": 0}}
    with http.stream("POST", "/api/generate", json=body) as response:
        next(response.iter_lines())
    # Its place in the queue is free again: the next one is answered, and finds the prompt in the slot.
    again = post(http, "/api/generate", prompt=body["prompt"], options={**GREEDY, "num_predict": 1})
    assert again["bankml_cache_n"] == again["prompt_eval_count"] - 1


def test_a_server_of_one_file_has_nowhere_to_copy_to_and_deletes_no_file(http: httpx.Client) -> None:
    copied = http.post("/api/copy", json={"source": MODEL, "destination": "x"})
    assert (copied.status_code, list(copied.json())) == (400, ["error"])
    deleted = http.request("DELETE", "/api/delete", json={"model": MODEL})
    assert (deleted.status_code, list(deleted.json())) == (400, ["error"])
