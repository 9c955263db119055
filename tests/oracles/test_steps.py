"""The steps between the products give what the reference's gave: rotary positions, attention, norms, the gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import testing.oracles
from testing.oracles import engine_operations as ours
from testing.oracles import step_cases
from testing.oracles.engine_operations import CODE_PATHS
from testing.oracles.operation_cases import digest

RECORD = Path(testing.oracles.__file__).parent / "records" / "operations.json"
SHORT = 320
"""Positions that plain C attends over here; it is the slower by far, and longer contexts are in the whole models."""


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(RECORD.read_text())["steps"]
    return loaded


def test_angles_are_the_references(record: dict[str, Any]) -> None:
    assert {case.name: digest(ours.rope_table(case)) for case in step_cases.ropes()} == record["rope"]


@pytest.mark.parametrize("isa", CODE_PATHS)
def test_attention_is_the_references(record: dict[str, Any], isa: str) -> None:
    expected = record["attention"]
    cases = list(step_cases.attentions())
    assert [case.name for case in cases] == list(expected)
    if isa == "portable":
        cases = [case for case in cases if case.n_past + case.n <= SHORT]
    assert [case.name for case in cases if digest(ours.attention(isa, case)) != expected[case.name]] == []


@pytest.mark.parametrize("isa", CODE_PATHS)
def test_norms_are_the_references(record: dict[str, Any], isa: str) -> None:
    assert {case.name: digest(ours.rms_norm(isa, case)) for case in step_cases.norms()} == record["rms_norm"]


@pytest.mark.parametrize("isa", CODE_PATHS)
def test_gates_are_the_references(record: dict[str, Any], isa: str) -> None:
    assert {case.name: digest(ours.swiglu(isa, case)) for case in step_cases.gates()} == record["swiglu"]
