"""A folder of models over HTTP: listing, showing, copying, deleting, and what a derived model adds in every API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from registry.derived import Base, DerivedModel, Layer, Message
from registry.folder import ModelFolder
from registry.fork_file import ForkFile, PinnedFile
from registry.names import ModelName
from registry.pins import sha256_file
from testing.oracles.small_models import BY_NAME
from testing.server_process import BankmlServer

BASE, OTHER = "llama-mixed", "qwen3-q8_0"
SYSTEM = "the thing that is"
TURNS = [{"role": "user", "content": "what is the"}, {"role": "assistant", "content": "hello that"}]
ASK = [{"role": "user", "content": "and the cat"}]
PARAMETERS: dict[str, bool | int | float] = {"temperature": 0, "num_predict": 9, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    path = tmp_path_factory.mktemp("forks")
    for name in (BASE, OTHER):
        file = Path(BY_NAME[name].file().write(path / f"{name}.gguf"))
        pinned = PinnedFile(file.name, sha256_file(file).sha256, file.stat().st_size)
        ForkFile((pinned,)).write(path / f"{file.name}.FORK.json")
    (path / "gone.gguf.FORK.json").write_text(f'{{"files": [{{"path": "gone.gguf", "sha256": "{"0" * 64}"}}]}}')
    folder = ModelFolder(path)
    sha256 = sha256_file(path / f"{BASE}.gguf").sha256
    turns = tuple(Message(turn["role"], turn["content"]) for turn in TURNS)
    layer = Layer(sha256, system=SYSTEM, parameters=PARAMETERS, messages=turns)
    base = Base(f"{BASE}:latest", f"{BASE}.gguf", sha256, f"{BASE}.gguf.FORK.json", path / f"{BASE}.gguf")
    folder.write(DerivedModel(ModelName.parse("mario:v2"), datetime.now(UTC), base, layer))
    small = Layer(sha256, parameters={**PARAMETERS, "num_ctx": 60})
    folder.write(DerivedModel(ModelName.parse("short"), datetime.now(UTC), base, small))
    return folder


@pytest.fixture(scope="module")
def server(folder: ModelFolder) -> Iterator[BankmlServer]:
    # How much of a prompt is read at once decides bits, as in llama-server: here each is read whole.
    flags = ("--registry", str(folder.path), "-c", "512", "--no-cache-prompt")
    with BankmlServer(folder.path / f"{BASE}.gguf", *flags, threads=1) as process:
        yield process


def listed(server: BankmlServer) -> dict[str, dict[str, Any]]:
    return {model["name"]: model for model in server.get("/api/tags")["models"]}


def text_of(path: str, answer: dict[str, Any]) -> str:
    match path:
        case "/api/chat":
            return str(answer["message"]["content"])
        case "/api/generate":
            return str(answer["response"])
        case "/v1/chat/completions":
            return str(answer["choices"][0]["message"]["content"])
        case "/v1/messages":
            return str(answer["content"][0]["text"])
        case "/v1/completions":
            return str(answer["choices"][0]["text"])
        case "/completion":
            return str(answer["content"])
        case _:
            return str(answer["output"][0]["content"][0]["text"])


def test_every_model_is_listed_with_what_is_known_against_it(server: BankmlServer) -> None:
    models = listed(server)
    assert set(models) >= {f"{BASE}:latest", f"{OTHER}:latest", "gone:latest", "mario:v2", "short:latest"}
    assert models["gone:latest"]["bankml"]["found"] is False
    assert "gone.gguf" in models["gone:latest"]["bankml"]["reason"]
    assert models["mario:v2"]["details"]["parent_model"] == f"{BASE}:latest"
    assert models["mario:v2"]["digest"] not in (models["short:latest"]["digest"], models[f"{BASE}:latest"]["digest"])
    assert all(models[name]["bankml"]["native"] for name in (f"{OTHER}:latest", "mario:v2"))
    assert {model["id"] for model in server.get("/v1/models")["data"]} == set(models)
    assert set(server.get("/bankml")["models"]) == {name.removesuffix(":latest") for name in models}
    times = [model["modified_at"] for model in server.get("/api/tags")["models"]]
    assert times == sorted(times, reverse=True)


def test_one_model_is_shown_to_openai_s_clients_as_ollama_shows_it(server: BankmlServer) -> None:
    shown = server.get("/v1/models/mario:v2")
    assert (list(shown), shown["id"], shown["owned_by"]) == (
        ["id", "object", "created", "owned_by"],
        "mario:v2",
        "library",
    )
    missing = server.client.get("/v1/models/nobody")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "model 'nobody' not found")


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/chat", {"messages": ASK}),
        ("/api/generate", {"prompt": ASK[0]["content"]}),
        ("/v1/chat/completions", {"messages": ASK}),
        ("/v1/messages", {"messages": ASK, "max_tokens": 9}),
        ("/v1/responses", {"input": ASK[0]["content"]}),
    ],
)
def test_what_a_derived_model_adds_is_what_the_client_could_have_said(
    server: BankmlServer, path: str, asked: dict[str, Any]
) -> None:
    found = server.post(path, {**asked, "model": "mario:v2", "stream": False})
    messages = [{"role": "system", "content": SYSTEM}, *TURNS, *ASK]
    said = {"model": BASE, "messages": messages, "stream": False, "options": PARAMETERS}
    expected = server.post("/api/chat", said)
    assert text_of(path, found) == text_of("/api/chat", expected)
    for count in ("model_sha256", "prompt_tokens", "completion_tokens"):
        assert found["bankml_receipt"][count] == expected["bankml_receipt"][count]


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/v1/chat/completions", "/v1/messages"])
def test_what_a_request_says_itself_takes_the_place_of_what_its_model_adds(server: BankmlServer, path: str) -> None:
    """Each parameter by itself, `stop` as one list, the system message; the model's turns stay."""
    own = {"role": "system", "content": "and to of"}
    options = {"temperature": 0.9, "num_predict": 6, "stop": ["zz"]}
    by_openai = {"temperature": 0.9, "max_tokens": 6, "stop": ["zz"]}
    asked: dict[str, Any] = {
        "/api/chat": {"messages": [own, *ASK], "options": options},
        "/api/generate": {"prompt": ASK[0]["content"], "system": own["content"], "options": options},
        "/v1/chat/completions": {"messages": [own, *ASK], **by_openai},
        "/v1/messages": {"messages": ASK, "system": own["content"], "temperature": 0.9, "max_tokens": 6},
    }
    asked["/v1/messages"]["stop_sequences"] = ["zz"]
    order = [own, *TURNS] if path == "/api/generate" else [*TURNS, own]
    said = {"model": BASE, "messages": [*order, *ASK], "stream": False, "options": {**PARAMETERS, **options}}
    found = server.post(path, {**asked[path], "model": "mario:v2", "stream": False})
    expected = server.post("/api/chat", said)
    assert text_of(path, found) == text_of("/api/chat", expected)
    for count in ("prompt_tokens", "completion_tokens"):
        assert found["bankml_receipt"][count] == expected["bankml_receipt"][count]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", {"messages": ASK}),
        ("/v1/completions", {"prompt": "the"}),
        ("/completion", {"prompt": "the"}),
        ("/v1/chat/completions", {"messages": ASK}),
        ("/v1/responses", {"input": ASK[0]["content"]}),
        ("/v1/messages", {"messages": ASK, "max_tokens": 9}),
    ],
)
def test_a_model_s_stop_ends_its_answers_in_every_api(
    server: BankmlServer, folder: ModelFolder, path: str, body: dict[str, Any]
) -> None:
    whole = text_of(path, server.post(path, {**body, "model": "mario:v2", "stream": False}))
    stop = re.findall("[A-Za-z]", whole)[-1]
    mario = folder.find(ModelName.parse("mario:v2"))
    assert mario is not None
    layer = replace(mario.layer, stop=("never said", stop))
    folder.write(replace(mario, name=ModelName.parse("stopping"), layer=layer))
    assert text_of(path, server.post(path, {**body, "model": "stopping", "stream": False})) == whole.partition(stop)[0]


