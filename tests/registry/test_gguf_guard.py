"""registry/gguf_guard.py: play, refuse or need more, from the header alone; and the command that says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tiny_model import HEAD_SIZE, N_HEAD_KV, N_LAYER, tiny_llama

from engine.errors import UnplayableModel
from engine.ggml_types import GGMLType
from engine.model import Model, ModelOptions
from registry.errors import ModelFileError
from registry.gguf_guard import Engine, judge
from server.cli import main
from testing import gguf_writer as writer
from testing.gguf_writer import ModelFile, floats

ENGINES: tuple[Engine, Engine] = ("mainline", "prism")


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
        "native": True,
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
        assert report.as_json().keys() == {"types", "engine", "reasons", "native", "bytes", "bytes_needed", "verdict"}


def test_the_beginning_of_a_file_that_will_not_be_played_is_refused(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["general.architecture"] = "gemma3"
    whole = tiny.write(path).read_bytes()
    path.write_bytes(whole[:-1])
    report = judge(path)
    assert (report.verdict, report.bytes_needed) == ("refuse", len(whole))
    assert report.reasons == ("general.architecture is 'gemma3', which is not played",)


def test_a_chat_template_is_judged_when_the_file_is_whole(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["tokenizer.chat_template"] = "{% if %}"
    whole = tiny.write(path).read_bytes()
    assert judge(path).verdict == "refuse"
    path.write_bytes(whole[:-1])
    assert judge(path).verdict == "need_more"


@pytest.mark.parametrize("key", ["general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre"])
def test_a_refusal_does_not_list_an_array(tiny: ModelFile, path: Path, key: str) -> None:
    tiny.metadata[key] = ["long"] * 1000
    assert any(reason.startswith(f"{key} is an array") for reason in judge(tiny.write(path)).reasons)


def test_what_is_no_gguf_file_is_refused(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert judge(path).reasons == ("not a GGUF file (it starts with b'PK\\x03\\x04')",)
    path.write_bytes(b"")
    assert judge(path).verdict == "refuse"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_without_tensors_is_refused(path: Path, engine: Engine) -> None:
    path.write_bytes(writer.gguf([writer.key("general.architecture", writer.STRING, "llama")]))
    report = judge(path, engine=engine)
    assert not report.native
    assert report.native_reasons


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


# --- PrismML's fork -------------------------------------------------------------------------------------------------

N = 4096 * 4


def q2_0(path: Path, *, block: tuple[int, int], name: str = "Ternary-Bonsai-1.7B", kind: int = GGMLType.Q2_0) -> Path:
    """A file of two tensors of N weights each, in blocks of so many weights and bytes."""
    nbytes = N // block[0] * block[1]
    keys = [writer.key("general.architecture", writer.STRING, "qwen3"), writer.key("general.name", writer.STRING, name)]
    tensors = [writer.tensor("a", [N], kind, 0), writer.tensor("b", [N], kind, -(-nbytes // 32) * 32)]
    path.write_bytes(writer.gguf(keys, tensors, bytes(2 * (-(-nbytes // 32) * 32))))
    return path


def test_older_q2_0_files_are_refused_by_both_engines_and_counted(path: Path) -> None:
    q2_0(path, block=(128, 34))
    for engine in ENGINES:
        report = judge(path, engine=engine)
        assert report.verdict == "refuse"
        assert report.reasons == (
            "2 Q2_0 tensors are smaller than groups of 64 make them: an older file of PrismML's, with groups of 128",
        )
        assert (report.arch, report.types) == ("qwen3", {"Q2_0": 2})


def test_q2_0_in_groups_of_64_is_no_older_file_even_when_it_is_cut(path: Path) -> None:
    data = q2_0(path, block=(64, 18)).read_bytes()
    assert judge(path, engine="prism").verdict == "play"
    for n_missing in (1, 17, 100, N // 128 * 18, N // 64 * 18, N // 64 * 18 + 1):
        path.write_bytes(data[:-n_missing])
        report = judge(path, engine="prism")
        assert (report.verdict, report.bytes_needed) == ("need_more", len(data))
        assert "groups of 128" not in "".join(judge(path).reasons)


@pytest.mark.parametrize(("kind", "name"), [(142, "PQ2_0"), (143, "PTQ1_0")])
def test_types_of_the_fork_are_refused_by_llama_cpp_s_rules_alone(path: Path, kind: int, name: str) -> None:
    q2_0(path, block=(128, 34), kind=kind)
    report = judge(path)
    reason = f"2 tensors have the type {kind}, {name} of PrismML's fork, which llama.cpp does not have"
    assert (report.verdict, report.reasons, report.types) == ("refuse", (reason,), {name: 2})
    fork = judge(path, engine="prism").as_json()
    assert (fork["verdict"], fork["reasons"], fork["engine"]) == ("play", [], "prism")
    assert (fork["native"], fork["native_reasons"]) == (False, [reason])


@pytest.mark.parametrize("name", ["Ternary Bonsai 2 27B", "bonsai_-  2", "x PRISM-FORK-REQUIRED"])
def test_bonsai_2_is_refused_by_llama_cpp_s_rules_alone(path: Path, name: str) -> None:
    q2_0(path, block=(64, 18), name=name)
    report = judge(path)
    assert report.verdict == "refuse"
    assert f"{name!r} is a Bonsai 2: its weights are in a rotated basis" in "".join(report.reasons)
    assert judge(path, engine="prism").verdict == "play"
    assert not judge(path, engine="prism").native


def test_bonsai_2_is_known_by_its_file_s_name(tmp_path: Path) -> None:
    path = q2_0(tmp_path / "Ternary-Bonsai-2-27B.gguf", block=(64, 18))
    assert "'Ternary-Bonsai-2-27B.gguf' is a Bonsai 2" in "".join(judge(path).reasons)


def test_types_that_nobody_knows_are_refused_by_both_engines(path: Path) -> None:
    path.write_bytes(writer.gguf([], [writer.tensor(f"t{kind}", [32], kind, 0) for kind in (77, 0, 43, 77 << 8, 4)]))
    for engine in ENGINES:
        report = judge(path, engine=engine)
        assert report.verdict == "refuse"
        assert report.reasons == ("4 tensors have types that nobody knows: 4, 43, 77, 19712",)
        assert report.types == {"F32": 1, "4": 1, "43": 1, "77": 1, "19712": 1}


@pytest.mark.parametrize(("offset", "reason"), [(0, "reaches into"), (32, "reaches into"), (65, "no multiple of 32")])
def test_tensors_that_overlap_are_refused_by_both_engines(path: Path, offset: int, reason: str) -> None:
    tensors = [writer.tensor("a", [16], GGMLType.F32, 0), writer.tensor("b", [16], GGMLType.F32, offset)]
    path.write_bytes(writer.gguf([], tensors, bytes(256)))
    assert judge(path).reasons == (f"the tensor 'b' has the offset {offset}, expected 64",)
    report = judge(path, engine="prism")
    assert report.verdict == "refuse"
    assert reason in report.reasons[0]


def test_a_cache_too_large_to_count_is_refused_by_both_engines(tiny: ModelFile, path: Path) -> None:
    names = ("block_count", "attention.head_count_kv", "attention.key_length", "attention.value_length")
    tiny.metadata |= {f"llama.{name}": 2**32 - 1 for name in names}
    tiny.write(path)
    assert judge(path).verdict == "refuse"
    assert judge(path, engine="prism").reasons == ("the KV cache's bytes per token are more than 63 bits hold",)


def test_what_this_engine_plays_is_played_by_both(model_path: Path) -> None:
    report = judge(model_path, engine="prism")
    assert (report.verdict, report.native, report.as_json()["native_reasons"]) == ("play", True, [])


def test_the_command_tells_the_fork_s_verdict_from_ours(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q2_0(path, block=(128, 34), kind=142)
    code, out = said(capsys, str(path), "--engine", "prism")
    assert code == 0
    assert out.startswith(f"{path}: play by the rules of PrismML's fork, not by this engine\n")
    assert out.endswith("\n  2 tensors have the type 142, PQ2_0 of PrismML's fork, which llama.cpp does not have\n")
