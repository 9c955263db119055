"""What `/api/tags` and `/api/show` make of a header, whatever it says."""

from __future__ import annotations

from typing import Any

import pytest

from server.wire.ollama_models import Header, details


@pytest.mark.parametrize("value", [None, "x", 1.5, float("nan"), True, 2**63, -1])
def test_a_header_s_numbers_are_shown_where_they_are_numbers(value: Any) -> None:
    header = Header({"general.architecture": "llama", "llama.context_length": value, "general.file_type": value}, 10)
    assert header.n_ctx_train == (value if isinstance(value, int) else 0)
    assert isinstance(details(header)["quantization_level"], str)
    assert details(header)["family"] == "llama"


def test_the_weight_type_is_named() -> None:
    assert details(Header({"general.file_type": 3}, 10))["quantization_level"] == "Q4_1"
    assert details(Header({}, 10))["quantization_level"] == details(None)["quantization_level"] == "unknown"