@pytest.mark.parametrize(
    ("count", "answer", "asked"),
    [
        ("/v1/chat/completions/input_tokens", "/v1/chat/completions", {"messages": ASK}),
        ("/v1/responses/input_tokens", "/v1/responses", {"input": ASK[0]["content"]}),
        ("/v1/messages/count_tokens", "/v1/messages", {"messages": ASK, "max_tokens": 1}),
    ],
)
@pytest.mark.parametrize("model", ["mario:v2", "short"])
def test_what_is_counted_is_what_is_read(
    server: BankmlServer, count: str, answer: str, asked: dict[str, Any], model: str
) -> None:
    if model == "short" and "messages" in asked:  # more than its context: the oldest are left out
        asked = {**asked, "messages": [*TURNS, *TURNS, *TURNS, *ASK]}
    counted = server.post(count, {**asked, "model": model})["input_tokens"]
    answered = server.post(answer, {**asked, "model": model, "stream": False})
    assert counted == answered["bankml_receipt"]["prompt_tokens"]


def test_the_prompt_that_is_shown_is_the_one_that_is_read(server: BankmlServer) -> None:
    messages = [{"role": "system", "content": SYSTEM}, *TURNS, *ASK]
    shown = server.post("/apply-template", {"model": "mario:v2", "messages": ASK})
    assert shown == server.post("/apply-template", {"model": BASE, "messages": messages})
    for path, asked in (("/api/chat", {"messages": ASK}), ("/api/generate", {"prompt": ASK[0]["content"]})):
        rendered = server.post(path, {**asked, "model": "mario:v2", "_debug_render_only": True})
        assert rendered["_debug_info"]["rendered_template"] == shown["prompt"]
    tokens = server.post("/tokenize", {"content": shown["prompt"], "add_special": True})["tokens"]
    answer = server.post("/api/chat", {"model": "mario:v2", "messages": ASK, "stream": False})
    assert answer["prompt_eval_count"] == len(tokens)


