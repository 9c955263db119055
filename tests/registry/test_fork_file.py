"""registry/fork_file.py: which record pins a file, and which is none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from registry.errors import ForkFileError, NotPinned
from registry.fork_file import FilePin, ForkFile, PinnedFile, default_folder, pins_in

A, B = "a1" * 32, "b2" * 32


def entry(path: object, sha256: object, **more: Any) -> dict[str, Any]:
    return {"path": path, "sha256": sha256, **more}


def fork_of(path: Path, *files: Any, **record: Any) -> Path:
    path.write_text(json.dumps({**record, "files": list(files)}))
    return path


def test_the_importer_s_file_is_read_and_written_back_as_it_was(tmp_path: Path) -> None:
    record = {
        "kind": "import",
        "source_repo": "someone/model-gguf",
        "source_url": "https://example.org/model.gguf",
        "licence_tag": "apache-2.0",
        "imported_at_utc": "2026-09-29T03:19:17Z",
    }
    path = fork_of(tmp_path / "model.gguf.FORK.json", {"path": "model.gguf", "bytes": 5, "sha256": A}, **record)
    fork = ForkFile.read(path)
    assert fork == ForkFile((PinnedFile("model.gguf", A, 5),), {}, record)
    written = tmp_path / "new" / "copy.FORK.json"
    fork.write(written)
    assert json.loads(written.read_text()) == json.loads(path.read_text())
    assert list(written.parent.iterdir()) == [written]


def test_a_sha256_counts_in_either_case_and_before_its_path() -> None:
    fork = ForkFile.of_json({"files": [{"sha256": A.upper(), "path": "m.gguf"}]})
    assert fork.sha256_of("m.gguf") == A


def test_only_the_exact_file_name_is_pinned() -> None:
    fork = ForkFile.of_json({"files": [entry("M.gguf", A)]})
    for name in ("m.gguf", "M.gguf ", "M", "./M.gguf"):
        with pytest.raises(NotPinned, match=r"is not pinned: .* no sha256 for this name"):
            fork.sha256_of(name)


@pytest.mark.parametrize(
    ("sha256", "reason"),
    [
        (None, "no sha256 is recorded for it"),
        ("", "the sha256 recorded for it is not 64 hex digits"),
        (A[:-1], "the sha256 recorded for it is not 64 hex digits"),
        (A + "0", "the sha256 recorded for it is not 64 hex digits"),
        (A + "\n", "the sha256 recorded for it is not 64 hex digits"),
        ("sha256:" + A, "the sha256 recorded for it is not 64 hex digits"),
        ("g" * 64, "the sha256 recorded for it is not 64 hex digits"),
        ("\uff11" * 64, "the sha256 recorded for it is not 64 hex digits"),
        (7, "the sha256 recorded for it is not 64 hex digits"),
        ([A], "the sha256 recorded for it is not 64 hex digits"),
    ],
)
def test_a_malformed_sha256_pins_nothing(sha256: object, reason: str) -> None:
    fork = ForkFile.of_json({"files": [entry("m.gguf", sha256), entry("other.gguf", B)]})
    with pytest.raises(NotPinned) as caught:
        fork.sha256_of("m.gguf")
    assert str(caught.value) == f"m.gguf is not pinned: {reason}"
    assert fork.sha256_of("other.gguf") == B


def test_two_records_that_disagree_pin_nothing() -> None:
    fork = ForkFile.of_json({"files": [entry("m.gguf", A), entry("m.gguf", B), entry("n.gguf", A), entry("n.gguf", A)]})
    with pytest.raises(NotPinned, match="two different sha256 are recorded for it"):
        fork.sha256_of("m.gguf")
    assert fork.files == (PinnedFile("n.gguf", A),)


@pytest.mark.parametrize("name", ["", ".", "..", "a/m.gguf", "/m.gguf", "..\\m.gguf", "m.gguf\0"])
def test_a_path_that_leads_elsewhere_pins_nothing(name: str) -> None:
    fork = ForkFile.of_json({"files": [entry(name, A)]})
    assert fork.files == ()
    assert fork.problems == {name: "its path is no plain file name"}


@pytest.mark.parametrize("files", [None, {}, "m.gguf", [None, 1, "m.gguf", [], {}, {"path": 1, "sha256": A}]])
def test_what_is_no_list_of_records_pins_nothing(files: object) -> None:
    assert ForkFile.of_json({"files": files}).files == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JSON: "),
        (b"{", "no JSON: "),
        (b"[]", "no JSON object"),
        (b'{"files": "\xff"}', "no JSON: "),
        (b"[" * 100_000, "no JSON: "),
        (b'{"a": "' + b"x" * (4 << 20) + b'"}', "it is larger than 4194304 bytes"),
    ],
    ids=["empty", "cut", "list", "no UTF-8", "deep", "large"],
)
def test_a_file_that_is_no_fork_is_refused_by_its_path(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "FORK.json"
    path.write_bytes(data)
    with pytest.raises(ForkFileError) as caught:
        ForkFile.read(path)
    assert str(caught.value).startswith(f"cannot read {path}: {reason}")


def test_a_fork_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("absent", "No such file"), ("pipe", "no JSON"), (".", "Is a directory"), ("\0", "null")):
        with pytest.raises(ForkFileError, match=reason):
            ForkFile.read(tmp_path / name)


def test_a_fork_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "taken.FORK.json"
    taken.mkdir()
    with pytest.raises(ForkFileError, match=f"cannot write {taken}: "):
        ForkFile((PinnedFile("m.gguf", A),)).write(taken)
    assert list(tmp_path.iterdir()) == [taken]


# --- a folder of them -----------------------------------------------------------------------------------------------


def test_the_first_pin_of_a_name_wins_in_the_order_of_file_names(tmp_path: Path) -> None:
    second = fork_of(tmp_path / "b.FORK.json", entry("m.gguf", B), entry("n.GGUF", B))
    first = fork_of(tmp_path / "a.FORK.json", entry("M.gguf", A), entry("notes.txt", A))
    fork_of(tmp_path / "c.json", entry("o.gguf", A))
    (tmp_path / "p.gguf").write_bytes(b"GGUF")
    assert pins_in(tmp_path) == [
        FilePin("M.gguf", A, first),
        FilePin("n.GGUF", B, second),
    ]


def test_a_pin_beats_a_record_that_is_none(tmp_path: Path) -> None:
    fork_of(tmp_path / "a.FORK.json", entry("m.gguf", "x"))
    good = fork_of(tmp_path / "b.FORK.json", entry("m.gguf", B))
    assert pins_in(tmp_path) == [FilePin("m.gguf", B, good)]


def test_what_is_not_pinned_after_all_is_listed_with_the_reason(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf.FORK.json"
    cut.write_text('{"files": [')
    bad = fork_of(tmp_path / "m.gguf.FORK.json", entry("m.gguf", "x"))
    one, two = pins_in(tmp_path)
    assert (one.file_name, one.sha256, one.fork) == ("cut.gguf", None, cut)
    assert (one.problem or "").startswith(f"cannot read {cut}: no JSON: ")
    assert two == FilePin(
        "m.gguf", None, bad, problem="the sha256 recorded for it is not 64 hex digits in m.gguf.FORK.json"
    )


def test_a_folder_that_is_not_there_has_no_pins_and_one_that_is_none_is_refused(tmp_path: Path) -> None:
    assert pins_in(tmp_path / "absent") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ForkFileError, match="Not a directory"):
        pins_in(tmp_path / "file")


def test_the_default_folder_is_the_importer_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BANKML_FORKS", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_folder() == tmp_path / ".local/share/bankml/forks"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == tmp_path / ".local/share/bankml/forks"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_folder() == tmp_path / "data/bankml/forks"
    monkeypatch.setenv("BANKML_FORKS", "~/pins")
    assert default_folder() == tmp_path / "pins"
