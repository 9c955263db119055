"""Drawn, constrained and explained answers of small models, one of every weight type: the reference's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.model import Model, ModelOptions
from engine.weights import PLAYED_TYPES
from testing.oracles.answer_cases import REQUESTS, answer
from testing.oracles.record import sha256_of
from testing.oracles.record_answers import RECORD
from testing.oracles.small_models import MODELS, SmallModel

RECORDED: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))


def types_of(model: SmallModel) -> set[Any]:
    return {*model.types, model.embedding, model.output} - {None}


def test_every_weight_type_that_is_played_is_recorded() -> None:
    assert set().union(*(types_of(model) for model in MODELS)) >= PLAYED_TYPES
    assert {model.name for model in MODELS} == RECORDED.keys() - {"reference"}


@pytest.mark.parametrize("small", MODELS, ids=lambda model: model.name)
def test_a_small_model_gives_the_reference_s_answers(small: SmallModel, tmp_path: Path) -> None:
    path = small.file().write(tmp_path / f"{small.name}.gguf")
    expected = RECORDED[small.name]
    assert sha256_of(path) == expected["sha256"], "this machine made another file"
    model = Model.open(path, ModelOptions(n_threads=2))
    assert {name: answer(model, name) for name in REQUESTS} == expected["answers"]
    model.close()
