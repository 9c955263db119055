"""A converted model is one that the guard plays, and `bankml convert` says what it made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.gguf_guard import judge
from registry.pins import sha256_file
from server.cli import main
from testing.oracles.conversion_cases import PLAYED


def test_the_command_converts_pins_and_prints(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    directory, output, fork = PLAYED.write(tmp_path), tmp_path / "tiny.gguf", tmp_path / "tiny.gguf.FORK.json"
    arguments = ["convert", str(directory), "-o", str(output), "--fork", str(fork), "--source", "me/tiny@1"]
    assert main([*arguments, "--model-name", "Mine"]) == 0
    said = capfd.readouterr()
    digest = sha256_file(output)
    assert said.out == f"{digest.sha256}  {output}\n"
    assert "Mine: llama, 20 tensors, " in said.err
    pin = json.loads(fork.read_text())
    assert pin["source"] == "me/tiny@1"
    assert pin["files"] == [{"path": "tiny.gguf", "bytes": digest.identity.size, "sha256": digest.sha256}]
    assert [(each["path"], each["bytes"], each["sha256"]) for each in pin["inputs"]] == [
        (path.name, path.stat().st_size, sha256_file(path).sha256) for path in sorted(directory.iterdir())
    ]
    report = judge(output)
    assert (report.verdict, report.name, report.arch) == ("play", "Mine", "llama")
    assert report.types == {"F32": 5, "F16": 15}


def test_the_command_refuses_with_the_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    directory, output = PLAYED.write(tmp_path), tmp_path / "tiny.gguf"
    config = directory / "config.json"
    config.write_text(config.read_text().replace("LlamaForCausalLM", "GemmaForCausalLM"))
    assert main(["convert", str(directory), "-o", str(output)]) == 2
    assert capfd.readouterr().err.startswith(
        "bankml convert: refuse: the architecture GemmaForCausalLM is not converted"
    )
    assert main(["convert", str(directory), "-o", str(output), "--outtype", "q8_0"]) == 2
    assert capfd.readouterr().err == "bankml convert: refuse: --outtype q8_0 is not written, only f16 is\n"
    assert not output.exists()


def test_a_directory_that_cannot_be_read_is_exit_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for name, reason in (("none", "No such file or directory"), ("file", "not a directory")):
        assert main(["convert", str(tmp_path / name), "-o", str(tmp_path / "tiny.gguf")]) == 1
        said = f"bankml convert: cannot read directory '{tmp_path / name}': {reason}\n"
        assert capfd.readouterr().err == said
    assert main(["convert", str(tmp_path)]) == 1
    assert capfd.readouterr().err == "bankml: Missing option '-o' / '--outfile'.\n"
