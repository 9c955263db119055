"""Bars and steps of a pull, a push or a create."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest

from server.commands.progress import Bar, Progress, ProgressLines

DIGEST = "sha256:0123456789abcdef"


def bar(done: int, total: int, *, seconds: float = 0, initial: int = 0) -> str:
    """The line of a bar that began at 0, in 80 columns."""
    shown = Bar("pulling 0123456789ab:", total, initial, 0.0)
    shown.set(done, seconds)
    line = shown.line(80)
    assert len(line) == 79  # one column stays free
    return line


def test_a_bar_that_begins_has_neither_rate_nor_time_left() -> None:
    assert bar(0, 98_000_000) == f"pulling 0123456789ab:   0% ▕{' ' * 18}▏    0 B/ 98 MB{' ' * 18}"


def test_a_bar_under_way_shows_its_rate_and_the_time_left() -> None:
    line = bar(24_500_000, 98_000_000, seconds=7)
    assert line == f"pulling 0123456789ab:  25% ▕{'█' * 4}{' ' * 14}▏  24 MB/ 98 MB  3.5 MB/s     21s"


def test_what_was_there_before_counts_for_no_rate() -> None:
    assert "  1 MB/s" in bar(40_000_000, 98_000_000, seconds=10, initial=30_000_000)


def test_a_bar_that_is_full_shows_the_size_alone() -> None:
    assert bar(98_000_000, 98_000_000, seconds=9) == f"pulling 0123456789ab: 100% ▕{'█' * 18}▏  98 MB{' ' * 25}"


@pytest.mark.parametrize(("seconds", "text"), [(59, "59s"), (61, "1m1s"), (3660, "1h1m"), (360_000, "99h+")])
def test_the_time_left_has_two_units_at_most(seconds: int, text: str) -> None:
    shown = Bar("x", 10**6 + 10**3 * seconds, 0, 0.0)
    shown.set(10**6, 1000)
    assert shown.line(80).endswith(f" {text}")


def events() -> list[dict[str, Any]]:
    return [
        {"status": "pulling manifest"},
        {"status": "pulling 0123456789ab", "digest": DIGEST, "total": 100},
        {"status": "pulling 0123456789ab", "digest": DIGEST, "total": 100, "completed": 50},
        {"status": "pulling 0123456789ab", "digest": DIGEST, "total": 100, "completed": 100},
        {"status": "success"},
    ]


def name(event: Mapping[str, Any]) -> str:
    return str(event["status"])


def test_a_step_spins_until_the_next_one_begins() -> None:
    lines = ProgressLines(name)
    lines.take(events()[0], 0.0)
    assert lines.lines(80, 0.1) == ["pulling manifest ⠙ "]
    lines.take(events()[0], 0.0)
    lines.take(events()[2], 0.0)
    assert lines.lines(80, 0.1)[0] == "pulling manifest "
    lines.take(events()[-1], 0.0)
    lines.end()
    assert [line.split()[0] for line in lines.lines(80, 0.2)] == ["pulling", "pulling", "success"]


def test_an_object_that_is_not_shown_makes_no_bar() -> None:
    lines = ProgressLines(name, lambda event: bool(event.get("completed")))
    assert lines.take(events()[1], 0.0) is None
    assert lines.lines(80, 0.0) == []


def test_where_there_is_no_terminal_each_step_is_a_line() -> None:
    out = io.StringIO()
    with Progress(ProgressLines(name), out) as progress:
        for event in events():
            progress.take(event)
    assert out.getvalue().splitlines() == [
        "pulling manifest",
        "pulling 0123456789ab (100 bytes)",
        "pulling 0123456789ab: 50%",
        "pulling 0123456789ab: 100%",
        "success",
    ]
