"""server/durations.py: durations as Ollama takes them."""

from __future__ import annotations

import math

import pytest

from server.durations import go_duration, keep_alive_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("2us", 2e-6),
        ("3µs", 3e-6),
        ("4ns", 4e-9),
        ("0", 0.0),
        ("-5m", -300.0),
        ("+5m", 300.0),
    ],
)
def test_a_go_duration_is_read(text: str, seconds: float) -> None:
    assert go_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("m", 'time: invalid duration "m"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5 m", 'time: unknown unit " m" in duration "5 m"'),
        ("--5m", 'time: invalid duration "--5m"'),
        ("5m 3s", 'time: unknown unit "m " in duration "5m 3s"'),
        ('5"m', 'time: unknown unit "\\"m" in duration "5\\"m"'),
    ],
)
def test_another_text_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        go_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5m", 300.0),
        ("300", 300.0),
        (300, 300.0),
        (0.5, 0.5),
        (0, 0.0),
        (-1, math.inf),
        ("-1", math.inf),
        ("9" * 400, math.inf),
    ],
)
def test_a_keep_alive_is_seconds_or_a_duration_and_for_ever_when_negative(value: object, seconds: float) -> None:
    assert keep_alive_seconds(value) == seconds


@pytest.mark.parametrize("value", [None, True, [], math.nan, "soon"])
def test_another_keep_alive_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be a number|invalid duration"):
        keep_alive_seconds(value)


def test_a_duration_without_end_is_refused_unread() -> None:
    assert go_duration("1s" * 500) == 500.0
    with pytest.raises(ValueError, match="time: invalid duration"):
        go_duration("1ns" * 1_000_000)
