"""Whole models give the reference's logits: small ones of every architecture, type and cache, and the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import testing.oracles
from engine.errors import UnplayableModel
from engine.model import CACHE_TYPES
from engine.weights import PLAYED_TYPES
from testing.oracles.engine_operations import CODE_PATHS
from testing.oracles.model_cases import EDGES, SETTINGS, SHORT, SMALL, WHOLE, EngineModel, Script, settings_of
from testing.oracles.model_cases import Settings as ModelSettings
from testing.oracles.operation_cases import digest
from testing.oracles.record import sha256_of
from testing.oracles.small_models import ARCHITECTURES, MODELS, SmallModel

RECORD = Path(testing.oracles.__file__).parent / "records" / "models.json"


def _played(settings: ModelSettings) -> bool:
    return {value for value in settings.flags.values() if isinstance(value, str)} <= {*CACHE_TYPES}


PLAYED = [model for model in MODELS if {*model.types, model.embedding, model.output} - {None} <= PLAYED_TYPES]
RUNS = [(model, settings) for model in PLAYED for settings in settings_of(model.name) if _played(settings)]


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(RECORD.read_text())
    return loaded


def hashes(path: Path, isa: str, settings: ModelSettings, script: Script) -> dict[str, str]:
    """The hash of the logits at each point."""
    model = EngineModel(path, isa, settings.flags)
    found = {name: digest(logits) for name, logits in script.play(model)}
    model.close()
    return found


@pytest.mark.parametrize("isa", CODE_PATHS)
@pytest.mark.parametrize(("model", "settings"), RUNS, ids=lambda part: part.name)
def test_a_small_model_gives_the_references_logits(
    record: dict[str, Any], tmp_path: Path, model: SmallModel, settings: ModelSettings, isa: str
) -> None:
    path = model.file().write(tmp_path / f"{model.name}.gguf")
    expected = record["small"][model.name]
    assert sha256_of(path) == expected["sha256"], "this machine made another file"
    if expected[settings.name] is None:
        with pytest.raises(UnplayableModel):
            EngineModel(path, isa, settings.flags)
        return
    found = hashes(path, isa, settings, SMALL)
    assert found == dict(zip(found, expected[settings.name], strict=True))


@pytest.mark.parametrize("model", ARCHITECTURES, ids=lambda model: model.name)
def test_an_architecture_gives_the_references_logits_where_other_kernels_take_over(
    record: dict[str, Any], tmp_path: Path, model: SmallModel
) -> None:
    path = model.file().write(tmp_path / f"{model.name}.gguf")
    found = hashes(path, CODE_PATHS[0], SETTINGS[0], EDGES)
    assert found == dict(zip(found, record["small"][model.name]["edges"], strict=True))


@pytest.mark.parametrize(
    ("isa", "name", "script"),
    [("portable", "short", SHORT), *([(CODE_PATHS[0], "whole", WHOLE)] if len(CODE_PATHS) > 1 else [])],
)
def test_the_real_model_gives_the_references_logits(
    record: dict[str, Any], model_path: Path, isa: str, name: str, script: Script
) -> None:
    expected = record["SmolLM2"][name]
    assert sha256_of(model_path) == expected["sha256"]
    found = hashes(model_path, isa, SETTINGS[0], script)
    assert found == dict(zip(found, expected[SETTINGS[0].name], strict=True))
