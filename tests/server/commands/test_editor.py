"""The history of lines typed, and where it lies."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from server.commands.editor import LineHistory, history_path


def lines(path: Path) -> list[str]:
    return list(LineHistory(path).load_history_strings())


def test_a_line_typed_is_there_the_next_time_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "bankml" / "history"
    history = LineHistory(path)
    history.append_string("one")
    history.append_string("two\nlines \U0001f600")
    assert lines(path) == ["two\nlines \U0001f600", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_the_last_hundred_lines_are_kept_of_all_who_write(tmp_path: Path) -> None:
    path = tmp_path / "history"
    one, other = LineHistory(path), LineHistory(path)
    for number in range(60):
        one.store_string(f"one {number}")
        other.store_string(f"other {number}")
    assert len(lines(path)) == 100
    assert lines(path)[:2] == ["other 59", "one 59"]


def test_a_disabled_history_writes_nothing(tmp_path: Path) -> None:
    history = LineHistory(tmp_path / "history")
    history.enabled = False
    history.append_string("secret")
    assert history.get_strings() == ["secret"]
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_cannot_be_read_or_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'\xff\n"one"\n[1]\nbroken')
    assert lines(path) == []
    path.write_bytes(b'"one"\n[1]\nbroken\n')
    assert lines(path) == ["one"]
    LineHistory(path / "below" / "a file").append_string("x")


def test_the_history_is_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_path() == tmp_path / "bankml" / "history"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert history_path() == Path.home() / ".local" / "state" / "bankml" / "history"
