"""`bankml sha256`, `pin` and `verify`: what they print, and the exit code that says it to programs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tiny_model import tiny_llama

from registry.fork_file import ForkFile, PinnedFile
from server.cli import main
from server.commands.version import version_text

OTHER = "0" * 64


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tiny_llama()
    file.metadata["general.name"] = 'Tiny "one"\n'
    return file.write(tmp_path / "tiny.gguf")


@pytest.fixture
def fork(model: Path) -> Path:
    return fork_of(model, sha256_of(model))


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fork_of(model: Path, sha256: str) -> Path:
    fork = model.with_name(f"{sha256[:4]}.json")
    ForkFile((PinnedFile(model.name, sha256),)).write(fork)
    return fork


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """The exit code of a command, its standard output, and its standard error."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_sha256_prints_what_sha256sum_prints(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "sha256", model) == (0, f"{sha256_of(model)}  {model}\n", "")
    code, out, err = said(capsys, "sha256", model.with_name("absent"))
    assert (code, out) == (1, "")
    assert err.startswith("bankml: cannot read model file ")


def test_pin_compares_the_file_with_its_record(model: Path, fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sha256 = sha256_of(model)
    assert said(capsys, "pin", model, "--fork", fork) == (0, f"pinned {sha256}\n", "")
    refused = f"refuse: tiny.gguf has sha256 {sha256}, but {OTHER} is pinned\n"
    assert said(capsys, "pin", model, "--fork", fork_of(model, OTHER)) == (2, refused, "")
    other = model.rename(model.with_name("other.gguf"))
    refused = "refuse: other.gguf is not pinned: the FORK.json has no sha256 for this name\n"
    assert said(capsys, "pin", other, "--fork", fork) == (2, refused, "")


@pytest.mark.parametrize("verb", ["pin", "verify"])
def test_what_cannot_be_read_is_no_refusal(
    verb: str, model: Path, fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = model.with_name("absent.json")
    lines = {
        ("--fork", absent): f"bankml: cannot read {absent}: No such file or directory\n",
        (): (f"bankml: {model} has no tiny.gguf.FORK.json beside it: --fork names another, `pin --write` makes one\n"),
    }
    for arguments, line in lines.items():
        assert said(capsys, verb, model, *arguments) == (1, "", line)
    model.unlink()
    line = f"bankml: cannot read model file '{model}': No such file or directory\n"
    assert said(capsys, verb, model, "--fork", fork) == (1, "", line)


def test_pin_writes_a_record_when_asked_to(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "pin", model, "--write") == (0, f"pinned {sha256_of(model)}\n", "")
    beside = model.with_name("tiny.gguf.FORK.json")
    assert said(capsys, "verify", model, "--fork", beside)[0] == 0
    assert [said(capsys, verb, model)[0] for verb in ("pin", "verify")] == [0, 0]
    model.write_bytes(model.read_bytes()[:-1])
    assert said(capsys, "pin", model)[0] == 2
    code, out, _ = said(capsys, "pin", model, "--write", "--fork", model.with_name("new.json"))
    assert (code, out.split(":")[0]) == (3, "refuse")
    assert not model.with_name("new.json").exists()


def test_verify_prints_what_bankml_s_clients_read(model: Path, fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sha256 = sha256_of(model)
    assert said(capsys, "verify", model, "--fork", fork) == (0, f"play pinned {sha256}\n", "")
    code, out, _ = said(capsys, "verify", model, "--fork", fork, "--json")
    assert code == 0
    assert list(json.loads(out).items()) == [
        ("verdict", "play"),
        ("guard", "play"),
        ("engine", "mainline"),
        ("model_sha256", sha256),
        ("bankml", version_text()),
        ("arch", "llama"),
        ("name", 'Tiny "one"\n'),
        ("types", {"F32": 7, "F16": 3, "Q4_1": 7, "Q8_0": 3}),
    ]
    assert out.count("\n") == 1
    prism = json.loads(said(capsys, "verify", model, "--fork", fork, "--json", "--engine", "prism")[1])
    assert (prism["verdict"], prism["engine"], prism["native"]) == ("play", "prism", True)


def test_verify_tells_a_refusal_from_a_file_that_is_cut(
    model: Path, fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = fork_of(model, OTHER)
    reason = f"tiny.gguf has sha256 {sha256_of(model)}, but {OTHER} is pinned"
    assert said(capsys, "verify", model, "--fork", wrong) == (2, f"refuse: {reason}\n", "")
    code, out, _ = said(capsys, "verify", model, "--fork", wrong, "--json")
    assert (code, json.loads(out)) == (2, {"verdict": "refuse", "reason": reason, "bankml": version_text()})
    whole = model.read_bytes()
    model.write_bytes(whole[:-1])
    reason = f"guard needs {len(whole)} bytes: file truncated"
    assert said(capsys, "verify", model, "--fork", fork) == (3, f"refuse: {reason}\n", "")
    code, out, _ = said(capsys, "verify", model, "--fork", fork, "--json")
    assert (code, json.loads(out)["reason"]) == (3, reason)
    model.write_bytes(b"GGUX")
    code, out, _ = said(capsys, "verify", model, "--fork", fork)
    assert (code, out) == (2, "refuse: guard refused: not a GGUF file (it starts with b'GGUX')\n")
