"""The steps of jobs, from the engine's thread to whoever reads them on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from engine.errors import Cancelled, InvalidRequest
from engine.generation import Step, generate
from engine.model import Model
from registry.catalog import Entry
from slots.slot import Job, Slot, Task

T = TypeVar("T")


MAX_SHOWN: Final = 1_000_000
"""Probabilities of an answer at most, those of all its tokens together; each takes some hundred bytes."""


class Loaded(Protocol):
    """A model and its slot; `slots.residency.Resident` is one."""

    @property
    def entry(self) -> Entry: ...
    @property
    def model(self) -> Model: ...
    @property
    def slot(self) -> Slot: ...


class Worker(Protocol):
    """Whose thread the engine works in; `slots.residency.Residency` is one."""

    @property
    def on_end(self) -> Callable[[Entry, Task], None]: ...
    @property
    def interruption(self) -> Callable[[], Exception] | None: ...
    def submit(self, function: Callable[..., T], /, *args: Any) -> asyncio.Future[T]: ...
    def check_interruption(self) -> None: ...


class StepStream:
    """The steps of one or several jobs, run one after another in the worker thread, as they come.

    Iterating gives lists of `(index of the job, Step)`: everything ready now, never empty, so that a reader who falls
    behind catches up in one go. The engine does not wait for the reader. `aclose` stops the engine before its next
    token or micro-batch and returns when it is idle.

    Raises (from iteration): what `engine.generation.generate` raises; what `Residency.interrupt` was given.
    """

    def __init__(self, worker: Worker, loaded: Loaded, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[int, Step]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._stop = threading.Event()
        self._worker = worker
        self._woken = False
        self._n_shown = 0
        self._on_end = worker.on_end
        self._error: BaseException | None = None
        self._idle = False
        self._future = worker.submit(self._run, loaded, jobs)
        self._future.add_done_callback(self._finished)
        self._done = done

    def _run(self, loaded: Loaded, jobs: Sequence[Job]) -> None:
        """Worker thread: one job after another."""
        for index, job in enumerate(jobs):
            task = loaded.slot.begin(job)
            try:
                self._run_task(loaded, index, task)
            finally:
                task.end(len(loaded.slot.tokens))
                self._on_end(loaded.entry, task)
            assert task.step is not None
            self._hand_over(index, task.step)  # the last one, once it is counted

    def _run_task(self, loaded: Loaded, index: int, task: Task) -> None:
        """Worker thread: drive the one loop and hand each step over, but for the last."""
        steps = generate(
            loaded.model,
            task.job.request,
            tokens=loaded.slot.tokens,
            n_past=task.n_cached,
            cancelled=self._is_stopped,
            on_prompt=task.on_prompt,
        )
        task.begun = True
        self._loop.call_soon_threadsafe(self._has_begun)
        for step in steps:
            task.step = step
            self._count_shown(step)
            if step.final is None:
                self._hand_over(index, step)

    def _count_shown(self, step: Step) -> None:
        """Bounds what an answer with probabilities takes in memory, however slowly it is read."""
        if step.shown is not None:
            self._n_shown += len(step.shown.best)
            if self._n_shown > MAX_SHOWN:
                raise InvalidRequest(f"the answer has more than {MAX_SHOWN} probabilities; ask for fewer")

    def _is_stopped(self) -> bool:
        return self._stop.is_set() or self._worker.interruption is not None

    def _hand_over(self, index: int, step: Step) -> None:
        self._ready.append((index, step))
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._wake)

    def _has_begun(self) -> None:
        if not self._begun.done():
            self._begun.set_result(None)

    def _wake(self) -> None:
        self._woken = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _finished(self, future: asyncio.Future[None]) -> None:
        self._idle = True
        if not future.cancelled():
            self._error = future.exception()
        self._has_begun()
        self._wake()
        self._done()

    async def begun(self) -> None:
        """Wait until the engine has taken up the first job.

        Raises:
            what `engine.generation.generate` refuses it for.
        """
        await self._begun
        if not self._ready:
            self._raise_error()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if isinstance(error, Cancelled) and not self._stop.is_set():
            self._worker.check_interruption()
        if error is not None and not isinstance(error, Cancelled):
            raise error

    def __aiter__(self) -> StepStream:
        return self

    async def __anext__(self) -> list[tuple[int, Step]]:
        while not self._ready:
            if self._idle:
                self._raise_error()
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                self._stop.set()
                raise
            finally:
                self._waiter = None
        batch = list(self._ready)
        for _ in batch:
            self._ready.popleft()
        return batch

    async def aclose(self) -> None:
        """Stop the engine and wait until it is idle; a second call returns at once."""
        self._stop.set()
        await settle(self._future)


async def settle(future: asyncio.Future[Any]) -> None:
    """Wait for `future` whatever happens; a cancellation that comes meanwhile is raised after it."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
