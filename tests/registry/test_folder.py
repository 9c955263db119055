"""The folder of models: what is written is whole or not there, what nobody uses goes, a start says what it found."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from registry.blobs import DigestMismatch, InvalidDigest, hex_of
from registry.derived import Base, DerivedModel, Layer
from registry.errors import ModelNotFound
from registry.folder import FolderError, ModelFolder
from registry.names import ModelName

WEIGHTS = b"weights" * 1000
SHA = hashlib.sha256(WEIGHTS).hexdigest()
CREATED = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path / "forks")


def _over_blob(folder: ModelFolder, name: str = "mario", system: str | None = None) -> DerivedModel:
    """A model over weights that are a blob of the folder."""
    path = folder.add_blob(SHA, [WEIGHTS])
    return DerivedModel(ModelName.parse(name), CREATED, Base(name, path.name, SHA, None, path), Layer(SHA, system))


def _over_file(name: str = "mario", system: str | None = None) -> DerivedModel:
    base = Base("tiny", "tiny.gguf", SHA, "tiny.gguf.FORK.json", Path("/models/tiny.gguf"))
    return DerivedModel(ModelName.parse(name), CREATED, base, Layer(SHA, system))


def _left(folder: ModelFolder) -> list[str]:
    """Every file of the folder but its lock."""
    files = (path for path in folder.path.rglob("*") if path.is_file() and path.name != ".lock")
    return sorted(str(path.relative_to(folder.path)) for path in files)


def test_a_folder_that_is_not_there_is_empty_and_is_not_made_by_looking(folder: ModelFolder) -> None:
    assert folder.derived() == ([], [])
    assert folder.find(ModelName.parse("mario")) is None
    assert not folder.has_blob(SHA)
    assert folder.sweep() == []
    assert not folder.path.exists()


@pytest.mark.parametrize("digest", [f"sha256:{SHA}", f"sha256-{SHA.upper()}", SHA])
def test_a_digest_is_known_in_each_of_its_forms(digest: str) -> None:
    assert hex_of(digest) == SHA


@pytest.mark.parametrize(
    "digest", ["", "sha256:", f"sha256:{SHA}0", f"sha512:{SHA}", "g" * 64, "../" + SHA, SHA + "\n"]
)
def test_what_is_no_digest_is_refused_in_ollamas_words(folder: ModelFolder, digest: str) -> None:
    with pytest.raises(InvalidDigest, match=r"^invalid digest format$"):
        folder.blob_path(digest)


def test_a_blob_is_there_once_it_is_whole(folder: ModelFolder) -> None:
    with folder.blob_writer(SHA) as writer:
        writer.write(WEIGHTS[:10])
        assert not folder.has_blob(SHA)
        writer.write(WEIGHTS[10:])
        path = writer.commit()
    assert path.read_bytes() == WEIGHTS
    assert _left(folder) == [f"blobs/sha256-{SHA}"]


def test_bytes_of_another_digest_leave_nothing(folder: ModelFolder) -> None:
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(DigestMismatch, match=f'^digest mismatch, expected "sha256:{SHA}", got "sha256:{other}"$'):
        folder.add_blob(SHA, [b"other"])
    assert _left(folder) == []


def test_an_upload_that_breaks_off_leaves_nothing(folder: ModelFolder) -> None:
    def pieces() -> Iterator[bytes]:
        yield WEIGHTS[:10]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        folder.add_blob(SHA, pieces())
    assert _left(folder) == []


def test_a_full_disk_is_one_line_and_leaves_nothing(folder: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/full` takes the place of the file under way: every write to it fails as on a full disk."""
    with folder.blob_writer(SHA) as writer:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, writer.fileno())
        os.close(full)
        with pytest.raises(FolderError, match=f"^no space left in {folder.path}$"):
            writer.write(WEIGHTS)
    assert _left(folder) == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FolderError, match=r"^cannot write to .*: Not a directory$"):
        ModelFolder(tmp_path / "file" / "forks").write(_over_file())


