"""Long work in another thread, which ends soon after nobody waits for it any more: no server stops for a hash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

Look = Callable[..., None]
"""Called now and then, with anything, by work that takes long; raises `Stopped` where it is not wanted any more."""


def unwatched(*_: object) -> None:
    """A look that never stops the work."""


class Stopped(Exception):
    """Nobody waits for the work."""


def looking(pieces: Iterator[bytes], look: Look) -> Iterator[bytes]:
    """The pieces, with a look before each."""
    for piece in pieces:
        look()
        yield piece


async def stoppable(work: Callable[[Look], T]) -> T:
    """What `work` returns, called in another thread; a cancellation ends it with its next look."""
    stop = threading.Event()

    def look(*_: object) -> None:
        if stop.is_set():
            raise Stopped

    try:
        return await asyncio.to_thread(work, look)
    except asyncio.CancelledError:
        stop.set()
        raise
