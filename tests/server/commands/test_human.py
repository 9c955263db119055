"""Sizes, times and numbers for people, as Go's Ollama writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from server.commands.human import duration_text, human_bytes, human_time

NOW = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (1234, "1.2 KB"),
        (9_999, "10.0 KB"),
        (10_999, "10 KB"),
        (999_999, "999 KB"),
        (1_500_000, "1.5 MB"),
        (97_890_304, "97 MB"),
        (1_234_567_890, "1.2 GB"),
        (1_999_999_999_999, "2.0 TB"),
    ],
)
def test_a_size_has_one_decimal_place_below_ten_and_none_above(count: int, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(), "Less than a second ago"),
        (timedelta(seconds=1), "1 second ago"),
        (timedelta(seconds=59.9), "59 seconds ago"),
        (timedelta(seconds=60), "About a minute ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(minutes=89), "About an hour ago"),
        (timedelta(minutes=90), "2 hours ago"),
        (timedelta(hours=47), "47 hours ago"),
        (timedelta(hours=48), "2 days ago"),
        (timedelta(days=14), "2 weeks ago"),
        (timedelta(days=60), "2 months ago"),
        (timedelta(days=730), "2 years ago"),
        (timedelta(milliseconds=-800), "Less than a second from now"),
        (timedelta(minutes=-4, seconds=-59), "4 minutes from now"),
        (timedelta(days=-365 * 20), "20 years from now"),
        (timedelta(days=-365 * 21), "Forever"),
    ],
)
def test_a_time_is_told_by_its_distance(ago: timedelta, text: str) -> None:
    assert human_time(NOW - ago, NOW) == text


def test_gos_zero_time_is_never() -> None:
    assert human_time(datetime(1, 1, 1, tzinfo=UTC), NOW) == "Never"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (999_999_999, "999.999999ms"),
        (3_300_000_000, "3.3s"),
        (59_000_000_001, "59.000000001s"),
        (245_000_000_000, "4m5s"),
        (3_600_000_000_000, "1h0m0s"),
        (18_367_001_000_000, "5h6m7.001s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(ns: int, text: str) -> None:
    assert duration_text(ns) == text
