"""A mapped model file that is cut, written to or replaced: zeros and a clear answer, and no other fault is hidden."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.kernels import FileMap

PAGE = os.sysconf("SC_PAGE_SIZE")
N_PAGES = 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(1, 129)) * (N_PAGES * PAGE // 128))
    return path


@pytest.fixture
def opened(path: Path) -> FileMap:
    with open(path, "rb") as file:
        return FileMap(file.fileno())


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program that may well be killed by a signal."""
    preamble = "import mmap, os, sys\nfrom engine.kernels import FileMap\n"
    command = [sys.executable, "-c", preamble + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_map_is_the_file_and_outlives_its_descriptor(opened: FileMap, path: Path) -> None:
    view = opened.bytes
    del opened
    assert view.tobytes() == path.read_bytes()
    assert not view.flags.writeable


def test_a_file_that_is_only_read_is_intact(opened: FileMap, path: Path) -> None:
    assert int(opened.bytes.sum()) > 0
    opened.release()
    assert path.read_bytes() == opened.bytes.tobytes()
    os.chmod(path, 0o400)
    assert opened.intact


@pytest.mark.parametrize("n_left", [0, 1, PAGE, PAGE + 1, 10 * PAGE, N_PAGES * PAGE - 1])
def test_what_a_cut_took_reads_as_zeros_and_the_map_is_not_intact(path: Path, n_left: int) -> None:
    code = """
with open(sys.argv[1], "rb") as file:
    file_map = FileMap(file.fileno())
whole = file_map.bytes.tobytes()
os.truncate(sys.argv[1], int(sys.argv[2]))
assert not file_map.intact
left = file_map.bytes.tobytes()
assert left == whole[: int(sys.argv[2])].ljust(len(whole), b"\\0")
os.truncate(sys.argv[1], len(whole))
file_map.release()
assert not file_map.intact
print("alive")
"""
    done = run(code, str(path), str(n_left))
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


def test_a_map_cut_under_several_threads_reads_as_zeros_in_all_of_them(opened: FileMap, path: Path) -> None:
    os.truncate(path, 0)
    found: list[int] = []

    def read(start: int) -> None:
        found.append(sum(int(opened.bytes[at]) for at in range(start, N_PAGES * PAGE, PAGE * 3)))

    threads = [threading.Thread(target=read, args=(i * PAGE,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0, 0, 0]
    assert not opened.intact


def test_a_map_cut_page_by_page_from_its_end_takes_no_more_than_one_more_map(path: Path) -> None:
    """Linux bounds the maps of a process; a fault a page would reach the bound in a large file."""
    with open(path, "rb") as file:
        file_map = FileMap(file.fileno())
    maps = Path("/proc/self/maps")
    before = len(maps.read_text().splitlines()) if maps.exists() else 0
    for n_left in range(N_PAGES - 1, -1, -1):
        os.truncate(path, n_left * PAGE)
        assert file_map.bytes[n_left * PAGE] == 0
    if maps.exists():
        assert len(maps.read_text().splitlines()) <= before + 2


def test_one_map_that_is_lost_leaves_another_alone(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    with open(path, "rb") as one, open(other, "rb") as two:
        first, second = FileMap(one.fileno()), FileMap(two.fileno())
    os.truncate(path, 0)
    assert int(first.bytes.sum()) == 0
    assert not first.intact
    assert second.bytes.tobytes() == other.read_bytes()
    assert second.intact


def test_a_file_written_to_in_place_is_not_intact(opened: FileMap, path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(PAGE)
        file.write(b"\xff")
    assert not opened.intact


def test_a_file_replaced_under_its_name_is_intact(opened: FileMap, path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    (tmp_path / "new").write_bytes(b"another")
    os.replace(tmp_path / "new", path)
    assert opened.intact
    assert opened.bytes.tobytes() == whole


def test_maps_come_and_go_without_end(path: Path) -> None:
    with open(path, "rb") as file:
        for _ in range(3000):
            assert FileMap(file.fileno()).bytes[0] == 1


def test_what_cannot_be_mapped_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with open(tmp_path / "empty", "rb") as file, pytest.raises(OSError, match="Invalid argument"):
        FileMap(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        FileMap(12345)


def test_more_maps_than_there_is_room_for_are_an_os_error_and_no_crash(path: Path) -> None:
    with open(path, "rb") as file:
        maps: list[FileMap] = []
        with pytest.raises(OSError, match=r"Too many open files"):
            maps.extend(FileMap(file.fileno()) for _ in range(1025))
        assert maps
        assert maps[-1].bytes[0] == 1
        maps.clear()
        assert FileMap(file.fileno()).intact


# --- faults that are none of ours -----------------------------------------------------------------------------------

FAULT = """
with open(sys.argv[1], "rb") as file:
    file_map = FileMap(file.fileno())
    foreign = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(sys.argv[1], 0)
print(file_map.bytes[0], flush=True)
foreign[0]
print("alive")
"""


def test_a_fault_in_another_map_kills_as_ever(path: Path) -> None:
    done = run(FAULT, str(path))
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "0\n")


def test_a_fault_in_another_map_goes_to_the_handler_that_was_there_before(path: Path) -> None:
    done = run("import faulthandler\nfaulthandler.enable()\n" + FAULT, str(path))
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "0\n")
    assert done.stderr.startswith("Fatal Python error: Bus error\n")


def test_a_signal_that_somebody_sends_kills_as_ever(path: Path) -> None:
    code = """
with open(sys.argv[1], "rb") as file:
    file_map = FileMap(file.fileno())
os.kill(os.getpid(), 7 if len(sys.argv) < 3 else int(sys.argv[2]))
print("alive")
"""
    done = run(code, str(path), str(int(signal.SIGBUS)))
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "")


def test_a_number_from_a_lost_page_is_zero_for_numpy_too(opened: FileMap, path: Path) -> None:
    floats = opened.bytes.view(np.float32)
    os.truncate(path, PAGE)
    assert floats[PAGE // 4 :].max() == 0.0
    assert not opened.intact
