"""registry/progress.py: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import os
import pty

import pytest

from registry.progress import Bar, Lines, OnTerminal


def test_elsewhere_a_line_is_written_every_tenth() -> None:
    out = io.StringIO()
    progress = OnTerminal(out)
    progress.start("fetching it", 200_000_000)
    for done in range(0, 200_000_001, 1_000_000):
        progress.update(done)
    progress.note("done")
    progress.close()
    lines = out.getvalue().splitlines()
    assert lines[0] == "fetching it (200 MB)"
    assert lines[1:-1] == [f"fetching it: {percent}%" for percent in range(10, 101, 10)]
    assert lines[-1] == "done"


def test_a_download_that_starts_late_skips_the_tenths_behind_it() -> None:
    out = io.StringIO()
    lines = Lines(out)
    lines.start("fetching it", 100)
    lines.update(55)
    lines.update(59)
    lines.update(60)
    assert out.getvalue().splitlines()[1:] == ["fetching it: 55%", "fetching it: 60%"]


def test_on_a_terminal_there_is_a_bar_with_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        bar = Bar(stream)
        bar.start("fetching it", 2_000_000)
        bar.update(2_000_000)
        bar.note("and a [note]")
        bar.close()
    text = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)
    assert "fetching it" in text
    assert "2.0/2.0 MB" in text
    assert "and a [note]" in text


def _read(terminal: int) -> bytes:
    """What the terminal was written, b"" once its other end is closed and all is read."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
