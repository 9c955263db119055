"""registry/trust.py and registry/gate.py: which bytes a file must have before it is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_model import tiny_llama

from registry.errors import (
    FirstUseMismatch,
    ForkFileError,
    GuardRefused,
    ModelFileError,
    NotPinned,
    PinMismatch,
)
from registry.fork_file import ForkFile, PinnedFile, pins_in
from registry.gate import check_pin, pin_file, verify
from registry.pins import DEFAULT_MODEL, Digest, FileIdentity, sha256_file
from registry.trust import FIRST_USES, Trust, first_use_path

OTHER = "0" * 64


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_llama().write(tmp_path / "tiny.gguf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "forks"


def fork_for(path: Path, sha256: str, name: str | None = None) -> Path:
    fork = path.parent / "FORK.json"
    ForkFile((PinnedFile(name or path.name, sha256),)).write(fork)
    return fork


def damage(path: Path) -> Digest:
    """Another last byte."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return sha256_file(path)


# --- the gate -------------------------------------------------------------------------------------------------------


def test_a_file_with_the_pinned_bytes_passes(model: Path) -> None:
    sha256 = sha256_file(model).sha256
    fork = ForkFile.read(fork_for(model, sha256.upper()))
    verified = verify(model, fork)
    assert (verified.digest.sha256, verified.report.verdict, verified.report.arch) == (sha256, "play", "llama")
    damage(model)
    with pytest.raises(PinMismatch, match=rf"^tiny\.gguf has sha256 [0-9a-f]{{64}}, but {sha256} is pinned$"):
        verify(model, fork)


def test_a_file_nobody_pinned_is_refused_and_not_read(tmp_path: Path) -> None:
    with pytest.raises(NotPinned):
        check_pin(tmp_path / "absent.gguf", ForkFile(()))


def test_the_header_is_judged_before_the_file_is_hashed(model: Path) -> None:
    whole = model.read_bytes()
    model.write_bytes(whole[:-1])
    with pytest.raises(GuardRefused, match=f"^guard needs {len(whole)} bytes: file truncated$") as caught:
        verify(model, ForkFile(()))
    assert caught.value.needed == len(whole)
    model.write_bytes(b"GGUX")
    with pytest.raises(GuardRefused, match=r"^guard refused: not a GGUF file \(it starts with b'GGUX'\)$"):
        verify(model, ForkFile(()))
    model.unlink()
    with pytest.raises(ModelFileError):
        verify(model, ForkFile(()))


def test_a_pin_that_is_written_is_the_file_s_and_leaves_those_of_others(model: Path) -> None:
    fork = fork_for(model, OTHER, "other.gguf")
    for _ in range(2):
        digest = pin_file(model, fork)
        assert [(pinned.path, pinned.sha256) for pinned in ForkFile.read(fork).files] == [
            ("other.gguf", OTHER),
            ("tiny.gguf", digest.sha256),
        ]
        damage(model)
    model.write_bytes(b"")
    with pytest.raises(GuardRefused):
        pin_file(model, fork)
    fork.write_text("{")
    with pytest.raises(ForkFileError):
        pin_file(tiny_llama().write(model), fork)
    assert fork.read_text() == "{"


# --- trust on first use ---------------------------------------------------------------------------------------------


def test_an_unpinned_file_is_trusted_once_and_refused_when_it_changed(model: Path, folder: Path) -> None:
    first = sha256_file(model)
    trust = Trust(model, None, folder)
    trust.check(first)
    assert not folder.exists()  # nothing is written before it is used
    assert trust.record(first)
    record = first_use_path(folder, model)
    said = json.loads(record.read_text())
    assert said["source"] == str(model)
    assert said["files"] == [{"path": "tiny.gguf", "bytes": model.stat().st_size, "sha256": first.sha256}]
    again = Trust(model, None, folder)
    again.check(first)
    assert not again.record(first)
    second = damage(model)
    with pytest.raises(FirstUseMismatch) as caught:
        Trust(model, None, folder).check(second)
    for part in (str(model), first.sha256, second.sha256, f"remove {record} or pin the file"):
        assert part in str(caught.value)
    record.unlink()
    Trust(model, None, folder).check(second)


def test_a_record_is_for_the_real_path_whatever_leads_there(model: Path, folder: Path, tmp_path: Path) -> None:
    Trust(model, None, folder).record(sha256_file(model))
    link = tmp_path / "there"
    link.symlink_to(tmp_path)
    second = damage(model)
    with pytest.raises(FirstUseMismatch):
        Trust(link / "tiny.gguf", None, folder).check(second)
    elsewhere = tmp_path / "elsewhere" / "tiny.gguf"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(model.read_bytes())
    Trust(elsewhere, None, folder).check(second)


def test_a_record_that_was_damaged_trusts_nothing(model: Path, folder: Path) -> None:
    digest = sha256_file(model)
    Trust(model, None, folder).record(digest)
    record = first_use_path(folder, model)
    record.write_text("{}")
    with pytest.raises(NotPinned):
        Trust(model, None, folder).check(digest)
    record.write_text("")
    with pytest.raises(ForkFileError):
        Trust(model, None, folder).check(digest)


def test_a_first_use_is_no_pin_of_the_folder(model: Path, folder: Path) -> None:
    Trust(model, None, folder).record(sha256_file(model))
    assert [path.name for path in folder.iterdir()] == [FIRST_USES]
    assert pins_in(folder) == []


def test_a_fork_decides_and_nothing_is_recorded(model: Path, folder: Path) -> None:
    digest = sha256_file(model)
    trust = Trust(model, fork_for(model, digest.sha256), folder)
    trust.check(digest)
    assert not trust.record(digest)
    with pytest.raises(PinMismatch, match=r"is pinned in .*FORK\.json$"):
        trust.check(damage(model))
    with pytest.raises(NotPinned):
        Trust(model, fork_for(model, digest.sha256, "tiny"), folder).check(digest)
    with pytest.raises(ForkFileError):
        Trust(model, model.parent / "absent.json", folder)


def test_the_fork_beside_a_file_decides(model: Path, folder: Path) -> None:
    beside = model.with_name("tiny.gguf.FORK.json")
    digest = pin_file(model, beside)
    trust = Trust(model, None, folder)
    assert trust.fork == beside
    trust.check(digest)
    with pytest.raises(PinMismatch):
        trust.check(damage(model))
    beside.write_text("")
    with pytest.raises(ForkFileError):
        Trust(model, None, folder)


def test_a_file_with_the_default_models_bytes_has_a_record_too(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "any.gguf"
    path.touch()
    trust = Trust(path, None, folder)
    assert trust.record(Digest(DEFAULT_MODEL.sha256, FileIdentity.of(path)))
    with pytest.raises(FirstUseMismatch):
        trust.check(sha256_file(path))


def test_a_record_that_cannot_be_written_is_said(model: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    with pytest.raises(ForkFileError, match="cannot write"):
        Trust(model, None, taken).record(sha256_file(model))