def test_a_model_is_found_by_its_name_in_any_letter_case(folder: ModelFolder) -> None:
    folder.write(_over_file("Mario:V2"))
    assert folder.find(ModelName.parse("mario:v2")) == _over_file("Mario:V2")
    assert folder.find(ModelName.parse("mario")) is None
    assert _left(folder) == ["Mario%3AV2.MODEL.json"]


def test_a_name_written_again_replaces_its_model(folder: ModelFolder) -> None:
    folder.write(_over_file("Mario", "one"))
    folder.write(_over_file("mario", "two"))
    assert [model.layer.system for model in folder.derived()[0]] == ["two"]
    assert _left(folder) == ["Mario.MODEL.json"]


def test_a_new_name_has_its_parts_in_the_letter_case_that_is_there(folder: ModelFolder) -> None:
    folder.write(_over_file("Team/Mario:V2"))
    assert folder.existing_name(ModelName.parse("team/mario:v2")).shown == "Team/Mario:V2"
    assert folder.existing_name(ModelName.parse("MARIO:v3")).shown == "Mario:v3"


def test_a_deleted_model_leaves_the_other_that_has_its_weights(folder: ModelFolder) -> None:
    model = _over_blob(folder)
    folder.write(model)
    copied = replace(model, name=ModelName.parse("luigi"), created_at=datetime(2027, 1, 1, tzinfo=UTC))
    folder.write(copied)
    folder.delete(ModelName.parse("MARIO"))
    assert folder.derived() == ([copied], [])
    assert folder.has_blob(SHA)


def test_the_last_model_takes_its_blob_along(folder: ModelFolder) -> None:
    folder.write(_over_blob(folder))
    folder.delete(ModelName.parse("mario"))
    assert _left(folder) == []
    with pytest.raises(ModelNotFound):
        folder.delete(ModelName.parse("mario"))


def test_a_blob_stays_that_a_link_of_the_folder_leads_to_or_an_unreadable_manifest_may(folder: ModelFolder) -> None:
    folder.write(_over_blob(folder))
    (folder.path / "tiny.gguf").symlink_to(folder.blob_path(SHA))
    folder.delete(ModelName.parse("mario"))
    assert folder.has_blob(SHA)
    (folder.path / "tiny.gguf").unlink()
    (folder.path / "x.MODEL.json").write_text("{}")
    assert [line for line in folder.sweep() if "removed" in line] == []
    assert folder.has_blob(SHA)


def test_a_model_is_not_written_over_a_blob_that_is_gone(folder: ModelFolder) -> None:
    model = _over_blob(folder)
    folder.blob_path(SHA).unlink()
    with pytest.raises(FolderError, match="is not there any more"):
        folder.write(model)
    assert _left(folder) == []


def test_manifests_that_cannot_be_used_are_listed_with_their_reasons(folder: ModelFolder) -> None:
    path = folder.write(_over_file())
    (folder.path / "luigi.MODEL.json").write_bytes(path.read_bytes())
    manifest = json.loads(path.read_bytes())
    manifest["layer"]["system"] = "edited"
    path.write_text(json.dumps(manifest))
    os.mkfifo(folder.path / "pipe.MODEL.json")
    (folder.path / "folder.MODEL.json").mkdir()
    models, unreadable = folder.derived()
    assert models == []
    assert {each.path.name: each.reason for each in unreadable} == {
        "luigi.MODEL.json": "it is the manifest of 'mario:latest', under another file name",
        "mario.MODEL.json": "edited by hand, refused: create it again",
        "pipe.MODEL.json": "not a manifest: not JSON",
    }


def _settle(path: Path) -> None:
    """Makes a file one that was written long ago: what is newer may change and look the same."""
    os.utime(path, ns=(0, 0))


def test_a_manifest_is_read_once_in_each_of_its_states(folder: ModelFolder) -> None:
    paths = [folder.write(_over_file("mario", "one")), folder.write(_over_file("luigi", "two"))]
    for path in paths:
        _settle(path)
    (luigi, mario), _ = folder.derived()
    _settle(folder.write(_over_file("mario", "six")))  # as many bytes at the same time, and another file
    (luigi_now, mario_now), _ = folder.derived()
    assert luigi_now is luigi
    assert (mario.layer.system, mario_now.layer.system) == ("one", "six")
    assert folder.find(ModelName.parse("mario")) is mario_now


