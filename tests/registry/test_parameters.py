"""Parameters out of text: Ollama's names, types and messages."""

from __future__ import annotations

import pytest

from registry.parameters import ParameterError, Value, parse_parameter, parse_parameters


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("seed", "-1", -1),
        ("num_ctx", "+4096", 4096),
        ("temperature", "0.5", 0.5),
        ("temperature", "1", 1.0),
        ("top_p", "1e-1", 0.1),
        ("top_p", "0.123456789", 0.12345679),  # 32 bits
        ("use_mmap", "T", True),
        ("use_mmap", "false", False),
        ("mirostat_tau", ".5", 0.5),
    ],
)
def test_a_text_becomes_a_value_of_its_parameters_type(name: str, text: str, value: Value) -> None:
    found = parse_parameter(name, [text, "more"])
    assert (found, type(found)) == (value, type(value))


def test_every_text_of_stop_counts() -> None:
    assert parse_parameter("stop", ["a b", ""]) == ["a b", ""]
    pairs = [("stop", "a"), ("seed", "1"), ("stop", "b"), ("seed", "2")]
    assert parse_parameters(pairs) == {"stop": ["a", "b"], "seed": 2}


@pytest.mark.parametrize(
    ("name", "texts", "message"),
    [
        ("nonsense", ["1"], "unknown parameter 'nonsense'"),
        ("Seed", ["1"], "unknown parameter 'Seed'"),
        ("seed", ["1.5", "x"], "invalid int value [1.5 x]"),
        ("seed", ["1_0"], "invalid int value [1_0]"),
        ("seed", ["9223372036854775808"], "invalid int value [9223372036854775808]"),
        ("seed", ["9" * 5000], f"invalid int value [{'9' * 5000}]"),
        ("temperature", ["hot"], "invalid float value [hot]"),
        ("temperature", ["nan"], "invalid float value [nan]"),
        ("temperature", ["1e39"], "invalid float value [1e39]"),
        ("use_mmap", ["yes"], "invalid bool value [yes]"),
    ],
)
def test_what_is_no_value_is_refused_in_ollamas_words(name: str, texts: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        parse_parameter(name, texts)
    assert str(raised.value) == message
