"""`bankml pull` and `push` against a registry on loopback: through a server and without, in pipes and on a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from registry.folder import ModelFolder
from registry.names import ModelName
from registry.pins import DEFAULT_MODEL
from testing.pulls import is_locked
from testing.registry_server import RegistryServer, serving
from testing.server_process import BankmlServer, wait_until
from testing.terminal import COMMAND, PATIENCE, Terminal

NO_SERVER = "127.0.0.1:1"
"""Where nobody listens."""


@pytest.fixture(params=["a server", "no server"])
def environment(request: pytest.FixtureRequest, served: BankmlServer, folder: ModelFolder) -> Mapping[str, str]:
    """The variables of a command that works on the folder, through the server or by itself."""
    kept = {name: value for name, value in os.environ.items() if not re.match("BANKML_|LLAMA_|OLLAMA_", name)}
    host = served.url if request.param == "a server" else NO_SERVER
    return {**kept, "OLLAMA_HOST": host, "BANKML_FORKS": str(folder.path), "TERM": "dumb", "PYTHONUTF8": "1"}


@pytest.fixture
def registry(folder: ModelFolder) -> Iterator[RegistryServer]:
    """A registry; what is pulled from it is gone afterwards."""
    with serving() as registry:
        yield registry
    for model in folder.derived()[0]:
        folder.delete(model.name)


def run(environment: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
    """A command in pipes: its status and what it printed."""
    done = subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def names(folder: ModelFolder) -> list[str]:
    return [model.name.shown for model in folder.derived()[0]]


def test_in_a_pipe_a_pull_prints_each_step_and_each_tenth_of_a_layer(
    environment: Mapping[str, str], registry: RegistryServer, folder: ModelFolder, weights: bytes
) -> None:
    manifest = registry.add(weights, system="Be brief.")
    status, out, err = run(environment, "pull", registry.name(), "--insecure")
    assert (status, out) == (0, ""), err
    blobs = [*manifest["layers"], manifest["config"]]
    layers = [f"pulling {blob['digest'][7:19]}" for blob in blobs]
    lines = err.splitlines()
    steps = [line for line in lines if "%" not in line]
    assert steps == [
        "pulling manifest",
        *(f"{layer} ({blob['size']:,} bytes)" for layer, blob in zip(layers, blobs, strict=True)),
        "verifying sha256 digest",
        "writing manifest",
        "success",
    ]
    for layer in layers:
        assert f"{layer}: 100%" in lines
    assert "\x1b" not in err
    assert names(folder) == [registry.name()]


def test_the_default_model_is_pulled_without_a_second_copy_and_listed_once(
    environment: Mapping[str, str], served: BankmlServer, folder: ModelFolder
) -> None:
    def listed() -> list[str]:
        out = run({**environment, "OLLAMA_HOST": served.url}, "list")[1]
        return [line.split()[0] for line in out.splitlines()[1:]]

    assert run(environment, "pull", "smollm2") == (0, "", "pulling manifest\nwriting manifest\nsuccess\n")
    assert listed() == ["smollm2:latest"]
    assert not folder.blob_path(DEFAULT_MODEL.sha256).exists()
    on_server = {**environment, "OLLAMA_HOST": served.url}
    assert run(on_server, "rm", "smollm2") == (0, "deleted 'smollm2'\n", "")
    assert listed() == ["smollm2-135m-instruct.q4_1:latest"]
    assert run(on_server, "show", "smollm2", "--parameters")[0] == 0


def test_a_model_goes_back_to_its_registry_and_its_place_is_named(
    served: BankmlServer, registry: RegistryServer, weights: bytes
) -> None:
    environment = {**os.environ, "OLLAMA_HOST": served.url, "TERM": "dumb", "PYTHONUTF8": "1"}
    registry.add(weights, system="Be brief.")
    assert run(environment, "pull", registry.name(), "--insecure")[0] == 0
    registry.manifests.clear()
    registry.blobs.clear()
    status, out, err = run(environment, "push", registry.name(), "--insecure")
    assert (status, out) == (0, f"\nYou can find your model at:\n\n\t{registry.name()}\n"), err
    lines = err.splitlines()
    assert lines[0] == "retrieving manifest"
    assert lines[-2:] == ["pushing manifest", "success"]
    assert sum(bool(re.fullmatch(r"pushing [0-9a-f]{12}: 100%", line)) for line in lines) == 3
    assert weights in registry.blobs.values()
    assert "me/tiny:latest" in registry.manifests
    terminal = Terminal({**environment, "TERM": "xterm"}, registry.name(), "--insecure", verb="push")
    try:
        assert terminal.end() == 0
        assert terminal.is_clean()
        shown = terminal.lines()
        bars = [line for line in shown if re.fullmatch(r"pushing [0-9a-f]{12} 100% ▕█+▏ +[\d.]+ [KM]?B", line)]
        assert shown[0] == "retrieving manifest"
        assert shown[1:4] == bars
        assert shown[4:] == [
            "pushing manifest",
            "success",
            "",
            "You can find your model at:",
            "",
            f"        {registry.name()}",
        ]
    finally:
        terminal.close()
    served.client.request("DELETE", "/api/delete", json={"model": registry.name()}).raise_for_status()
    assert run(environment, "push", registry.name(), "--insecure")[::2] == (
        1,
        f"retrieving manifest\ncouldn't retrieve manifest\nError: model '{registry.name()}' not found\n",
    )


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("127.0.0.1:{port}/me/none", "pull model manifest: file does not exist"),
        ("a b", "invalid model name"),
        ("x:cloud", "models that run in Ollama's cloud are not supported"),
    ],
)
def test_what_cannot_be_pulled_is_said(
    environment: Mapping[str, str], registry: RegistryServer, model: str, text: str
) -> None:
    status, out, err = run(environment, "pull", model.format(port=registry.port), "--insecure")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == f"Error: {text}"


def test_ctrl_c_in_mid_pull_keeps_what_came_and_the_next_pull_goes_on(
    environment: Mapping[str, str], registry: RegistryServer, folder: ModelFolder, weights: bytes
) -> None:
    registry.stall = stall = threading.Event()
    digest = registry.add(weights)["layers"][0]["digest"]
    arguments = ["pull", registry.name(), "--insecure"]
    process = subprocess.Popen([*COMMAND, *arguments], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if re.search(r": [1-9]\d%", line):
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=PATIENCE)[1]
    assert (process.returncode, rest) == (130, "\n")
    part = folder.partial / f"sha256-{digest[7:]}"
    wait_until(lambda: not is_locked(part))  # the pull has ended
    assert names(folder) == []
    registry.stall = None
    assert run(environment, *arguments)[0] == 0
    stall.set()
    first, second = registry.blob_ranges(digest)
    assert first.startswith("bytes=0-")
    assert int(second.removeprefix("bytes=").partition("-")[0]) > 0
    assert folder.blob_path(digest).read_bytes() == weights
    assert not part.exists()


def test_a_terminal_shows_bars_and_is_left_clean(
    environment: Mapping[str, str], registry: RegistryServer, weights: bytes
) -> None:
    registry.stall = stall = threading.Event()
    manifest = registry.add(weights)
    layers = [f"pulling {blob['digest'][7:19]}" for blob in [*manifest["layers"], manifest["config"]]]
    terminal = Terminal({**environment, "TERM": "xterm"}, registry.name(), "--insecure", verb="pull")
    try:
        terminal.until(f"{layers[0]}: +[1-9][0-9]% ▕█+ +▏")
        assert terminal.screen.cursor.hidden
        stall.set()
        assert terminal.end() == 0
        assert terminal.is_clean()
        shown = terminal.lines()
        assert [line.partition(":")[0] for line in shown] == [
            "pulling manifest",
            *layers,
            "verifying sha256 digest",
            "writing manifest",
            "success",
        ]
        for line in shown[1:3]:
            assert re.search(r": 100% ▕█+▏ +[\d.]+ [KM]?B$", line)
    finally:
        terminal.close()


def test_ctrl_c_leaves_the_terminal_clean(
    environment: Mapping[str, str], registry: RegistryServer, weights: bytes
) -> None:
    registry.stall = threading.Event()
    registry.add(weights)
    terminal = Terminal({**environment, "TERM": "xterm"}, registry.name(), "--insecure", verb="pull")
    try:
        terminal.until("[1-9][0-9]% ▕█+ +▏")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert terminal.is_clean()
        shown = terminal.lines()
        assert len(shown) == 2
        assert re.match("pulling [0-9a-f]{12}: +[1-9][0-9]% ", shown[1])
    finally:
        terminal.close()


def test_a_model_that_was_pulled_without_a_server_answers_without_one(
    registry: RegistryServer, weights: bytes, folder: ModelFolder, tmp_path: Path
) -> None:
    registry.add(weights, params={"num_predict": 3, "temperature": 0})
    environment = {**os.environ, "OLLAMA_HOST": NO_SERVER, "BANKML_FORKS": str(folder.path), "TERM": "dumb"}
    assert run(environment, "pull", registry.name(), "--insecure")[0] == 0
    assert folder.find(ModelName.parse(registry.name())) is not None
    status, out, err = run(environment, "run", registry.name(), "hello")
    assert (status, err) == (0, "")
    assert out.strip()