def test_a_completion_ends_where_its_model_s_context_would_be_full(server: BankmlServer) -> None:
    prompt = [5] * 55
    for path in ("/completion", "/v1/completions"):
        answer = server.post(path, {"model": "short", "prompt": prompt, "ignore_eos": True})
        assert answer["bankml_receipt"]["completion_tokens"] == 60 - 55
        refused = server.client.post(path, json={"model": "short", "prompt": [5] * 60})
        error = refused.json()["error"]
        assert (refused.status_code, error["n_prompt_tokens"], error["n_ctx"]) == (400, 60, 60)


def test_vectors_are_the_weights_own_whatever_the_model_adds(folder: ModelFolder) -> None:
    flags = ("--registry", str(folder.path), "--pooling", "mean", "-c", "512")
    with BankmlServer(folder.path / f"{BASE}.gguf", *flags, threads=1) as process:
        of_base, of_layer = (
            process.post("/api/embed", {"model": model, "input": ["the", "hello that"]})["embeddings"]
            for model in (BASE, "mario:v2")
        )
        assert of_layer == of_base
        too_long = {"model": "short", "input": "the and to of in is you that " * 20, "truncate": False}
        refused = process.client.post("/api/embed", json=too_long)
        assert (refused.status_code, refused.json()["error"]) == (400, "the input length exceeds the context length")
        assert process.post("/api/embed", {**too_long, "model": "mario:v2"})["prompt_eval_count"] > 60


