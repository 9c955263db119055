"""registry/conversion/uploads.py: safetensors that came as blobs become a model by `/api/create`'s steps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.model import ModelOptions
from registry.catalog import Catalog
from registry.conversion import convert
from registry.creation import Creator, Recipe
from registry.errors import CreateRefused
from registry.folder import ModelFolder
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


def create(folder: ModelFolder, start: Path, files: Mapping[str, str]) -> list[str]:
    catalog = Catalog.of_file(MODELS[0].file().write(start), folder=folder)

    async def lines() -> list[Mapping[str, Any]]:
        recipe = Recipe(ModelName.parse("mario"), files=files)
        return [line async for line in Creator(catalog, ModelOptions()).create(recipe)]

    return [line["status"] for line in asyncio.run(lines())]


def test_uploaded_safetensors_become_the_file_that_the_command_makes(folder: ModelFolder, tmp_path: Path) -> None:
    directory = PLAYED.write(tmp_path)
    steps = create(folder, tmp_path / "start.gguf", uploaded(folder, directory))
    assert steps[0] == "converting model"
    assert steps[-1] == "success"
    same = convert(directory.rename(tmp_path / "mario"), tmp_path / "mario.gguf")
    model = folder.find(ModelName.parse("mario"))
    assert model is not None
    assert model.base.sha256 == same.sha256
    assert folder.blob_path(f"sha256:{same.sha256}").read_bytes() == same.output.read_bytes()
    assert list(folder.partial.iterdir()) == []


@pytest.mark.parametrize("name", ["../model.safetensors", "a/model.safetensors", "model\0.safetensors"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    files[name] = files.pop("model.safetensors")
    with pytest.raises(CreateRefused, match="not a plain file name"):
        create(folder, tmp_path / "start.gguf", files)


def test_what_is_refused_leaves_nothing(folder: ModelFolder, tmp_path: Path) -> None:
    files = uploaded(folder, PLAYED.write(tmp_path))
    del files["tokenizer.json"]
    before = set(folder.blobs.iterdir())
    with pytest.raises(CreateRefused, match=r"neither a tokenizer\.model nor a tokenizer\.json"):
        create(folder, tmp_path / "start.gguf", files)
    assert set(folder.blobs.iterdir()) == before
    assert list(folder.partial.iterdir()) == []
