"""Go's words and forms, as Ollama's clients see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from server.wire.golang import (
    InvalidBody,
    format_time,
    human_number,
    interface_type,
    json_value,
    kind,
    loads,
    mismatch,
    quote,
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "missing request body"),
        (b" \r\n\t", "missing request body"),
        (b"{", "unexpected EOF"),
        (b'{"model"', "unexpected EOF"),
        (b'{"model": "x', "unexpected EOF"),
        (b"hello", "invalid character 'h' looking for beginning of value"),
        (b"{model: 1}", "invalid character 'm' looking for beginning of object key string"),
        (b'{"model" 1}', "invalid character '1' after object key"),
        (b'{"model": 1 2}', "invalid character '2' after object key:value pair"),
        (b'{"a": [1 2]}', "invalid character '2' after array element"),
        (b'{"a": {"b": [1]} 2}', "invalid character '2' after object key:value pair"),
        (b'[{"a": "]"} 2]', "invalid character '2' after array element"),
        (b'{"a": 1,}', "invalid character '}' looking for beginning of object key string"),
        (b"[1, ]", "invalid character ']' looking for beginning of value"),
        (b'{"a": "x\ny"}', "invalid character '\\n' in string literal"),
        (b'{"a": "\\q"}', "invalid character '\\\\' in string escape code"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"{'a': 1}", "invalid character '\\'' looking for beginning of object key string"),
        (b'{"a": NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"a": -Infinity}', "invalid character 'I' in numeric literal"),
        (b'{"a": 1e400}', "json: cannot unmarshal number 1e400 into Go value of type float64"),
        (b'{"a": 1%s}' % (b"0" * 400), f"json: cannot unmarshal number 1{'0' * 400} into Go value of type float64"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_bad_json_gets_the_words_of_go(body: bytes, text: str) -> None:
    with pytest.raises(InvalidBody) as error:
        loads(body)
    assert str(error.value) == text


def test_what_go_reads_is_read() -> None:
    assert loads(b'{"a": [1, 2.5, null, true, "\xc3\xa9"]}') == {"a": [1, 2.5, None, True, "\u00e9"]}
    assert loads(b'{"a": 1, "a": 2}') == {"a": 2}


def test_broken_utf8_and_lone_surrogates_become_replacement_characters() -> None:
    assert loads(b'{"a": "x\xff"}') == {"a": "x\ufffd"}
    assert loads(b'{"a\\ud800": ["\\ud800 \\ud83d\\ude00"]}') == {"a\ufffd": ["\ufffd \U0001f600"]}


@pytest.mark.parametrize(
    ("value", "name", "go"),
    [
        (True, "bool", "bool"),
        ("x", "string", "string"),
        (1, "number", "float64"),
        (1.5, "number", "float64"),
        ([], "array", "[]interface {}"),
        ({}, "object", "map[string]interface {}"),
    ],
)
def test_json_types_have_the_names_go_gives_them(value: object, name: str, go: str) -> None:
    assert kind(value) == name
    assert interface_type(value) == go


def test_a_mismatch_names_the_value_the_place_and_the_type() -> None:
    assert (
        str(mismatch("x", "bool", "ChatRequest.stream"))
        == "json: cannot unmarshal string into Go struct field ChatRequest.stream of type bool"
    )
    assert str(mismatch([], "api.ChatRequest")) == "json: cannot unmarshal array into Go value of type api.ChatRequest"
    assert str(mismatch(1.5, "int", "A.b")) == "json: cannot unmarshal number 1.5 into Go struct field A.b of type int"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_691_176_967_499_127_000, "2023-08-04T19:22:47.499127Z"),
        (1_691_176_967_000_000_001, "2023-08-04T19:22:47.000000001Z"),
        (1_691_176_967_123_456_789, "2023-08-04T19:22:47.123456789Z"),
    ],
)
def test_times_are_rfc_3339_with_nanoseconds_and_no_trailing_zeros(ns: int, text: str) -> None:
    assert format_time(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999"),
        (15_000, "15K"),
        (134_515_008, "134.52M"),
        (135_000_000, "135M"),
        (7_241_732_096, "7.2B"),
        (8_000_000_000, "8B"),
    ],
)
def test_parameter_counts_are_written_for_people(count: int, text: str) -> None:
    assert human_number(count) == text


def test_quotes_escape_as_go_does() -> None:
    assert quote('a"b\\c') == '"a\\"b\\\\c"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1e-5), "0.00001"),
        (np.float32(1e-6), "0.000001"),
        (np.float32(9.999999e-7), "9.999999e-7"),
        (np.float32(1e-7), "1e-7"),
        (np.float32(-1.5e-12), "-1.5e-12"),
        (np.float32(500000), "500000"),
        (np.float32(0.1), "0.1"),
        (float(np.float32(0.1)), "0.10000000149011612"),
        (np.float32(16777216), "16777216"),
        (np.float32(1.2345678e20), "123456780000000000000"),
        (1e21, "1e+21"),
        (1.25e100, "1.25e+100"),
        (-0.0, "-0"),
        (np.array([0, -1000.0, 1e-5], np.float32), "[0,-1000,0.00001]"),
        (np.array([], np.float64), "[]"),
        (np.array([3, 2**40]), "[3,1099511627776]"),
        (np.array([True, False]), "[true,false]"),
        (100, "100"),
        (True, "true"),
        ("1.0 and 1e-5", '"1.0 and 1e-5"'),
        (["1.0"], '["1.0"]'),
        (None, "null"),
    ],
)
def test_numbers_are_written_as_go_s_json_writes_them(value: Any, text: str) -> None:
    assert orjson.dumps(json_value(value)).decode() == text
