"""Values as nlohmann's `dump` writes them; the record holds more of them (`values`)."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from engine.json_schema.json_text import fraction_text, json_text
from engine.json_schema.limits import Budget


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_fraction_reads_back_as_itself(value: float) -> None:
    text = fraction_text(value)
    assert float(text) == value
    assert math.copysign(1.0, float(text)) == math.copysign(1.0, value)
    assert "." in text or "e" in text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_fraction_has_at_most_two_digits_more_than_the_fewest(value: float) -> None:
    def digits(text: str) -> str:
        return text.lstrip("-").partition("e")[0].replace(".", "").strip("0")

    assert len(digits(repr(value))) <= len(digits(fraction_text(value))) <= len(digits(repr(value))) + 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_what_is_no_fraction_is_compact_json(value: object) -> None:
    assert json_text(value, Budget()) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_exponents_have_a_sign_and_two_digits_and_begin_at_fifteen() -> None:
    values = (1e14, 1e15, 1.5e15, 0.0001, 0.00001, 1e300, 5e-324, -0.0, 100.0)
    texts = ["100000000000000.0", "1e+15", "1.5e+15", "0.0001", "1e-05", "1e+300", "5e-324", "-0.0", "100.0"]
    assert [fraction_text(value) for value in values] == texts
