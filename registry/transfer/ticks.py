"""Progress lines, and how often there is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Final

TICK: Final = 0.06
"""Seconds between two progress lines of a blob, as in Ollama."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress line.

    Args:
        status: what is being done.
        digest: of the blob it is done to; empty for none.
        total, completed: bytes of it, and how many are done.
    """

    status: str
    digest: str = ""
    total: int = 0
    completed: int = 0


async def ticks(
    completed: Callable[[], int], task: asyncio.Task[Any], arrived: asyncio.Event | None = None
) -> AsyncGenerator[int, None]:
    """How many bytes are done, again and again until all are; the last one says so.

    Args:
        completed: reads it.
        task: the work; what it raises is raised.
        arrived: set when all are done, where the task goes on behind that.
    """
    waiting = {task}
    if arrived is not None:
        waiting.add(asyncio.create_task(arrived.wait()))
    try:
        while True:
            done, _ = await asyncio.wait(waiting, timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield completed()
            if done:
                return
    finally:
        for each in waiting - {task}:
            each.cancel()
