"""Every operation of ours against the reference's, over every weight type: the first half of `make oracle`."""

from __future__ import annotations

from collections.abc import Iterable

from engine.gguf import GGMLType
from engine.weights import PLAYED_TYPES
from testing.oracles import activation_cases
from testing.oracles import engine_operations as ours
from testing.oracles.blocks import WANTED
from testing.oracles.comparison import Report
from testing.oracles.operation_cases import KINDS, products, shapes, weights
from testing.oracles.reference_ops import Operations


def compare(report: Report, kinds: Iterable[GGMLType] = ()) -> None:
    """Compares all operations for the given weight types; for all that are promised or played when none is named."""
    operations = Operations()
    _activations(report, operations)
    for kind in sorted(kinds or {*WANTED, *PLAYED_TYPES}):
        if kind not in PLAYED_TYPES:
            report.not_played("products", kind.name, "engine.weights.PLAYED_TYPES does not hold it")
            continue
        if kind not in WANTED:
            with report.group("products", kind.name, "-") as group:
                group.fail(kind.name, "played, but blocks.LAYOUTS does not say where its scales lie")
            continue
        _rows(report, operations, kind)
        _products(report, operations, kind)


def _activations(report: Report, operations: Operations) -> None:
    for kind in activation_cases.KINDS:
        for isa in ours.CODE_PATHS:
            with report.group("activations", kind, isa) as group:
                for case in activation_cases.cases():
                    found = activation_cases.ours(isa, kind, case)
                    for part, expected in activation_cases.references(operations, kind, case).items():
                        group.compare(f"{case.name} {part}", found[part], expected)


def _rows(report: Report, operations: Operations, kind: GGMLType) -> None:
    for isa in ours.CODE_PATHS:
        with report.group("rows", kind.name, isa) as group:
            for rows, cols in shapes(kind):
                for values in KINDS:
                    data = weights(kind, rows, cols, values)
                    expected = operations.dequantize(kind, data.tobytes(), rows, cols)
                    group.compare(f"{rows}x{cols}-{values}", ours.dequantize(isa, kind, data, rows, cols), expected)


def _products(report: Report, operations: Operations, kind: GGMLType) -> None:
    cases = list(products(kind))
    expected = {
        case.name: operations.mul_mat(kind, case.weights(), case.rows, case.cols, case.activations()) for case in cases
    }
    for isa in ours.CODE_PATHS:
        with report.group("products", kind.name, isa) as group:
            for case in cases:
                for name, values in ours.products(isa, case).items():
                    group.compare(name, values, expected[case.name])
