"""registry/pins.py: which bytes a file has, and whether it is still that file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from registry.errors import ModelFileError
from registry.pins import DEFAULT_MODEL, FileIdentity, sha256_file


def test_the_sha256_is_of_the_whole_file(tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    digest = sha256_file(path)
    assert digest.sha256 == hashlib.sha256(data).hexdigest()
    assert digest.identity == FileIdentity.of(path)
    assert digest.identity.size == 3_000_001


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_is_named_with_the_reason(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    path = tmp_path / "model.gguf"
    make(path)
    with pytest.raises(ModelFileError, match=reason) as caught:
        sha256_file(path)
    assert str(path) in str(caught.value)


def test_a_file_written_to_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"one")
    os.utime(path, ns=(0, 0))
    before = FileIdentity.of(path)
    path.write_bytes(b"two")
    assert FileIdentity.of(path) != before


def test_a_file_put_in_its_place_is_another_file(tmp_path: Path) -> None:
    path, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    path.write_bytes(b"one")
    other.write_bytes(b"one")
    for file in (path, other):
        os.utime(file, ns=(0, 0))
    before = FileIdentity.of(path)
    other.rename(path)
    assert FileIdentity.of(path) != before


def test_the_default_model_has_the_pinned_bytes(model_path: Path) -> None:
    digest = sha256_file(model_path)
    assert (digest.sha256, digest.identity.size) == (DEFAULT_MODEL.sha256, DEFAULT_MODEL.size)
