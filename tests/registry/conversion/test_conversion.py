"""registry/conversion: whole files against those of llama.cpp's converter, which are recorded by their hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from registry.conversion import ConversionOptions, convert
from registry.conversion.model_names import name_parts, size_label, title
from testing.oracles.conversion_cases import CASES, COUNTS, NAMES, Case
from testing.oracles.gguf_digests import digests
from testing.oracles.record_conversion import RECORD


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(RECORD.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model.name)
def test_a_file_is_the_reference_converters_byte_for_byte(case: Case, record: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.gguf"
    report = convert(case.model.write(tmp_path), output, ConversionOptions(model_name=case.model_name))
    expected = record["files"][case.model.name]
    found = json.loads(json.dumps(digests(output)))
    assert list(found["keys"].items()) == list(expected["keys"].items())
    assert list(found["tensors"].items()) == list(expected["tensors"].items())
    assert (report.sha256, report.size) == (expected["sha256"], expected["size"])
    assert output.stat().st_size == report.size


def test_names_are_taken_apart_as_the_reference_takes_them(record: Any) -> None:
    for name in NAMES:
        for count in COUNTS:
            parts = name_parts(name, count)
            found = (parts.name, parts.organization, parts.basename, parts.finetune, parts.version, parts.size_label)
            assert list(found) == record["names"][name][str(count)], (name, count)
        assert title(name) == record["titles"][name]


def test_sizes_are_written_as_the_reference_writes_them(record: Any) -> None:
    assert {str(count): size_label(count) for count in COUNTS} == record["sizes"]