def test_a_manifest_edited_in_its_place_is_read_again(folder: ModelFolder) -> None:
    path = folder.write(_over_file("mario", "one"))
    _settle(path)
    assert folder.find(ModelName.parse("mario")) is not None
    text = path.read_text()
    path.write_text(text.replace('"one"', '"two"'))
    assert [each.reason for each in folder.derived()[1]] == ["edited by hand, refused: create it again"]
    path.write_text(text)
    assert folder.find(ModelName.parse("mario")) == _over_file("mario", "one")


def test_a_start_clears_away_what_is_half_done_and_says_so(folder: ModelFolder) -> None:
    kept = folder.write(_over_file())
    for name in ("upload-1", "manifest-1"):
        folder.partial_path(name).write_bytes(b"half")
    (folder.partial_path("convert-1")).mkdir()
    (folder.partial / "convert-1" / "model.gguf").write_bytes(b"half")
    folder.partial_path("pull-of-something").write_bytes(b"half")
    other = hashlib.sha256(b"other").hexdigest()
    folder.add_blob(other, [b"other"])
    assert folder.sweep() == [
        f"removed {folder.partial}/convert-1: it was never made whole",
        f"removed {folder.partial}/manifest-1: it was never made whole",
        f"{folder.partial}/pull-of-something: 4 bytes of a pull that did not end; it goes on when asked for again",
        f"removed {folder.partial}/upload-1: it was never made whole",
        f"removed {folder.blobs}/sha256-{other}: no model uses it",
    ]
    assert _left(folder) == [kept.name, "partial/pull-of-something"]


