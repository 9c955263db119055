"""Whole models of ours against the reference's: small ones of every kind, and SmolLM2 in every quantization."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from engine.errors import UnplayableModel
from registry.download import ensure
from testing.oracles import quantized_files, small_models
from testing.oracles.comparison import Group, Report
from testing.oracles.engine_operations import CODE_PATHS
from testing.oracles.model_cases import (
    CACHES,
    EDGES,
    N_CTX,
    SETTINGS,
    SHORT,
    SMALL,
    WHOLE,
    EngineModel,
    Script,
    Settings,
    settings_of,
)
from testing.oracles.reference_model import Oracle
from testing.oracles.reference_server import ReferenceError


def compare_small(report: Report, names: Iterable[str] = ()) -> None:
    """Compares the logits of the small models, all or those named, with both types of cache."""
    wanted = set(names)
    with tempfile.TemporaryDirectory() as folder:
        for model in small_models.MODELS:
            if wanted and model.name not in wanted:
                continue
            path = model.file().write(Path(folder) / f"{model.name}.gguf")
            for settings in settings_of(model.name):
                for isa in CODE_PATHS:
                    with report.group("small models", f"{model.name} {settings.name}", isa) as group:
                        compare_logits(group, path, isa, settings, SMALL)
            if model in small_models.ARCHITECTURES:
                for isa in CODE_PATHS:
                    with report.group("small models", f"{model.name} edges", isa) as group:
                        compare_logits(group, path, isa, SETTINGS[0], EDGES)


def compare(report: Report, folder: Path, names: Iterable[str] = ()) -> None:
    """Compares the logits of SmolLM2: as it comes under every setting, then in each quantization or those named."""
    source, _ = ensure()
    wanted = list(names)
    if not wanted:
        for settings in (*SETTINGS, *CACHES):
            compare_file(report, f"Q4_1 {settings.name}", source, settings)
    for name in wanted or quantized_files.QUANTIZATIONS:
        compare_file(report, name, quantized_files.quantized(source, name, folder))


def compare_file(report: Report, subject: str, path: Path, settings: Settings = SETTINGS[0]) -> None:
    """Compares one file under one setting: the whole script on the fast path, the short one in plain C."""
    for isa in CODE_PATHS:
        script = SHORT if isa == "portable" and len(CODE_PATHS) > 1 else WHOLE
        with report.group("SmolLM2", subject, isa) as group:
            compare_logits(group, path, isa, settings, script)


def compare_logits(group: Group, path: Path, isa: str, settings: Settings, script: Script) -> None:
    """Plays a script on both sides. What the reference refuses must be refused."""
    try:
        reference = Oracle(path, n_ctx=N_CTX, **settings.flags)
    except ReferenceError as error:
        _expect_refusal(group, path, isa, settings, str(error))
        return
    with reference:
        try:
            ours = EngineModel(path, isa, settings.flags)
        except UnplayableModel as error:
            group.not_played = str(error)
            return
        for (name, expected), (_, found) in zip(script.play(reference), script.play(ours), strict=True):
            group.compare(name, found, expected)
        ours.close()


def _expect_refusal(group: Group, path: Path, isa: str, settings: Settings, why: str) -> None:
    try:
        EngineModel(path, isa, settings.flags).close()
    except UnplayableModel:
        group.identical += 1
    else:
        group.fail("load", f"played, though {why}")
