"""Our kernels give what the reference's gave, for every weight type played, on every code path that runs here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import testing.oracles
from engine.gguf import GGMLType
from engine.weights import PLAYED_TYPES
from testing.oracles import activation_cases
from testing.oracles.engine_operations import CODE_PATHS, dequantize, products
from testing.oracles.operation_cases import RECORDED_N, digest, recorded, recorded_rows

RECORD = Path(testing.oracles.__file__).parent / "records" / "operations.json"
TYPES = sorted(PLAYED_TYPES)


@pytest.fixture(scope="module")
def whole_record() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(RECORD.read_text())
    return loaded


@pytest.fixture(scope="module")
def record(whole_record: dict[str, Any]) -> dict[str, Any]:
    types: dict[str, Any] = whole_record["types"]
    return types


@pytest.mark.parametrize("isa", CODE_PATHS)
@pytest.mark.parametrize("kind", activation_cases.KINDS)
def test_activations_are_quantized_as_the_references(whole_record: dict[str, Any], kind: str, isa: str) -> None:
    found = {
        case.name: {part: digest(values) for part, values in activation_cases.ours(isa, kind, case).items()}
        for case in activation_cases.cases()
    }
    assert found == whole_record["activations"][kind]


@pytest.mark.parametrize("isa", CODE_PATHS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_dequantized_rows_are_the_references(record: dict[str, Any], kind: GGMLType, isa: str) -> None:
    found = {name: digest(dequantize(isa, kind, data, rows, cols)) for name, rows, cols, data in recorded_rows(kind)}
    assert found == record[kind.name]["rows"]


@pytest.mark.parametrize("isa", CODE_PATHS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_products_are_the_references(record: dict[str, Any], kind: GGMLType, isa: str) -> None:
    expected = record[kind.name]["products"]
    cases = recorded(kind)
    assert list(cases) == list(expected)
    different = []
    for shape, group in cases.items():
        assert [case.n for case in group] == list(RECORDED_N)
        for case, hashed in zip(group, expected[shape], strict=True):
            different += [name for name, values in products(isa, case).items() if digest(values) != hashed]
    assert not different