def test_a_start_keeps_unused_blobs_where_ollama_would(folder: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.add_blob(SHA, [WEIGHTS])
    monkeypatch.setenv("OLLAMA_NOPRUNE", "1")
    assert folder.sweep() == []
    monkeypatch.setenv("OLLAMA_NOPRUNE", "false")
    assert folder.sweep() == [f"removed {folder.blobs}/sha256-{SHA}: no model uses it"]


def test_a_start_leaves_alone_what_another_process_writes(folder: ModelFolder) -> None:
    with folder.blob_writer(SHA) as writer:
        writer.write(WEIGHTS)
        assert folder.sweep() == []
        writer.commit()
    assert folder.has_blob(SHA)


def test_writers_wait_for_each_other(folder: ModelFolder) -> None:
    with folder.locked():
        writing = threading.Thread(target=folder.write, args=(_over_file(),))
        writing.start()
        with open(folder.path / ".lock", "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert folder.derived() == ([], [])
    writing.join()
    assert folder.derived() == ([_over_file()], [])


KILLED = """
import hashlib, os, signal, sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from registry.derived import Base, DerivedModel, Layer
from registry.folder import ModelFolder
from registry.names import ModelName

WEIGHTS = b"weights" * 1000
SHA = hashlib.sha256(WEIGHTS).hexdigest()
STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "fcntl.flock", "test.piece"}
left = None

def count(event, args):
    global left
    if left is not None and event in STEPS:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

def pieces():
    for start in range(0, len(WEIGHTS), 1000):
        sys.audit("test.piece")
        yield WEIGHTS[start : start + 1000]

def work(folder):
    path = folder.add_blob(SHA, pieces())
    base = Base("mario", path.name, SHA, None, path)
    model = DerivedModel(ModelName.parse("mario"), datetime(2026, 1, 2, tzinfo=UTC), base, Layer(SHA, "new"))
    folder.write(model)
    folder.write(replace(model, name=ModelName.parse("luigi")))
    folder.delete(ModelName.parse("peach"))

sys.addaudithook(count)
for number in range(1000):
    child = os.fork()
    if child == 0:
        folder = ModelFolder(Path(sys.argv[1]) / str(number))
        old = Base("peach", "tiny.gguf", "0" * 64, None, Path("/tiny.gguf"))
        for name in ("peach", "mario"):
            at = datetime(2026, 1, 1, tzinfo=UTC)
            folder.write(DerivedModel(ModelName.parse(name), at, old, Layer("0" * 64, "old")))
        left = number
        work(folder)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(number)
"""


def test_a_kill_at_any_step_leaves_whole_models_and_a_start_that_tidies(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, check=True, text=True)
    n_steps = int(done.stdout)
    assert n_steps > 30
    for number in range(n_steps + 1):
        folder = ModelFolder(tmp_path / str(number))
        before = _systems(folder)
        assert before["mario:latest"] in ("old", "new")
        assert before.get("peach:latest", "old") == "old"
        assert all(path.read_bytes() == WEIGHTS for path in folder.blobs.glob("*"))
        folder.sweep()
        assert _systems(folder) == before
        uses = "new" in before.values()
        assert _left(folder) == sorted(
            [*(f"{name.removesuffix(':latest')}.MODEL.json" for name in before), *([f"blobs/sha256-{SHA}"] * uses)]
        )
    assert before == {"mario:latest": "new", "luigi:latest": "new"}


def _systems(folder: ModelFolder) -> dict[str, str | None]:
    models, unreadable = folder.derived()
    assert unreadable == []
    return {model.name.shown.lower(): model.layer.system for model in models}


def test_a_manifest_that_would_be_too_large_to_be_read_again_is_not_written(folder: ModelFolder) -> None:
    folder.write(_over_file(system="before"))
    with pytest.raises(FolderError, match="manifest would have more than"):
        folder.write(_over_file(system="x" * (64 << 20)))
    assert folder.derived() == ([_over_file(system="before")], [])


def test_a_start_clears_what_is_no_file_and_goes_through_no_link(folder: ModelFolder, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "inner").mkdir(parents=True)
    for name in ("upload-l", "convert-l", "manifest-dangling", "sha256-dangling"):
        folder.partial_path(name).symlink_to(mine if name.endswith("-l") else mine / "nothing")
    os.mkfifo(folder.partial_path("upload-pipe"))
    (folder.partial_path("convert-folder") / "inner").mkdir(parents=True)
    found = folder.sweep()
    assert sorted(line.split()[0] for line in found) == sorted([*["removed"] * 5, f"{folder.partial}/sha256-dangling:"])
    assert ([path.name for path in folder.partial.iterdir()], (mine / "inner").is_dir()) == (["sha256-dangling"], True)


def test_a_lock_that_is_a_pipe_holds_nobody_up_and_one_that_is_a_link_is_refused(folder: ModelFolder) -> None:
    folder.path.mkdir()
    os.mkfifo(folder.path / ".lock")
    folder.write(_over_file())
    (folder.path / ".lock").unlink()
    (folder.path / ".lock").symlink_to(folder.path / "elsewhere")
    with pytest.raises(FolderError):
        folder.write(_over_file("luigi"))
    assert not (folder.path / "elsewhere").exists()


def test_a_start_removes_no_file_that_is_no_blob_and_nothing_of_ollamas(folder: ModelFolder) -> None:
    blob = folder.add_blob(SHA, [WEIGHTS])
    notes = folder.blobs / "notes.txt"
    notes.write_text("mine")
    (folder.path / "manifests").mkdir()
    assert (folder.sweep(), blob.exists(), notes.exists()) == ([], True, True)
    (folder.path / "manifests").rmdir()
    assert (folder.sweep(), blob.exists(), notes.exists()) == ([f"removed {blob}: no model uses it"], False, True)


def test_a_start_prunes_no_blob_while_another_process_uses_the_folder(tmp_path: Path) -> None:
    content = b"for a model that is made next"
    digest = hashlib.sha256(content).hexdigest()
    upload = "import sys; from pathlib import Path; from registry.folder import ModelFolder\n"
    upload += f"ModelFolder(Path(sys.argv[1])).add_blob('{digest}', [{content!r}]); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", upload, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert ModelFolder(tmp_path).sweep() == []
        assert ModelFolder(tmp_path).has_blob(digest)
    blob = ModelFolder(tmp_path).blob_path(digest)
    assert ModelFolder(tmp_path).sweep() == [f"removed {blob}: no model uses it"]
    assert not blob.exists()
