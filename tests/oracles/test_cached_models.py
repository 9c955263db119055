"""Whole-model logits are the reference's for every type of the KV cache, number of threads and start of a prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.kernels import isa
from engine.model import Model, ModelOptions
from registry.pins import DEFAULT_MODEL
from testing.oracles.operation_cases import digest
from testing.oracles.record_cached_models import N_CTX, PLAIN_RUNS, RECORD, RUNS, Run, logits

LOADED: dict[str, Any] = json.loads(RECORD.read_text())
REPLAYED = [*((run, isa()) for run in (*RUNS, *PLAIN_RUNS)), *((run, "portable") for run in PLAIN_RUNS)]


@pytest.mark.parametrize(("run", "isa"), REPLAYED, ids=[f"{run.name}-{isa}" for run, isa in REPLAYED])
def test_logits_are_the_references(model_path: Path, run: Run, isa: str) -> None:
    options = ModelOptions(
        n_ctx=N_CTX, n_threads=run.n_threads, cache_type_k=run.cache_type_k, cache_type_v=run.cache_type_v, isa=isa
    )
    model = Model.open(model_path, options)
    found = [digest(row) for row in logits(model, run)]
    model.close()
    wanted = LOADED["runs"][run.name]
    assert [step for step, a, b in zip(run.steps, found, wanted, strict=True) if a != b] == []


def test_every_run_on_record_is_replayed_with_the_recorded_model() -> None:
    assert sorted(LOADED["runs"]) == sorted(run.name for run in (*RUNS, *PLAIN_RUNS))
    assert LOADED["model"]["sha256"] == DEFAULT_MODEL.sha256


def test_cache_types_change_logits_and_threads_only_those_of_a_half_precision_cache_past_512_cells() -> None:
    runs = {(run.cache_type_k, run.cache_type_v, run.n_threads): LOADED["runs"][run.name] for run in RUNS}
    caches = [runs[k, v, 2] for k in ("q8_0", "f16") for v in ("q8_0", "f16")]
    first, *steps = zip(*caches, strict=False)
    assert len(set(first)) == 2  # of a single position all is its value, whatever its key
    assert all(len(set(step)) == len(caches) for step in steps)
    assert all(a == b for a, b in zip(runs["q8_0", "q8_0", 1], runs["q8_0", "q8_0", 2], strict=False))
    assert any(a != b for a, b in zip(runs["f16", "f16", 1], runs["f16", "f16", 2], strict=False))
