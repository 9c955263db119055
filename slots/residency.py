"""Who has the engine now: one resident model, one slot, one user at a time, in the order they came.

`Residency` lives on one event loop. The engine's work (loading, evaluating) runs in one worker thread, so the loop
answers everything else meanwhile. A request borrows the engine with `acquire` and reads its steps from
`Lease.stream`; closing that stream, or cancelling the task that reads it, stops the engine before its next token or
micro-batch, and only then is the next one in the queue served.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import ParamSpec, TypeVar

from engine.errors import ModelFileLost
from engine.model import Model, ModelOptions
from registry.catalog import Catalog, Entry
from registry.errors import ModelFileChanged, RegistryError
from registry.headers import guard
from registry.pins import FileIdentity
from slots.memory import give_back
from slots.slot import Job, Slot, SlotOptions, Task
from slots.step_stream import StepStream, settle
from slots.verification import Verification

FOREVER = math.inf
"""A keep-alive that never runs out."""

REAP_INTERVAL = 0.5
"""Seconds between two looks of the reaper."""

_PROGRESS_INTERVAL = 2.0  # seconds between two lines of the log about a file that is being verified

log = logging.getLogger("bankml")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Resident:
    """The loaded model and what belongs to it.

    Attributes:
        entry: the model whose request loaded it.
        model: the open engine model. Its `tokenizer`, `template` and numbers may be read at any time, from any thread.
        slot: the tokens its KV cache holds; only the holder of the engine may use it.
        load_ns: how long opening it took, in nanoseconds.
        identity: the file as it was when it was verified for this load.
        keep_alive: seconds it stays after its last request, `FOREVER` for always.
        ends: when the reaper drops it, by `time.monotonic`, `FOREVER` for never: no clock that is set moves it.
        expires_at: the same in Unix time, as it was when the model's time began: for people.
        shown, shown_n_ctx: as which model it is listed, and with what context: see `show_as`.
    """

    entry: Entry
    model: Model
    slot: Slot
    load_ns: int
    identity: FileIdentity
    keep_alive: float
    ends: float = FOREVER
    expires_at: float = FOREVER
    shown: Entry | None = None
    shown_n_ctx: int = 0

    def touch(self, keep_alive: float | None) -> None:
        """Start its time anew, with another keep-alive if one is given."""
        if keep_alive is not None:
            self.keep_alive = keep_alive
        self.ends = time.monotonic() + self.keep_alive
        self.expires_at = time.time() + self.keep_alive

    @property
    def over(self) -> bool:
        """Whether its time has run out."""
        return self.ends <= time.monotonic()

    def show_as(self, entry: Entry, n_ctx: int) -> None:
        """Note a request for `entry` with a context of `n_ctx` tokens.

        Ollama's runner has the name of the model whose request started it, and is started anew, under the new name,
        when a request wants another context. The weights stay here; what is shown changes when it would there.
        """
        if self.shown is None or self.shown_n_ctx != n_ctx:
            self.shown, self.shown_n_ctx = entry, n_ctx


@dataclass(slots=True)
class Lease:
    """The engine, borrowed: `model`, `slot` and `entry` are the caller's until the `acquire` block ends.

    Attributes:
        entry: the model that was asked for; another one may have loaded the same weights.
        loaded: whether this request had to load the model.
        load_ns: what this request waited for loading, in nanoseconds (0 when the model was resident).
    """

    residency: Residency
    resident: Resident
    entry: Entry
    loaded: bool
    load_ns: int
    _streams: list[StepStream] = field(default_factory=list)
    _release: Callable[[], None] = lambda: None

    @property
    def model(self) -> Model:
        return self.resident.model

    @property
    def slot(self) -> Slot:
        return self.resident.slot

    def stream(self, jobs: Sequence[Job], *, last: bool = True) -> StepStream:
        """Run `jobs` one after another.

        Args:
            jobs: what to run.
            last: the caller will not ask the engine for more, so it goes to the next in the queue as soon as the last
                step is computed, however slowly the reader takes the steps.
        """
        stream = StepStream(self.residency, self.resident, jobs, self._release if last else lambda: None)
        self._streams.append(stream)
        return stream

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `function` in the worker thread, alone with the engine."""
        future = self.residency.submit(function, *args, **kwargs)
        await settle(future)
        return future.result()

    async def aclose(self) -> None:
        """Stop whatever still runs and wait until the engine is idle."""
        for stream in self._streams:
            await stream.aclose()


