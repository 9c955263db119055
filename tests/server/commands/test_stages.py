"""`bankml tokenize`, `chat-template` and `generate`: what the server says, without a server, and their exit codes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tiny_model import tiny_llama

from registry.derived import Base, DerivedModel, Layer, Message
from registry.folder import ModelFolder
from registry.fork_file import ForkFile, PinnedFile
from registry.names import ModelName
from server.cli import main
from server.guards import MAX_BODY
from testing.terminal import COMMAND

Run = Callable[..., tuple[int, str, str]]
MESSAGES = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "What is gravity?"}]
CONVERSATION = json.dumps(MESSAGES)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with a text on standard input: its status and what it printed. Its folder of models is empty."""
    for name in [name for name in os.environ if name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BANKML_FORKS", str(tmp_path / "forks"))

    def called(given: str | bytes, *arguments: str | Path) -> tuple[int, str, str]:
        data = given if isinstance(given, bytes) else given.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return called


def answer(client: httpx.Client, **more: Any) -> str:
    """The server's answer to the messages."""
    body = {"messages": MESSAGES, "max_tokens": 24, **more}
    content: str = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    return content


@pytest.mark.parametrize("text", ["Hello world", "<|im_start|>user\nhé 👋\r\n", ""])
def test_tokens_are_those_of_the_server(run: Run, client: httpx.Client, model_path: Path, text: str) -> None:
    for flags, special in (((), True), (("--no-special",), False)):
        answered = client.post("/tokenize", json={"content": text, "parse_special": special}).json()
        assert run(text, "tokenize", model_path, *flags) == (0, f'{{"tokens": {answered["tokens"]}}}\n', "")


def test_a_prompt_is_that_of_the_server_to_the_last_byte(run: Run, client: httpx.Client) -> None:
    prompt = client.post("/apply-template", json={"messages": MESSAGES}).json()["prompt"]
    assert run(CONVERSATION, "chat-template", "smollm2") == (0, prompt, "")


def test_an_answer_is_that_of_the_server_greedy_or_drawn(run: Run, client: httpx.Client) -> None:
    flags = ("generate", "smollm2", "--max", "24")
    assert run(CONVERSATION, *flags) == (0, answer(client, temperature=0) + "\n", "")
    drawn = answer(client, temperature=0.9, top_k=20, top_p=0.8, min_p=0.01, seed=7)
    draws = ("--sample", "--temp", "0.9", "--top-k", "20", "--top-p", "0.8", "--min-p", "0.01", "--seed", "7")
    assert run(CONVERSATION, *flags, *draws) == (0, drawn + "\n", "")
    held = answer(client, temperature=0, response_format={"type": "json_object"})
    assert held.startswith("{")
    assert run(CONVERSATION, *flags, "--json") == (0, held + "\n", "")


def test_a_text_that_is_no_array_is_one_message(run: Run, client: httpx.Client) -> None:
    for text in ("What is gravity?", '{"role": "user"}', "[sic"):
        said = answer(client, messages=[{"role": "user", "content": text}], temperature=0, max_tokens=4)
        assert run(text, "generate", "smollm2", "--max", "4") == (0, said + "\n", "")


def test_a_model_of_the_folder_is_played_with_what_it_adds(run: Run, tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "forks")
    data = tiny_llama().write(tmp_path / "tiny.gguf").read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    blob = folder.add_blob(sha256, [data])
    layer = Layer(
        sha256,
        system="Be kind.",
        parameters={"num_predict": 3},
        messages=(Message("user", "a"), Message("assistant", "b")),
    )
    base = Base("kind", blob.name, sha256, None, blob)
    folder.write(DerivedModel(ModelName.parse("kind"), datetime.now(UTC), base, layer))
    status, prompt, _ = run('[{"role": "user", "content": "hi"}]', "chat-template", "kind")
    assert (status, prompt.index("Be kind.") < prompt.index("hi")) == (0, True)
    limits = [run("hi", "generate", "kind", *flags)[1] for flags in ((), ("--max", "3"), ("--max", "4"))]
    assert limits[0] == limits[1] != limits[2]
    blob.write_bytes(data[:-1] + b"\0")
    status, out, err = run("hi", "generate", "kind")
    assert (status, out) == (2, "")
    assert "sha256" in err


def test_models_do_not_think_unless_they_are_told_to(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_llama()
    file.metadata["tokenizer.chat_template"] = (
        "{{ messages[0].content }}{% if enable_thinking is defined and enable_thinking is false %} off{% endif %}"
        "{% if add_generation_prompt %}<think>{% endif %}"
    )
    path = file.write(tmp_path / "thinking.gguf")
    given = '[{"role": "user", "content": "hi"}]'
    assert run(given, "chat-template", path) == (0, "hi off<think>", "")
    monkeypatch.setenv("LLAMA_ARG_REASONING", "on")
    assert run(given, "chat-template", path) == (0, "hi<think>", "")


def test_what_cannot_be_read_or_is_refused_has_an_exit_code(run: Run, tmp_path: Path) -> None:
    absent = f"bankml: cannot read model file '{tmp_path}/no.gguf': No such file or directory\n"
    codes = {"tokenize": (1, 1), "chat-template": (2, 2), "generate": (1, 2)}
    for verb, (unreadable, refused) in codes.items():
        assert run("[]", verb, tmp_path / "no.gguf") == (unreadable, "", absent)
        assert run("[]", verb, "nosuch") == (refused, "", "bankml: model 'nosuch' not found\n")


def test_a_file_that_is_not_the_pinned_one_is_refused(run: Run, tmp_path: Path) -> None:
    path = tiny_llama().write(tmp_path / "tiny.gguf")
    assert run("hi", "tokenize", path)[0] == 0
    ForkFile((PinnedFile(path.name, "0" * 64),)).write(path.with_name("tiny.gguf.FORK.json"))
    status, out, err = run("hi", "generate", path)
    assert (status, out) == (2, "")
    assert f"but {'0' * 64} is pinned" in err


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("tokenize", b"\xff", "the standard input is not UTF-8: invalid start byte at byte 0"),
        ("chat-template", b"hi", "the standard input is no JSON array of messages"),
        ("chat-template", b"[1]", "All non-assistant messages must contain 'content'"),
        ("generate", b'[{"role": "user"}]', "All non-assistant messages must contain 'content'"),
        (
            "generate",
            b"a " * 9000,
            "request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it",
        ),
    ],
)
def test_an_input_that_cannot_be_used_is_one_line(run: Run, verb: str, given: bytes, said: str) -> None:
    assert run(given, verb, "smollm2") == (1 if verb == "tokenize" else 2, "", f"bankml: {said}\n")


def test_an_input_is_refused_where_the_server_would_take_no_more_of_it(run: Run) -> None:
    status, out, err = run(b"\0" * (MAX_BODY + 1), "tokenize", "smollm2")
    assert (status, out, err) == (1, "", f"bankml: the standard input exceeds {MAX_BODY} bytes\n")


def test_a_flag_of_the_draws_needs_them(run: Run) -> None:
    assert run("hi", "generate", "smollm2", "--top-k", "3") == (1, "", "bankml: --top-k needs --sample\n")
    status, out, err = run("hi", "generate", "smollm2", "--sample", "--temp", "nan")
    assert (status, out) == (2, "")
    assert err.startswith("bankml: --temperature 'nan': ")


def test_who_reads_no_further_ends_the_answer(model_path: Path) -> None:
    command = f"{' '.join(COMMAND)} generate {model_path} --max 4000 | head -c 1"
    done = subprocess.run(["sh", "-c", command], input=b"Tell a story.", capture_output=True, check=False)
    assert (len(done.stdout), done.stderr) == (1, b"")


def test_without_standard_files_there_is_nothing_to_read_and_nowhere_to_write() -> None:
    command = f"{' '.join(COMMAND)} generate smollm2 --max 1 <&- >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