def test_a_raw_prompt_gets_the_parameters_and_nothing_else(server: BankmlServer) -> None:
    for path, body in (("/completion", {"prompt": "the"}), ("/v1/completions", {"prompt": "the"})):
        answer = server.post(path, {**body, "model": "mario:v2"})
        assert answer["bankml_receipt"]["completion_tokens"] == 9
        assert answer["bankml_receipt"]["prompt_tokens"] == len(server.post("/tokenize", {"content": "the"})["tokens"])
    raw = server.post("/api/generate", {"model": "mario:v2", "prompt": "the", "raw": True, "stream": False})
    options = {**PARAMETERS, "num_predict": 5, "stop": ["O"]}
    by_hand = {"model": BASE, "prompt": "the", "raw": True, "stream": False, "options": PARAMETERS}
    assert (raw["eval_count"], raw["response"]) == (9, server.post("/api/generate", by_hand)["response"])
    own = server.post("/api/generate", {**by_hand, "model": "mario:v2", "options": {"num_predict": 5, "stop": ["O"]}})
    expected = server.post("/api/generate", {**by_hand, "options": options})
    assert (own["response"], own["eval_count"]) == (expected["response"], expected["eval_count"])
    assert own["eval_count"] < 9


def test_a_model_s_context_is_kept_to_in_both_apis_and_said(server: BankmlServer) -> None:
    messages = [
        {"role": "user", "content": "the and to of in is you that"},
        {"role": "assistant", "content": "ing"},
    ] * 3
    body = {"model": "short", "messages": [*messages, *ASK], "stream": False}
    by_ollama = server.post("/api/chat", body)
    by_openai = server.post("/v1/chat/completions", body)
    assert by_ollama["bankml_truncated"] > 0
    assert text_of("/v1/chat/completions", by_openai) == text_of("/api/chat", by_ollama)
    assert by_openai["usage"]["prompt_tokens"] == by_ollama["prompt_eval_count"]
    warning = f"{by_ollama['bankml_truncated']} messages were left out: the model keeps to a context of 60"
    assert warning in by_openai["bankml_receipt"]["warnings"]


def test_a_model_and_its_base_share_their_weights_and_ps_names_who_loaded_them(server: BankmlServer) -> None:
    def ps() -> tuple[str, str, int]:
        (model,) = server.get("/api/ps")["models"]
        return model["name"], model["details"]["parent_model"], model["context_length"]

    server.post("/api/generate", {"model": OTHER})
    first = server.post("/api/chat", {"model": "mario:v2", "messages": ASK, "stream": False})
    assert ps() == ("mario:v2", f"{BASE}:latest", 512)
    said = server.post("/api/chat", {"model": BASE, "messages": ASK, "stream": False, "options": {"num_predict": 1}})
    assert said["load_duration"] < first["load_duration"]
    assert ps() == ("mario:v2", f"{BASE}:latest", 512)
    server.post("/api/chat", {"model": "short", "messages": ASK, "stream": False})
    assert ps() == ("short:latest", f"{BASE}:latest", 60)
    assert server.get("/bankml")["resident"] == "short"


@pytest.mark.parametrize(
    ("path", "wanted", "lacks"),
    [
        ("/api/chat", {"messages": ASK, "think": True}, "thinking"),
        ("/api/chat", {"messages": ASK, "tools": [{"type": "function"}]}, "tools"),
        ("/api/generate", {"prompt": "the", "suffix": "cat"}, "insert"),
        ("/api/generate", {"think": True}, "thinking"),
    ],
)
def test_no_model_goes_for_what_another_cannot_do(
    server: BankmlServer, path: str, wanted: dict[str, Any], lacks: str
) -> None:
    server.post("/api/generate", {"model": OTHER})
    answer = server.client.post(path, json={"model": BASE, **wanted})
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(f" does not support {lacks}")
    assert server.get("/api/ps")["models"][0]["name"] == f"{OTHER}:latest"


def test_ps_shows_the_file_once_the_model_that_loaded_it_is_deleted(server: BankmlServer) -> None:
    server.post("/api/generate", {"model": OTHER})
    server.client.post("/api/copy", json={"source": "mario:v2", "destination": "wario"}).raise_for_status()
    server.post("/api/chat", {"model": "wario", "messages": ASK, "stream": False})
    (before,) = server.get("/api/ps")["models"]
    server.client.request("DELETE", "/api/delete", json={"model": "wario"}).raise_for_status()
    (after,) = server.get("/api/ps")["models"]
    assert (before["name"], after["name"]) == ("wario:latest", f"{BASE}:latest")
    assert after["digest"] == listed(server)[f"{BASE}:latest"]["digest"]
    assert after["expires_at"] == before["expires_at"]