class Residency:
    """One resident model at a time, one user at a time.

    Args:
        catalog: the models that may be loaded.
        options: how to open them.
        keep_alive: seconds a model stays after a request that names no keep-alive of its own; used by `touch(None)`.
        slot_options: for the slot of each model.
        idle: seconds a model stays after any request, until one names a time of its own.

    Attributes:
        on_drop: told of a model that is about to be unloaded, on the event loop.
        on_end: told of every task that ends, in the worker thread and before its last step is handed over.
        interruption, interrupted: what `interrupt` was given, and whether it was.
        last: what was verified and loaded last, though its model may have gone.
    """

    def __init__(
        self,
        catalog: Catalog,
        options: ModelOptions,
        *,
        keep_alive: float = 300.0,
        slot_options: SlotOptions | None = None,
        idle: float = FOREVER,
    ) -> None:
        self.catalog = catalog
        self.options = options
        self.slot_options = slot_options or SlotOptions()
        self.keep_alive = keep_alive
        self.idle = idle
        self.on_drop: Callable[[Resident], None] = lambda resident: None
        self.on_end: Callable[[Entry, Task], None] = lambda entry, task: None
        self.interruption: Callable[[], Exception] | None = None
        self.interrupted = asyncio.Event()
        self.last: Verification | None = None
        self._n_waiting = 0
        self._engine = asyncio.Lock()  # asyncio's lock serves its waiters in the order they came
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._resident: Resident | None = None
        self._reaper: asyncio.Task[None] | None = None
        self._verified: set[tuple[Path, str]] = set()  # files that were played, by path and sha256

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the default model, to stay until told otherwise, and start the reaper.

        A second call does nothing, so a command may call it first to learn of a bad file before it binds a port.

        Raises:
            RegistryError, EngineError, OSError: the model cannot be opened.
        """
        if self._reaper is not None:
            return
        async with self.acquire(None):
            pass
        self._reaper = asyncio.create_task(self._reap_forever(), name="reaper")

    async def stop(self) -> None:
        """Stop the reaper, wait for the engine's user, unload and end the worker thread."""
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.wait([self._reaper])
            self._reaper = None
        await self.unload()
        self._worker.shutdown(wait=True)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Start `function` in the worker thread. For the holder of the engine only."""
        return asyncio.get_running_loop().run_in_executor(self._worker, partial(_called, function, *args, **kwargs))

    # -- looking ---------------------------------------------------------------------------------------------------

    def current(self) -> Resident | None:
        """The resident model, if any; answers at once while the engine works."""
        return self._resident

    def has(self, entry: Entry) -> bool:
        """Whether the resident model has the weights of this one."""
        return self._resident is not None and self._resident.entry.same_weights(entry)

    async def current_or_default(self) -> Resident:
        """The resident model, or the default one, loaded now: for endpoints that need a tokenizer and no engine.

        Raises:
            RegistryError, EngineError, OSError: the default model cannot be opened.
        """
        resident = self._resident
        if resident is None:
            async with self.acquire(None) as lease:
                resident = lease.resident
        return resident

    @property
    def busy(self) -> bool:
        """Whether somebody holds the engine."""
        return self._engine.locked()

    @property
    def n_waiting(self) -> int:
        """How many wait for the engine."""
        return self._n_waiting

    # -- using -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def acquire(
        self,
        entry: Entry | None,
        keep_alive: float | None = None,
        *,
        num_ctx: int | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Lease]:
        """Borrow the engine with a model, in the order of asking; loads it if need be.

        Another model goes first, its memory and its map, and only then is the new one read: guard, sha256 of the whole
        file, and its identity once more when it is mapped.

        Args:
            entry: one of the catalog's; None for the resident model, or the default when nothing is resident.
            keep_alive: seconds the model stays once this request is done: 0 unloads it then, `FOREVER` keeps it. None
                leaves the model's own rule, starting its time anew.
            num_ctx: the context the request keeps to, in tokens; None for all that is served. For `Resident.show_as`.
            prepare: what to do while waiting, the place in the queue taken; what it raises gives the place up.

        Raises:
            ModelRefused, ModelFileMissing: it may not be loaded (at once, without waiting).
            RegistryError: the file is gone or is not the one that was verified.
            EngineError, OSError: the model cannot be opened.
        """
        if entry is not None:
            entry.require_usable()
        await self._wait_for_turn(prepare)
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                if self._resident is not None:
                    self._resident.touch(keep_alive)
                if keep_alive == 0 or self._lost():
                    self._drop_then_release()
                else:
                    self._engine.release()

        try:
            self.check_interruption()
            lease = await self._load(entry)
            if entry is not None or lease.loaded:
                lease.resident.show_as(lease.entry, num_ctx or lease.model.n_ctx)
            lease._release = release
            try:
                yield lease
            finally:
                await lease.aclose()
        finally:
            release()

    async def _wait_for_turn(self, prepare: Callable[[], Awaitable[None]] | None) -> None:
        """Take the next place in the queue, prepare, and wait until the engine is ours."""
        place = asyncio.ensure_future(self._engine.acquire())
        self._n_waiting += 1
        place.add_done_callback(self._no_longer_waits)
        try:
            if prepare is not None:
                await prepare()
            await place
        except BaseException:
            place.cancel()
            try:
                await settle(place)
            finally:
                if not place.cancelled():
                    self._engine.release()
            raise

    def _no_longer_waits(self, _: object) -> None:
        self._n_waiting -= 1

    def interrupt(self, error: Callable[[], Exception]) -> None:
        """End what runs, what waits and what comes later with `error()`, before the next token or micro-batch."""
        self.interruption = error
        self.interrupted.set()

    def check_interruption(self) -> None:
        """Raises what `interrupt` was given."""
        if self.interruption is not None:
            raise self.interruption()

    def touch(self, keep_alive: float | None = None) -> None:
        """Start the resident model's time anew, as after a request with this `keep_alive` (see `acquire`)."""
        if self._resident is not None:
            self._resident.touch(self.keep_alive if keep_alive is None else keep_alive)

    async def unload(self, entry: Entry | None = None) -> None:
        """Drop the resident model once the engine is free; if `entry` is given, only one of its weights.

        Another model may have come while this waited.
        """
        async with self._engine:
            if entry is None or self.has(entry):
                await self._drop()

    async def reap(self) -> bool:
        """Drop the resident model if its time has run out and nobody holds the engine; says whether it did."""
        resident = self._resident
        if resident is None or not resident.over or self._engine.locked():
            return False
        async with self._engine:  # another's turn may have come before: the lock was free, and promised
            if self._resident is not resident or not resident.over:
                return False
            del resident
            await self._drop()
        return True

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _load(self, entry: Entry | None) -> Lease:
        """Make the wanted model the resident one. The engine is held."""
        resident = self._resident
        if entry is None:
            entry = resident.entry if resident is not None else self.catalog.default
        if resident is not None and resident.entry.same_weights(entry):
            try:
                entry.check(resident.identity)
                resident.model.check_intact()
            except (RegistryError, ModelFileLost):
                pass  # what is mapped may change under us: loaded anew if the bytes are the same, else refused
            else:
                return Lease(self, resident, entry, loaded=False, load_ns=0)
        del resident  # nobody but requests that still read their steps holds what is dropped
        await self._drop()
        started = time.perf_counter_ns()
        future = self.submit(self._open, entry)
        try:
            await settle(future)
        finally:
            if future.done() and not future.cancelled() and future.exception() is None:
                load_ns = time.perf_counter_ns() - started
                model, identity = future.result()
                slot = self.slot_options.slot_of(model)
                self._resident = Resident(entry, model, slot, load_ns, identity, self.idle)
                self._resident.touch(None)
                self.last = Verification.of(entry, model)
                log.info("loaded %s from %s in %.2f s", entry.shown, entry.path, load_ns / 1e9)
        future.result()
        assert self._resident is not None
        return Lease(self, self._resident, entry, loaded=True, load_ns=self._resident.load_ns)

    def _open(self, entry: Entry) -> tuple[Model, FileIdentity]:
        """Worker thread: verify a file and open it. One that was just hashed is not hashed again for its first load; of
        one that was played the header is known."""
        verified = (entry.path, entry.sha256)
        before = verified in self._verified
        if entry.identity is not None and not before:
            entry.check()
            identity = entry.identity
        else:
            if not before:
                guard(entry.path, FileIdentity.of(entry.path), self.options)
            identity = entry.verify(verified_before=before, on_read=_Progress(entry))
        model = Model.open(entry.path, self.options)
        if FileIdentity.of_stat(entry.path, model.file_stat) != identity:  # replaced between the hash and the map
            model.close()
            raise ModelFileChanged(entry.path)
        self._verified.add(verified)
        return model, identity

    def _lost(self) -> bool:
        """Whether the resident model's file changed under it: the model then goes now, not with the next request."""
        if self._resident is not None:
            try:
                self._resident.model.check_intact()
            except ModelFileLost:
                return True
        return False

    def _taken(self) -> Resident | None:
        """The resident model, which is resident no more."""
        resident, self._resident = self._resident, None
        if resident is not None:
            self.on_drop(resident)
        return resident

    async def _drop(self) -> None:
        resident = self._taken()
        if resident is not None:
            await settle(self.submit(_free, resident))

    def _drop_then_release(self) -> None:
        resident = self._taken()
        if resident is None:
            self._engine.release()
            return
        self.submit(_free, resident).add_done_callback(lambda _: self._engine.release())

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(REAP_INTERVAL)
            await self.reap()


def _called(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Worker thread: call `function`, and empty the frames of what it raises.

    An error outlives the call, in futures and in whoever tells of it, and would keep all that those frames held:
    weights among it, and with them the map of a model that has gone.
    """
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        del function, args, kwargs
        raised: BaseException | None = error
        while raised is not None:
            clear_frames(raised.__traceback__)
            raised = raised.__cause__ or raised.__context__
        raise


def _free(resident: Resident) -> None:
    """Worker thread: give back what a model takes: its cache, its map, the states parked beside it."""
    resident.slot.parked = None
    resident.model.close()
    give_back()
    log.info("unloaded %s", (resident.shown or resident.entry).shown)


class _Progress:
    """Tells the log how far the verification of a large file is."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._told = time.monotonic()

    def __call__(self, n_read: int) -> None:
        if time.monotonic() - self._told >= _PROGRESS_INTERVAL:
            self._told = time.monotonic()
            log.info("verifying %s: %.0f of %.0f MB", self._entry.path, n_read / 1e6, self._entry.size / 1e6)
