"""registry/catalog.py over a folder: pins and derived models, their names, and what is known against them."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from registry.catalog import Catalog, Entry
from registry.derived import Base, DerivedModel, Layer
from registry.errors import ModelFileChanged, ModelFileMissing, ModelNotFound, ModelRefused, PinMismatch
from registry.folder import ModelFolder
from registry.manifests import Unreadable
from registry.names import ModelName

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pin(folder: Path, name: str, data: bytes | None, *, pinned: str | None = None) -> None:
    """A file with a FORK.json, or the FORK.json alone."""
    if data is not None:
        (folder / name).write_bytes(data)
    record = {"files": [{"path": name, "sha256": pinned or sha256(data or b"")}]}
    (folder / f"{name}.FORK.json").write_text(json.dumps(record))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "forks"
    path.mkdir()
    return path


@pytest.fixture
def startup(tmp_path: Path) -> Path:
    path = tmp_path / "start" / "Start-1B.Q4_1.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF start")
    return path


@pytest.fixture
def catalog(startup: Path, folder: Path) -> Catalog:
    return Catalog.of_file(startup, aliases=["house"], folder=ModelFolder(folder))


def derive(catalog: Catalog, source: str, name: str, system: str | None = None) -> Entry:
    assert catalog.folder is not None
    base = catalog.resolve(source)
    layer = Layer(base.sha256, system=system)
    catalog.folder.write(base.as_derived(ModelName.parse(name), NOW, layer))
    return catalog.resolve(name)


def test_one_file_answers_every_name_and_a_folder_does_not(startup: Path, catalog: Catalog) -> None:
    assert Catalog.of_file(startup).any_name
    assert not catalog.any_name
    with pytest.raises(ModelNotFound):
        catalog.resolve("nobody")


def test_a_folder_that_is_not_there_has_no_models(startup: Path, tmp_path: Path) -> None:
    catalog = Catalog.of_file(startup, folder=ModelFolder(tmp_path / "nowhere"))
    assert catalog.entries() == (catalog.default,)


def test_pins_are_there_as_soon_as_they_are_written_and_nothing_is_hashed(catalog: Catalog, folder: Path) -> None:
    pin(folder, "Bonsai-1.7B-Q1_0.gguf", b"weights", pinned="ab" * 32)
    entry = catalog.resolve("bonsai-1.7b-q1_0")
    assert (entry.shown, entry.sha256, entry.identity) == ("bonsai-1.7b-q1_0:latest", "ab" * 32, None)
    assert (entry.path, entry.fork, entry.found) == (
        folder / "Bonsai-1.7B-Q1_0.gguf",
        "Bonsai-1.7B-Q1_0.gguf.FORK.json",
        True,
    )
    for name in ("Bonsai-1.7B-Q1_0:latest", "bonsai-1.7b", "BONSAI-1.7B:latest", "Bonsai-1.7B-Q1_0.gguf"):
        assert catalog.resolve(name) is entry
    assert [each.name for each in catalog.entries()] == ["start-1b.q4_1", "bonsai-1.7b-q1_0"]


def test_a_short_name_that_two_files_have_is_neither_s(catalog: Catalog, folder: Path) -> None:
    pin(folder, "m-f16.gguf", b"1")
    assert catalog.resolve("m").path.name == "m-f16.gguf"
    pin(folder, "m-q8_0.gguf", b"2")
    with pytest.raises(ModelNotFound):
        catalog.resolve("m")


def test_the_file_s_own_name_beats_a_derived_model_s_which_beats_the_short_name(catalog: Catalog, folder: Path) -> None:
    pin(folder, "mindx-gen39-f16.gguf", b"1")
    pinned = catalog.resolve("mindx-gen39")
    layered = derive(catalog, "mindx-gen39", "mindx-gen39", "You are mindX.")
    assert catalog.resolve("mindx-gen39") is layered
    assert layered.layer is not None
    assert catalog.resolve("mindx-gen39-f16").layer is None
    assert layered.same_weights(pinned)
    assert (layered.parent, layered.digest) == ("mindx-gen39-f16:latest", layered.manifest)
    derive(catalog, "house", "house", "The file has this name already.")
    assert catalog.resolve("house") is catalog.default
    assert catalog.file_named("House:latest") is catalog.default
    assert catalog.file_named("mindx-gen39") is None


@pytest.mark.parametrize("name", ["mario:v2", "MARIO:V2", "library/mario:v2", "registry.ollama.ai/library/mario:v2"])
def test_a_derived_model_is_found_by_every_way_to_write_its_name(catalog: Catalog, name: str) -> None:
    entry = derive(catalog, "house", "mario:v2")
    assert catalog.resolve(name) is entry
    assert entry.shown == "mario:v2"
    with pytest.raises(ModelNotFound):
        catalog.resolve("mario")


def test_files_lie_beside_the_first_one_or_in_the_folder(catalog: Catalog, folder: Path, startup: Path) -> None:
    pin(folder, "m.gguf", None)
    missing = catalog.resolve("m")
    assert not missing.found
    with pytest.raises(ModelFileMissing, match=r"^model 'm:latest' not found: there is no '.*' on this machine$"):
        missing.require_usable()
    (startup.parent / "m.gguf").write_bytes(b"beside")
    catalog.refresh()
    assert catalog.resolve("m").path == startup.parent / "m.gguf"
    catalog.resolve("m").require_usable()


def test_a_pinned_file_that_appears_beside_the_first_one_is_seen_though_the_folder_did_not_change(
    catalog: Catalog, folder: Path, startup: Path
) -> None:
    pin(folder, "later.gguf", None, pinned=sha256(b"later"))
    assert not catalog.resolve("later").found
    (startup.parent / "later.gguf").write_bytes(b"la")
    assert catalog.resolve("later").size == 2
    (startup.parent / "later.gguf").write_bytes(b"later")  # it was still being copied
    entry = catalog.resolve("later")
    assert (entry.path, entry.size, entry.found) == (startup.parent / "later.gguf", 5, True)
    (startup.parent / "later.gguf").unlink()
    assert catalog.resolve("later").path == folder / "later.gguf"


def test_a_file_in_the_folder_has_the_size_that_it_has_now(catalog: Catalog, folder: Path) -> None:
    pin(folder, "growing.gguf", b"gr", pinned=sha256(b"growing"))
    assert catalog.resolve("growing").size == 2
    (folder / "growing.gguf").write_bytes(b"growing")
    assert catalog.resolve("growing").size == 7


def test_a_record_of_a_name_that_no_file_can_have_is_a_refusal(catalog: Catalog, folder: Path) -> None:
    (folder / "x.gguf.FORK.json").write_text('{"files": [{"path": "a\\u0000b.gguf", "sha256": "' + "0" * 64 + '"}]}')
    assert catalog.resolve("a\0b").refused
    assert catalog.resolve("a\0b").refused  # the folder is looked at again


def test_a_model_that_was_loaded_and_removed_since_is_called_by_its_file(catalog: Catalog, folder: Path) -> None:
    pin(folder, "base.gguf", b"base")
    mario, luigi = derive(catalog, "base", "mario"), derive(catalog, "base", "luigi", "You are Luigi.")
    assert catalog.still(mario) is mario
    assert catalog.folder is not None
    catalog.folder.delete(ModelName.parse("mario"))
    assert catalog.still(mario).name == "base"
    assert catalog.still(luigi) is luigi


def test_a_record_that_pins_nothing_is_a_refusal_with_its_reason(catalog: Catalog, folder: Path) -> None:
    (folder / "m.gguf").write_bytes(b"weights")
    (folder / "m.gguf.FORK.json").write_text('{"files": [{"path": "m.gguf"}]}')
    entry = catalog.resolve("m")
    assert entry in catalog.entries()
    with pytest.raises(ModelRefused, match=r"^model 'm:latest' is refused: no sha256 is recorded for it"):
        entry.require_usable()


def test_a_manifest_edited_by_hand_is_a_refusal_with_its_reason(catalog: Catalog, folder: Path) -> None:
    derive(catalog, "house", "mario", "It's-a me.")
    manifest = folder / "mario.MODEL.json"
    manifest.write_text(manifest.read_text().replace("a me", "a you"))
    entry = catalog.resolve("Mario:latest")
    assert entry in catalog.entries()
    with pytest.raises(ModelRefused, match=r"edited by hand, refused: create it again$"):
        entry.require_usable()


async def test_an_event_loop_reads_no_folder(startup: Path, folder: Path) -> None:
    readers: set[int] = set()

    class Watched(ModelFolder):
        def derived(self) -> tuple[list[DerivedModel], list[Unreadable]]:
            readers.add(threading.get_ident())
            return super().derived()

    catalog = Catalog.of_file(startup, aliases=["house"], folder=Watched(folder))
    base = catalog.default
    ModelFolder(folder).write(base.as_derived(ModelName.parse("mario"), NOW))
    readers.clear()
    assert (await catalog.find("mario")).name == "mario"
    assert readers
    assert threading.get_ident() not in readers


def test_a_derived_model_whose_pin_says_something_else_is_refused(catalog: Catalog, folder: Path) -> None:
    pin(folder, "m.gguf", b"weights")
    derive(catalog, "m", "mario").require_usable()
    pin(folder, "m.gguf", b"other weights")
    with pytest.raises(ModelRefused, match=r"was made over another 'm.gguf' than the one that is pinned now"):
        catalog.resolve("mario").require_usable()
    (folder / "m.gguf.FORK.json").unlink()
    with pytest.raises(ModelRefused, match=r"'m.gguf' are not pinned any more$"):
        catalog.resolve("mario").require_usable()


def test_weights_that_came_as_a_blob_are_taken_from_there(catalog: Catalog, folder: Path) -> None:
    assert catalog.folder is not None
    data = b"GGUF pulled"
    blob = catalog.folder.add_blob(sha256(data), [data])
    base = Base("pulled:1b", blob.name, sha256(data), None, blob)
    catalog.folder.write(DerivedModel(ModelName.parse("pulled:1b"), NOW, base, Layer(sha256(data))))
    pulled = catalog.resolve("pulled:1b")
    assert (pulled.path, pulled.parent, pulled.size) == (blob, "", len(data))
    blob.unlink()
    with pytest.raises(ModelFileMissing):
        pulled.require_usable()


def test_bytes_that_are_not_the_pinned_ones_are_refused_and_bytes_that_changed_are_a_change(
    catalog: Catalog, folder: Path
) -> None:
    pin(folder, "m.gguf", b"weights")
    entry = catalog.resolve("m")
    assert entry.verify(verified_before=False).size == 7
    (folder / "m.gguf").write_bytes(b"others")
    with pytest.raises(PinMismatch):
        entry.verify(verified_before=False)
    with pytest.raises(ModelFileChanged):
        entry.verify()


def test_how_far_a_file_is_read_is_told(startup: Path) -> None:
    told: list[int] = []
    Catalog.of_file(startup).default.verify(on_read=told.append)
    assert told == [10]


def test_a_file_name_that_no_disk_can_have_is_a_file_that_is_not_there(catalog: Catalog, folder: Path) -> None:
    pin(folder, "short.gguf", None)
    record = {"files": [{"path": f"{'x' * 300}.gguf", "sha256": "0" * 64}]}
    (folder / "short.gguf.FORK.json").write_text(json.dumps(record))
    assert not catalog.resolve("x" * 300).found
    base = Base("gone", "gone.gguf", "1" * 64, None, Path(f"/{'x' * 300}"))
    ModelFolder(folder).write(DerivedModel(ModelName.parse("gone"), NOW, base, Layer("1" * 64)))
    assert not catalog.resolve("gone").found
