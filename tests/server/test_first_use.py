"""`bankml serve FILE`: pinned by --fork, or trusted on first use and refused once it changed."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from registry.fork_file import ForkFile, PinnedFile
from registry.trust import first_use_path
from testing.oracles.small_models import BY_NAME
from testing.server_process import BankmlServer, bankml_command


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return BY_NAME["llama-heads-8"].file().write(tmp_path / "small.gguf")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models and first uses are kept."""
    folder = tmp_path / "forks"
    monkeypatch.setenv("BANKML_FORKS", str(folder))
    return folder


def refused(*arguments: str | Path) -> tuple[int, str]:
    """The exit code of `bankml serve ARGUMENTS`, which does not start, and the one line it says."""
    command = [*bankml_command(), "serve", *map(str, arguments), "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    return ended.returncode, ended.stderr.removeprefix("bankml: ").rstrip("\n")


def change(path: Path) -> None:
    """Another last byte: the header and the size stay."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_a_file_is_trusted_on_first_use_and_refused_when_it_changed(model: Path, folder: Path) -> None:
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    with BankmlServer(model) as server:
        assert server.get("/bankml")["verified"]["model_sha256"] == sha256
        assert f"{model} is trusted on first use: sha256 {sha256} is recorded" in server.log_tail()
    record = first_use_path(folder, model)
    assert ForkFile.read(record).sha256_of("small.gguf") == sha256
    with BankmlServer(model) as server:
        assert "first use" not in server.log_tail()
    change(model)
    code, line = refused(model)
    assert code == 2
    assert line.startswith(f"model file '{model}' is not the one that was first served: its sha256 is ")
    assert line.endswith(f"; if it is the one you want, remove {record} or pin the file with bankml pin --write")
    record.unlink()
    with BankmlServer(model) as server:
        assert server.get("/health") == {"status": "ok"}


def test_a_first_use_that_cannot_be_recorded_is_said_and_served(model: Path, folder: Path) -> None:
    folder.write_text("taken")
    with BankmlServer(model) as server:
        assert f"the first use of {model} is not recorded: cannot write " in server.log_tail()


def test_a_fork_says_which_file_is_served(model: Path, folder: Path) -> None:
    fork = model.with_name("FORK.json")
    ForkFile((PinnedFile("small.gguf", hashlib.sha256(model.read_bytes()).hexdigest()),)).write(fork)
    with BankmlServer(model, "--fork", str(fork)) as server:
        assert server.get("/bankml")["verified"]["guard"] == "play"
    assert not folder.exists()
    change(model)
    code, line = refused(model, "--fork", fork)
    assert code == 2
    assert line.startswith("small.gguf has sha256 ")
    assert line.endswith(f" is pinned in {fork}")
    ForkFile(()).write(fork)
    code, line = refused(model, "--fork", fork)
    assert (code, line) == (2, "small.gguf is not pinned: the FORK.json has no sha256 for this name")
    absent = model.with_name("absent.json")
    assert refused(model, "--fork", absent) == (1, f"cannot read {absent}: No such file or directory")
