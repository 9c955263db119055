"""registry/json_size.py: structure is counted, text is not."""

from __future__ import annotations

import orjson
import pytest

from registry.json_size import MAX_CONTAINERS, MAX_VALUES, too_much_structure


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": "a, [b], {c}, " * 400_000},
        {"prompt": 'quotes "x", and \\ backslashes \\", ' * 200_000},
        [0] * MAX_VALUES,
        [[]] * (MAX_CONTAINERS - 1),
        ["a,b"] * (MAX_VALUES // 2),
    ],
    ids=["text", "escapes", "values", "arrays", "strings"],
)
def test_much_text_and_much_within_the_limits_is_read(value: object) -> None:
    assert too_much_structure(orjson.dumps(value)) is None


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([0] * (MAX_VALUES + 1), "values"),
        (["a"] * (MAX_VALUES + 1), "values"),
        ([""] * (2 * MAX_VALUES + 1), "values"),
        ([[]] * MAX_CONTAINERS, "arrays and objects"),
        ([{}] * MAX_CONTAINERS, "arrays and objects"),
        (["[" * MAX_CONTAINERS] + [[]] * MAX_CONTAINERS, "arrays and objects"),
    ],
)
def test_more_is_refused(value: object, what: str) -> None:
    reason = too_much_structure(orjson.dumps(value))
    assert reason is not None
    assert reason.endswith(what)
