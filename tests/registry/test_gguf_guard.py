"""registry/gguf_guard.py: play, refuse or need more, from the header alone; and the command that says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tiny_model import HEAD_SIZE, N_HEAD_KV, N_LAYER, tiny_llama

from engine.errors import UnplayableModel
from engine.model import Model, ModelOptions
from registry.errors import ModelFileError
from registry.gguf_guard import judge
from server.cli import main
from testing.gguf_writer import ModelFile, floats


@pytest.fixture
def tiny() -> ModelFile:
    """A small Llama to change and write."""
    return tiny_llama()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tiny.gguf"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of `bankml guard ARGUMENTS` and its standard output."""
    code = main(["guard", *arguments])
    return code, capsys.readouterr().out


def test_a_file_that_is_played_is_described(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["general.name"] = "Tiny"
    report = judge(tiny.write(path))
    assert report.as_json() == {
        "gguf_version": 3,
        "arch": "llama",
        "name": "Tiny",
        "tensors": 20,
        "types": {"F32": 7, "F16": 3, "Q4_1": 7, "Q8_0": 3},
        "engine": "mainline",
        "reasons": [],
        "kv_f16_bytes_per_token": N_LAYER * N_HEAD_KV * 2 * HEAD_SIZE * 2,
        "bytes": path.stat().st_size,
        "verdict": "play",
    }


def test_the_real_model_is_played(model_path: Path) -> None:
    report = judge(model_path)
    assert (report.verdict, report.types) == ("play", {"F32": 61, "Q4_1": 210, "Q8_0": 1})
    assert report.kv_f16_bytes_per_token == 30 * 3 * 2 * 64 * 2


def test_a_refusal_has_the_reasons_that_loading_has(tiny: ModelFile, path: Path) -> None:
    del tiny.tensors["output_norm.weight"]
    tiny.tensors["blk.0.ffn_norm.weight"] = floats([1.0])
    report = judge(tiny.write(path))
    with pytest.raises(UnplayableModel) as caught:
        Model.open(path)
    assert report.verdict == "refuse"
    assert report.reasons == caught.value.reasons
    assert len(report.reasons) == 2


def test_the_options_count(tiny: ModelFile, path: Path) -> None:
    report = judge(tiny.write(path), ModelOptions(cache_type_k="nosuch"))
    assert (report.verdict, report.reasons) == ("refuse", ("the KV cache type 'nosuch' is not played",))


def test_the_beginning_of_a_file_that_will_be_played_needs_more(tiny: ModelFile, path: Path) -> None:
    whole = tiny.write(path).read_bytes()
    path.write_bytes(whole[:-1])
    report = judge(path)
    assert (report.verdict, report.size, report.bytes_needed) == ("need_more", len(whole) - 1, len(whole))
    assert len(report.reasons) == 1
    assert "the file is cut short" in report.reasons[0]
    assert report.as_json()["types"]["F16"] == 3


def test_the_beginning_of_a_header_needs_more(tiny: ModelFile, path: Path) -> None:
    whole = tiny.write(path).read_bytes()
    for length in (1, 4, 20, 200, 1000):
        path.write_bytes(whole[:length])
        report = judge(path)
        assert report.verdict == "need_more"
        assert report.bytes_needed is not None
        assert length < report.bytes_needed <= len(whole)
        assert report.as_json().keys() == {"types", "engine", "reasons", "bytes", "bytes_needed", "verdict"}


def test_the_beginning_of_a_file_that_will_not_be_played_is_refused(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["general.architecture"] = "gemma3"
    whole = tiny.write(path).read_bytes()
    path.write_bytes(whole[:-1])
    report = judge(path)
    assert (report.verdict, report.bytes_needed) == ("refuse", len(whole))
    assert report.reasons == ("general.architecture is 'gemma3', which is not played",)


def test_what_is_no_gguf_file_is_refused(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert judge(path).reasons == ("not a GGUF file (it starts with b'PK\\x03\\x04')",)
    path.write_bytes(b"")
    assert judge(path).verdict == "refuse"


def test_a_file_that_cannot_be_read_has_no_verdict(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError):
            judge(path)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, 256),
        ({"attention.key_length": 64, "attention.value_length": 32}, 384),
        ({"attention.head_count_kv": [1, 1]}, None),
        ({"block_count": "x"}, None),
        ({"attention.head_count": 0}, None),
    ],
)
def test_the_cache_s_size_is_told_where_the_header_says_it(
    tiny: ModelFile, path: Path, keys: dict[str, Any], expected: int | None
) -> None:
    tiny.metadata |= {f"llama.{key}": value for key, value in keys.items()}
    assert judge(tiny.write(path)).kv_f16_bytes_per_token == expected


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_s_exit_code_is_the_verdict(
    tiny: ModelFile, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tiny.write(path).read_bytes()
    code, out = said(capsys, str(path))
    assert code == 0
    assert out.startswith(f"{path}: play\n  llama, 20 tensors (7 F32, 3 F16, 7 Q4_1, 3 Q8_0)\n")
    path.write_bytes(whole[:-1])
    code, out = said(capsys, str(path))
    assert code == 3
    assert out.startswith(f"{path}: need more (at least {len(whole):,} bytes; {len(whole) - 1:,} are there)\n")
    del tiny.tensors["output_norm.weight"]
    tiny.write(path)
    code, out = said(capsys, str(path))
    assert code == 2
    assert out.startswith(f"{path}: refuse\n")
    assert out.endswith("\n  tensor output_norm.weight is missing\n")


def test_the_command_prints_json(tiny: ModelFile, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.write(path)
    code, out = said(capsys, str(path), "--json")
    assert (code, json.loads(out)) == (0, judge(path).as_json())
    assert out.count("\n") == 1
    del tiny.tensors["output_norm.weight"]
    tiny.write(path)
    code, out = said(capsys, "--json", str(path))
    assert (code, json.loads(out)) == (2, judge(path).as_json())


def test_the_command_asks_for_the_cache_it_is_given(
    tiny: ModelFile, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.write(path)
    code, out = said(capsys, str(path), "-ctk", "nosuch", "--cache_type_v", "neither")
    assert code == 2
    assert out.endswith("\n  the KV cache type 'nosuch' is not played\n  the KV cache type 'neither' is not played\n")


def test_a_file_that_cannot_be_read_is_one_line_and_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", str(tmp_path / "absent")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"bankml: cannot read model file '{tmp_path / 'absent'}': No such file or directory\n"


def test_the_rules_are_llama_cpps_and_no_fork_s(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", str(path), "--engine", "prism"]) == 2
    assert "'prism' is not 'mainline'" in capsys.readouterr().err