def test_copies_have_the_digest_and_deleted_models_are_gone(server: BankmlServer, folder: ModelFolder) -> None:
    copied = server.client.post("/api/copy", json={"source": "mario:v2", "destination": "me/luigi"})
    assert (copied.status_code, copied.content) == (200, b"")
    models = listed(server)
    assert models["me/luigi:latest"]["digest"] == models["mario:v2"]["digest"]
    show = server.post("/api/show", {"model": "Me/Luigi"})
    assert (show["system"], show["messages"][0]["content"]) == (SYSTEM, TURNS[0]["content"])
    deleted = server.client.request("DELETE", "/api/delete", json={"model": "me/luigi"})
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert "me/luigi:latest" not in listed(server)
    again = server.client.request("DELETE", "/api/delete", json={"model": "me/luigi"})
    assert (again.status_code, again.json()) == (404, {"error": "model 'me/luigi' not found"})
    assert (folder.path / f"{BASE}.gguf").exists()


def test_a_copy_onto_itself_does_nothing_whether_the_model_is_there_or_not(server: BankmlServer) -> None:
    before = listed(server)
    for source, destination in (("nobody", "library/nobody:latest"), ("mario:v2", "Mario:V2"), (OTHER, OTHER.upper())):
        copied = server.client.post("/api/copy", json={"source": source, "destination": destination})
        assert (copied.status_code, copied.content) == (200, b"")
    assert listed(server) == before
    missing = server.client.post("/api/copy", json={"source": "nobody", "destination": "NOBODY"})
    assert (missing.status_code, missing.json()) == (404, {"error": 'model "nobody" not found'})


def test_a_copy_s_name_is_in_the_letter_case_that_is_there(server: BankmlServer) -> None:
    server.client.post("/api/copy", json={"source": "mario:v2", "destination": "MARIO:v3"}).raise_for_status()
    assert "mario:v3" in listed(server)
    server.client.request("DELETE", "/api/delete", json={"model": "mario:v3"}).raise_for_status()


def test_a_file_s_copy_is_an_empty_layer_over_it_and_files_are_not_deleted(server: BankmlServer) -> None:
    server.client.post("/api/copy", json={"source": OTHER, "destination": "twin"}).raise_for_status()
    shown = server.post("/api/show", {"model": "twin"})
    assert shown["details"]["parent_model"] == f"{OTHER}:latest"
    refused = server.client.request("DELETE", "/api/delete", json={"model": OTHER})
    assert refused.status_code == 400
    assert server.client.request("DELETE", "/api/delete", json={"model": "twin"}).status_code == 200
    assert server.client.post("/api/copy", json={"source": "mario:v2", "destination": OTHER}).status_code == 400


def test_weights_that_nobody_uses_go_with_their_model_out_of_memory_too(
    server: BankmlServer, folder: ModelFolder, tmp_path: Path
) -> None:
    data = Path(BY_NAME["llama-f32"].file().write(tmp_path / "f32.gguf")).read_bytes()
    sha256 = sha256_file(tmp_path / "f32.gguf").sha256
    blob = folder.add_blob(sha256, [data])
    base = Base("pulled:latest", blob.name, sha256, None, blob)
    folder.write(DerivedModel(ModelName.parse("pulled"), datetime.now(UTC), base, Layer(sha256)))
    server.post("/api/generate", {"model": "pulled"})
    assert server.get("/api/ps")["models"][0]["name"] == "pulled:latest"
    assert server.client.request("DELETE", "/api/delete", json={"name": "pulled"}).status_code == 200
    assert not blob.exists()
    assert server.get("/api/ps") == {"models": []}
