"""SmolLM2's drawn and constrained answers in every quantization, against llama-server on the same file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from engine.model import Model, ModelOptions
from registry.download import ensure
from testing.oracles.answer_cases import REQUESTS, answer
from testing.oracles.comparison import Report
from testing.oracles.quantized_files import QUANTIZATIONS, quantized
from testing.oracles.record_answers import ask
from testing.oracles.reference_server import ReferenceServer


def compare(report: Report, folder: Path, only: Sequence[str]) -> None:
    """Compares the quantizations, or the named ones; `folder` has their files, or gets them."""
    names = [name for name in QUANTIZATIONS if not only or name in only]
    source = ensure()[0] if names else Path()
    for name in names:
        path = quantized(source, name, folder)
        with report.group("answers", name, "-") as group, ReferenceServer(path) as server:
            expected = {case: ask(server, options) for case, options in REQUESTS.items()}
            with closing(Model.open(path, ModelOptions(n_threads=2))) as model:
                for case in REQUESTS:
                    found = answer(model, case)
                    if found == expected[case]:
                        group.identical += 1
                    else:
                        group.fail(case, f"{found} for {expected[case]}")
