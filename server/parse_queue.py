"""Where long request bodies are read: in one thread beside the event loop, in the order they came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

SHORT: Final = 1 << 14
"""Bytes of a body that is read on the event loop: in about two milliseconds at the most."""

P = ParamSpec("P")
T = TypeVar("T")


class ParseQueue:
    """Calls what takes time by the length of a request, without holding up what else the event loop has to do.

    A short request is not sent through the thread, which would take it longer than to be read; but it does not overtake
    the long ones before it, whose places in the queue for the engine come first.
    """

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parser")
        self._n_running = 0

    async def run(self, n_bytes: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `function` returns or raises.

        Args:
            n_bytes: how long what it reads is; infinity where what it does is not measured by that.
        """
        if n_bytes <= SHORT and not self._n_running:
            return function(*args, **kwargs)
        self._n_running += 1
        try:
            call = partial(function, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._worker, call)
        finally:
            self._n_running -= 1

    def close(self) -> None:
        """End the thread once it has nothing to do."""
        self._worker.shutdown(wait=False)
