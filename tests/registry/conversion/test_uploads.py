"""registry/conversion/uploads.py: safetensors that came as blobs become a model by `/api/create`'s steps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from engine.model import ModelOptions
from registry.catalog import Catalog
from registry.conversion import convert, uploads
from registry.creation import Creator, Recipe
from registry.errors import ConversionRefused, CreateRefused, RegistryError
from registry.folder import FolderError, ModelFolder
from registry.names import ModelName
from registry.pins import sha256_file
from testing.oracles.conversion_cases import PLAYED
from testing.oracles.small_models import MODELS


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path / "forks")


def uploaded(folder: ModelFolder, directory: Path) -> dict[str, str]:
    """The directory's files as blobs: name -> digest."""
    files = {}
    for path in directory.iterdir():
        files[path.name] = f"sha256:{sha256_file(path).sha256}"
        folder.add_blob(files[path.name], [path.read_bytes()])
    return files


def creator(folder: ModelFolder) -> Creator:
    start = MODELS[0].file().write(folder.path.with_name("start.gguf"))
    return Creator(Catalog.of_file(start, folder=folder), ModelOptions())


def create(folder: ModelFolder, files: Mapping[str, str], **more: Any) -> list[str]:
    async def lines() -> list[Mapping[str, Any]]:
        recipe = Recipe(ModelName.parse("mario"), files=files, **more)
        return [line async for line in creator(folder).create(recipe)]

    return [line["status"] for line in asyncio.run(lines())]


def refused(
    folder: ModelFolder, files: Mapping[str, str], error: type[RegistryError] = ConversionRefused, **more: Any
) -> str:
    """What a create is refused with; nothing of it is left."""
    before = set(folder.blobs.iterdir())
    with pytest.raises(error) as caught:
        create(folder, files, **more)
    assert set(folder.blobs.iterdir()) == before
    assert folder.derived() == ([], [])
    assert list(folder.partial.glob("*")) == []
    assert str(folder.partial) not in str(caught.value)
    return str(caught.value)


def test_uploaded_safetensors_become_the_file_that_the_command_makes(folder: ModelFolder, tmp_path: Path) -> None:
    directory = PLAYED.write(tmp_path)
    steps = create(folder, uploaded(folder, directory))
    same = convert(directory.rename(tmp_path / "mario"), tmp_path / "mario.gguf")
    assert steps == [
        "converting model",
        f"creating new layer sha256:{same.sha256}",
        "writing manifest",
        "success",
    ]
    model = folder.find(ModelName.parse("mario"))
    assert model is not None
    assert model.base.sha256 == same.sha256
    assert folder.blob_path(f"sha256:{same.sha256}").read_bytes() == same.output.read_bytes()
    assert list(folder.partial.iterdir()) == []


def test_files_of_subdirectories_lie_there_as_in_the_directory_they_come_from(folder: ModelFolder) -> None:
    files = uploaded(folder, PLAYED.write(folder.path.parent))
    nested = {"original/params.json": files["config.json"], "a/b/model.safetensors": files["config.json"]}
    plain = create(folder, files)
    assert create(folder, {**files, **nested})[1] == plain[1].replace("creating new", "using existing")


@pytest.mark.parametrize("name", ["../model.safetensors", "/model.safetensors", "a//model.safetensors", "model\0.x"])
def test_a_path_that_leads_elsewhere_is_refused(name: str, folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    files[name] = files["model.safetensors"]
    assert "is no path of a file within the model's directory" in refused(folder, files)


@pytest.mark.parametrize("name", [".", "config.json/a", "config.json/a/b", "a" * 256, "a" * 256 + "/a"])
def test_a_path_that_no_file_can_have_there_is_refused(name: str, folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    assert "cannot be a file beside the others" in refused(folder, {**files, name: files["config.json"]})


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("tokenizer.json", "neither a tokenizer.model nor a tokenizer.json"),
        ("config.json", "config.json"),
        ("model.safetensors", "there is no model*.safetensors in mario"),
    ],
)
def test_what_is_refused_leaves_nothing(missing: str, reason: str, folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    files["other.safetensors"] = files["model.safetensors"]
    del files[missing]
    assert reason in refused(folder, files)


def test_a_layer_that_is_refused_leaves_no_converted_weights(folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    assert refused(folder, files, CreateRefused, template="{{ .Prompt }}").startswith("TEMPLATE is not supported")
    assert refused(folder, files, CreateRefused, quantize="Q4_K_M").startswith("quantizing F16 weights to Q4_K_M")
    assert create(folder, files, quantize="F16")[-1] == "success"


def test_a_manifest_that_cannot_be_written_leaves_no_converted_weights(folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    (folder.path / "mario.MODEL.json").mkdir()
    assert refused(folder, files, FolderError).startswith(f"cannot write to {folder.path}: ")


@pytest.mark.parametrize("n_updates", [1, 2, 4])
def test_a_create_that_is_given_up_stops_its_conversion_and_leaves_nothing(
    folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_updates: int
) -> None:
    """It is given up when the conversion reports for the first, second, ... time; it must not come to the next one."""
    files = uploaded(folder, PLAYED.write(tmp_path))
    before = set(folder.blobs.iterdir())
    reports: list[int] = []

    async def give_up() -> None:
        loop, reached = asyncio.get_running_loop(), asyncio.Event()

        class Watched(uploads._Stoppable):
            def update(self, done: int) -> None:
                reports.append(done)
                if len(reports) == n_updates:
                    loop.call_soon_threadsafe(reached.set)
                    self._stop.wait()
                super().update(done)

        monkeypatch.setattr(uploads, "_Stoppable", Watched)

        async def work() -> None:
            async with aclosing(creator(folder).create(Recipe(ModelName.parse("mario"), files=files))) as lines:
                async for _ in lines:
                    pass

        task = asyncio.create_task(work())
        await reached.wait()
        folder.sweep()
        [_] = folder.partial.iterdir()  # it is not taken for left behind
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert len(reports) == n_updates
    assert list(folder.partial.iterdir()) == []
    assert folder.derived() == ([], [])
    assert set(folder.blobs.iterdir()) <= before
