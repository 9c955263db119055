"""`bankml list`, `ps`, `show`, `cp`, `rm` and `stop`: the tables, and the commands against a real server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest

from server.cli import main
from server.commands.models import listing, running
from testing.server_process import ServerProcess

Run = Callable[..., tuple[int, str, str]]
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def model(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "digest": "0123456789abcdef", "size": 98_000_000, "size_vram": 0, "context_length": 0, **more}


def test_the_list_shows_names_digests_sizes_and_ages() -> None:
    models = [
        model("smollm2:latest", modified_at="2026-05-04T10:59:00.123456789Z"),
        model("Mario:v2", modified_at="0001-01-01T00:00:00Z"),
    ]
    assert listing(models, "", NOW) == (
        "NAME              ID              SIZE     MODIFIED          \n"
        "smollm2:latest    0123456789ab    98 MB    About an hour ago    \n"
        "Mario:v2          0123456789ab    98 MB    Never                \n"
    )
    assert listing(models, "MAR", NOW).splitlines()[1:] == ["Mario:v2    0123456789ab    98 MB    Never       "]


@pytest.mark.parametrize(
    ("on_gpu", "processor"),
    [(0, "100% CPU"), (98_000_000, "100% GPU"), (24_500_000, "75%/25% CPU/GPU"), (10**9, "Unknown")],
)
def test_what_runs_is_shown_with_its_processor_and_its_end(on_gpu: int, processor: str) -> None:
    running_model = model("a:latest", size_vram=on_gpu, context_length=4096, expires_at="2026-05-04T14:05:00+02:00")
    width = max(9, len(processor))
    assert running([running_model], "", NOW) == (
        f"NAME        ID              SIZE     {'PROCESSOR':{width}}    CONTEXT    UNTIL              \n"
        f"a:latest    0123456789ab    98 MB    {processor:{width}}    4096       5 minutes from now    \n"
    )


def test_a_model_whose_time_is_over_is_stopping() -> None:
    over = model("a", expires_at="2026-05-04T11:59:59Z")
    assert running([over], "", NOW).splitlines()[1].endswith("Stopping...    ")
    assert running([over], "b", NOW).count("\n") == 1


@pytest.fixture(scope="module")
def own(start_server: Callable[..., AbstractContextManager[ServerProcess]]) -> Iterator[ServerProcess]:
    """A server whose model may be unloaded."""
    with start_server() as process:
        yield process


@pytest.fixture
def command(own: ServerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command against that server: its status and what it printed."""
    for name in [name for name in os.environ if name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OLLAMA_HOST", own.url)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(list(arguments))
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("verb", ["list", "ls"])
def test_the_models_of_the_server_are_listed(command: Run, verb: str) -> None:
    status, out, err = command(verb, "smol")
    assert (status, err) == (0, "")
    heading, line = out.splitlines()
    assert heading.split() == ["NAME", "ID", "SIZE", "MODIFIED"]
    assert line.startswith("smollm2-135m-instruct.q4_1:latest    b179c9523d0e    98 MB    ")


def test_a_model_is_shown(command: Run) -> None:
    status, out, err = command("show", "smollm2")
    assert (status, err) == (0, "")
    assert out.startswith("  Model\n    architecture        llama      \n    parameters          134.52M    \n")
    assert "  License\n    apache-2.0    \n" in out
    assert "  Metadata\n" in command("show", "-v", "smollm2")[1]


def test_a_part_of_a_model_is_shown_alone(command: Run) -> None:
    assert command("show", "smollm2", "--license") == (0, "apache-2.0\n", "")
    template = command("show", "smollm2", "--template")[1]
    assert template.startswith("{%")
    assert not template.endswith("\n\n")
    assert command("show", "smollm2", "--template", "--license")[::2] == (
        1,
        "Error: only one of '--license', '--modelfile', '--parameters', '--system', or '--template' can be specified\n",
    )


def test_a_model_is_stopped(command: Run, own: ServerProcess) -> None:
    own.post("/api/generate", {"model": "smollm2", "stream": False})
    assert "100% CPU" in command("ps")[1]
    assert command("stop", "smollm2") == (0, "", "")
    assert command("ps")[1].count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("show", "nosuch"), "model 'nosuch:latest' not found"),
        (("stop", "nosuch"), 'couldn\'t find model "nosuch" to stop'),
    ],
)
def test_a_model_that_is_not_there_is_said_so(command: Run, arguments: tuple[str, ...], text: str) -> None:
    assert command(*arguments) == (1, "", f"Error: {text}\n")


LLAMA_SERVERS = {"name": "m.gguf", "model": "m.gguf", "modified_at": "", "size": "", "digest": "", "type": "model"}
"""What llama-server lists at Ollama's path."""


class Lister(ThreadingHTTPServer):
    """A server that answers every question with its models."""

    models: object = None


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Lister)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(orjson.dumps({"models": self.server.models}))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def lister() -> Iterator[Lister]:
    with Lister(("127.0.0.1", 0), _Answer) as lister:
        threading.Thread(target=lister.serve_forever, args=(0.01,)).start()
        yield lister
        lister.shutdown()


@pytest.mark.parametrize("verb", ["list", "ps"])
@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([LLAMA_SERVERS], "Error: {} is no list of Ollama's\n"),
        ("m", "Error: {} is no list of Ollama's\n"),
        (["m"], "Error: {} is no list of Ollama's\n"),
        (
            [{"name": "m", "modified_at": "today", "expires_at": "today"}],
            "Error: the server gives a time that is none: 'today'\n",
        ),
        (None, ""),
        ([{"name": "m", "size": None}], ""),
    ],
)
def test_what_is_no_list_of_ollamas_is_said_in_one_line(
    command: Run, lister: Lister, monkeypatch: pytest.MonkeyPatch, verb: str, models: object, said: str
) -> None:
    lister.models = models
    url = f"http://127.0.0.1:{lister.server_port}"
    monkeypatch.setenv("OLLAMA_HOST", url)
    path = "/api/tags" if verb == "list" else "/api/ps"
    assert command(verb)[::2] == (1 if said else 0, said.format(url + path))


@pytest.mark.parametrize("arguments", ["list", "ps", "show a", "cp a b", "rm a", "stop a"])
def test_without_a_server_the_command_says_how_to_start_one(
    command: Run, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("OLLAMA_HOST", url)
        text = f"Error: could not connect to a server at {url}, run 'bankml serve' to start one\n"
        assert command(*arguments.split()) == (1, "", text)
