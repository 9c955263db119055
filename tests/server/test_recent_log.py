"""server/recent_log.py: the newest lines of the log."""

from __future__ import annotations

import logging

from server.recent_log import KEEP, RecentLog


def test_lines_have_their_time_level_and_text() -> None:
    recent = RecentLog()
    for level in (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG):
        recent.handle(logging.LogRecord("x", level, "", 0, "hello %s", ("you",), None))
    assert [(line["level"], line["msg"]) for line in recent.lines()] == [(n, "hello you") for n in range(4)]


def test_only_the_newest_lines_are_kept_and_none_is_endless() -> None:
    recent = RecentLog()
    for number in range(KEEP + 5):
        recent.handle(logging.LogRecord("x", logging.INFO, "", 0, f"{number} " + "x" * 5000, (), None))
    assert [line["msg"].split()[0] for line in recent.lines()] == [str(n) for n in range(5, KEEP + 5)]
    assert all(len(line["msg"]) == 1000 for line in recent.lines())
