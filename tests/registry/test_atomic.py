"""registry/atomic.py: a file is whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from registry.atomic import PART_PREFIX, write_whole


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file"]


def test_others_may_read_it_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["file"]


def test_a_process_killed_while_it_writes_leaves_one_of_the_two(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 100_000)
    code = (
        "import sys; from pathlib import Path; from registry.atomic import write_whole\n"
        "while True:\n"
        "    for char in (b'b', b'a'): write_whole(Path(sys.argv[1]), char * 100_000)"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
        before = path.stat().st_ino
        while path.stat().st_ino == before:
            assert writer.poll() is None
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert path.read_bytes() in (b"a" * 100_000, b"b" * 100_000)
    assert all(name == "file" or name.startswith(PART_PREFIX) for name in os.listdir(tmp_path))
