"""The newest lines of the log, for `/bankml/status`."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

KEEP: Final = 200
"""Lines kept."""

_LONGEST: Final = 1000  # characters of a line


class RecentLog(logging.Handler):
    """Keeps the newest lines, the newest last; any thread may read them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[dict[str, Any]] = deque(maxlen=KEEP)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line: `at` in Unix seconds, `level` from 0 for an error to 3 for what only a developer reads."""
        level = (record.levelno < logging.ERROR) + (record.levelno < logging.WARNING) + (record.levelno < logging.INFO)
        self._lines.append({"at": record.created, "level": level, "msg": record.getMessage()[:_LONGEST]})

    def lines(self) -> list[dict[str, Any]]:
        """What is kept."""
        return list(self._lines)


RECENT = RecentLog()
"""That of this process, as logging is one for the process; `bankml serve` attaches it."""
