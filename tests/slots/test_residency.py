"""Who has the engine: order, cancelling, keep-alive, unloading, with the real model."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import ContextOverflow, ModelFileLost
from engine.generation import GenerationRequest, Step
from engine.model import Model, ModelOptions
from engine.sampling import SamplingParams
from registry.catalog import Catalog, Entry
from registry.errors import ModelFileChanged
from slots import residency as module
from slots.residency import FOREVER, Lease, Residency
from slots.slot import Job, Task
from slots.step_stream import StepStream
from testing.oracles.small_models import BY_NAME

OPTIONS = ModelOptions(n_ctx=512, n_threads=1)
GREEDY = SamplingParams(temperature=0.0)


def job(prompt: list[int], n_predict: int = 4) -> Job:
    return Job(GenerationRequest(prompt=prompt, sampling=GREEDY, n_predict=n_predict))


async def steps(lease: Lease, *jobs: Job) -> list[tuple[int, Step]]:
    return await read(lease.stream(jobs))


async def read(stream: StepStream) -> list[tuple[int, Step]]:
    return [item async for batch in stream for item in batch]


@pytest.fixture(scope="module")
def catalog(model_path: Path) -> Catalog:
    return Catalog.of_file(model_path)


@pytest.fixture
async def residency(catalog: Catalog) -> AsyncIterator[Residency]:
    residency = Residency(catalog, OPTIONS)
    await residency.start()
    yield residency
    await residency.stop()


async def test_the_default_model_is_there_after_start_and_stays(residency: Residency) -> None:
    resident = residency.current()
    assert resident is not None
    assert resident.entry is residency.catalog.default
    assert resident.expires_at == FOREVER
    assert not residency.busy


async def test_a_generation_fills_the_slot_with_what_the_cache_holds(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        found = await steps(lease, job([1, 2, 3], n_predict=4))
        assert len(found) == 4
        last = found[-1][1]
        assert last.final is not None
        assert lease.slot.tokens == [1, 2, 3, *last.final.tokens[:-1]]


async def test_several_jobs_run_one_after_another(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        found = await steps(lease, job([1, 2], 2), job([3], 3))
    assert [index for index, _ in found] == [0, 0, 1, 1, 1]
    assert [step.final is not None for _, step in found] == [False, True, False, False, True]


async def test_the_prefix_in_the_slot_is_not_computed_again(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        await steps(lease, job([5, 6, 7, 8], 1))
    async with residency.acquire(None) as lease:
        found = await steps(lease, job([5, 6, 7, 8, 9], 1))
    assert (found[0][1].timings.cache_n, found[0][1].timings.prompt_n) == (4, 1)


async def test_requests_are_served_in_the_order_they_came(residency: Residency) -> None:
    order: list[int] = []

    async def prepare(number: int) -> None:
        await asyncio.sleep(0.02 * (number == 1))  # a slow preparation does not lose the place

    async def one(number: int) -> None:
        async with residency.acquire(None, prepare=lambda: prepare(number)) as lease:
            order.append(number)
            await steps(lease, job([number + 1], 1))

    async with residency.acquire(None):
        waiting = [asyncio.create_task(one(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert residency.busy
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3, 4]


async def test_a_failed_preparation_gives_the_place_up(residency: Residency) -> None:
    async def refuse() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        async with residency.acquire(None, prepare=refuse):
            pass
    assert not residency.busy
    async with residency.acquire(None) as lease:
        assert len(await steps(lease, job([1], 1))) == 1


async def test_a_waiting_request_that_is_cancelled_leaves_the_queue(residency: Residency) -> None:
    async def wait() -> None:
        async with residency.acquire(None):
            pass

    async with residency.acquire(None):
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not residency.busy


async def test_leaving_the_block_stops_the_engine_and_keeps_what_was_computed(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        stream = lease.stream([job([1, 2, 3], n_predict=400)])
        async with aclosing(stream):
            batch = await anext(stream)
        held = list(lease.slot.tokens)
    assert not residency.busy
    assert batch[0][1].n_decoded == 1
    assert held[:3] == [1, 2, 3]
    assert len(held) < 300


async def test_cancelling_the_reader_stops_the_engine(residency: Residency) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async with residency.acquire(None) as lease:
            async for _ in lease.stream([job([1, 2, 3], n_predict=400)]):
                begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not residency.busy
    resident = residency.current()
    assert resident is not None
    assert len(resident.slot.tokens) < 300


async def test_the_engine_is_free_once_the_last_step_is_computed_however_slow_the_reader(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        stream = lease.stream([job([1, 2, 3], n_predict=5)])
        async with residency.acquire(None) as next_lease:  # the first lease is still open, its steps unread
            assert next_lease.resident is lease.resident
        assert sum(len(batch) for batch in [batch async for batch in stream]) == 5


async def test_a_request_refused_by_the_engine_leaves_it_ready(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        with pytest.raises(ContextOverflow, match="exceeds the available context size"):
            await steps(lease, job([1] * 512))
    async with residency.acquire(None) as lease:
        assert len(await steps(lease, job([1], 1))) == 1


async def test_a_keep_alive_of_zero_unloads_after_the_answer_and_the_next_request_loads_again(
    residency: Residency,
) -> None:
    async with residency.acquire(residency.catalog.default, keep_alive=0) as lease:
        await steps(lease, job([1], 1))
    async with residency.acquire(None) as lease:
        assert lease.loaded
        assert lease.load_ns > 0
        assert lease.slot.tokens == []
        assert len(await steps(lease, job([1], 1))) == 1


async def test_the_reaper_drops_an_expired_model_but_not_one_in_use(residency: Residency) -> None:
    async with residency.acquire(None, keep_alive=100):
        pass
    resident = residency.current()
    assert resident is not None
    assert time.time() < resident.expires_at < time.time() + 101
    assert not await residency.reap()
    resident.ends = 0.0
    async with residency.acquire(None):
        resident.ends = 0.0
        assert not await residency.reap()
    assert not resident.over  # using it started its time anew
    resident.ends = 0.0
    assert await residency.reap()
    assert residency.current() is None
    assert (await residency.current_or_default()).entry is residency.catalog.default


@pytest.mark.parametrize(("keep_alive", "clock", "drops"), [(1e-9, 0.0, True), (100.0, 1e10, False)])
async def test_a_clock_that_is_set_moves_no_end(
    residency: Residency, monkeypatch: pytest.MonkeyPatch, keep_alive: float, clock: float, drops: bool
) -> None:
    async with residency.acquire(None, keep_alive):
        pass
    monkeypatch.setattr(time, "time", lambda: clock)
    assert await residency.reap() is drops


async def test_the_reaper_drops_nothing_that_was_used_while_it_waited(residency: Residency) -> None:
    async with residency.acquire(None, keep_alive=1e-9):
        using = asyncio.create_task(use(residency, residency.catalog.default, 100))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it waits for the lock
    resident = residency.current()
    assert not await residency.reap()  # the lock is free, and the next user's turn comes first
    assert residency.current() is resident
    await using


async def test_the_reaper_task_looks_by_itself(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REAP_INTERVAL", 0.01)
    residency = Residency(catalog, OPTIONS)
    await residency.start()
    residency.touch(0.0)
    for _ in range(500):
        if residency.current() is None:
            break
        await asyncio.sleep(0.01)
    assert residency.current() is None
    await residency.stop()


async def test_unload_waits_for_the_user_of_the_engine(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        unload = asyncio.create_task(residency.unload())
        await asyncio.sleep(0)
        assert len(await steps(lease, job([1, 2], 3))) == 3
    await unload
    assert residency.current() is None


async def test_an_unload_of_one_model_leaves_another_that_came_meanwhile(residency: Residency, tmp_path: Path) -> None:
    wanted = residency.catalog.default
    other = Catalog.of_file(BY_NAME["llama-f32"].file().write(tmp_path / "other.gguf")).default
    async with residency.acquire(None):
        coming = asyncio.create_task(use(residency, other))
        await asyncio.sleep(0)
        unload = asyncio.create_task(residency.unload(wanted))
        await asyncio.sleep(0)
    await asyncio.gather(coming, unload)
    resident = residency.current()
    assert resident is not None
    assert resident.entry is other
    await residency.unload(other)
    assert residency.current() is None


async def use(residency: Residency, entry: Entry, keep_alive: float | None = None) -> None:
    async with residency.acquire(entry, keep_alive):
        pass


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("ended_by", ["its reader", "the engine"])
async def test_nothing_of_an_answer_that_ended_early_keeps_the_map_of_its_model(tmp_path: Path, ended_by: str) -> None:
    path = BY_NAME["llama-f32"].file().write(tmp_path / "small.gguf")
    residency = Residency(Catalog.of_file(path), OPTIONS)
    await residency.start()
    assert is_mapped(path)
    told: list[BaseException] = []
    gc.disable()  # what only the collector of cycles frees would stay for as long as that takes
    try:
        async with residency.acquire(None) as lease:
            stream = lease.stream([job([1, 2, 3], 100)])
            await anext(stream)
            if ended_by == "the engine":
                os.utime(path, (0, 0))  # its file was touched: the next token is refused
                with pytest.raises(ModelFileLost) as caught:
                    await read(stream)
                told.append(caught.value)  # whoever tells of it may hold it for as long as they like
        await residency.unload()
        assert not is_mapped(path)
        assert len(told) == (ended_by == "the engine")
    finally:
        gc.enable()
        await residency.stop()


async def test_a_file_that_changed_is_not_served(model_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(model_path, copy)
    residency = Residency(Catalog.of_file(copy), OPTIONS)
    await residency.start()
    with copy.open("ab") as file:
        file.write(b"more")
    for _ in range(2):
        with pytest.raises(ModelFileChanged):
            async with residency.acquire(None):
                pass
        assert residency.current() is None
    assert not residency.busy
    await residency.stop()


@pytest.fixture
async def copied(model_path: Path, tmp_path: Path) -> AsyncIterator[tuple[Residency, Path]]:
    """A residency over a copy of the model that may be damaged."""
    copy = tmp_path / "copy.gguf"
    shutil.copy(model_path, copy)
    residency = Residency(Catalog.of_file(copy), OPTIONS)
    await residency.start()
    yield residency, copy
    await residency.stop()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def write_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")


@pytest.mark.parametrize("damage", [cut, write_in_place])
async def test_a_file_that_changes_under_an_answer_ends_it_and_the_model_goes_at_once(
    copied: tuple[Residency, Path], damage: Callable[[Path], None], model_path: Path
) -> None:
    residency, copy = copied
    async with residency.acquire(None) as lease:
        stream = lease.stream([job([1, 2, 3], n_predict=400)])
        await anext(stream)
        damage(copy)
        with pytest.raises(ModelFileLost, match=r"copy\.gguf' changed while it was in use$"):
            await read(stream)
    assert residency.current() is None
    for _ in range(2):
        with pytest.raises(ModelFileChanged):
            async with residency.acquire(None):
                pass
    shutil.copy(model_path, copy)
    async with residency.acquire(None) as lease:
        assert lease.loaded
        assert len(await steps(lease, job([1], 2))) == 2


async def test_a_file_replaced_under_an_answer_is_read_to_the_end_and_the_next_one_is_verified(
    copied: tuple[Residency, Path], tmp_path: Path
) -> None:
    residency, copy = copied
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    async with residency.acquire(None) as lease:
        stream = lease.stream([job([1, 2, 3], n_predict=20)])
        found = len(await anext(stream))
        os.replace(tmp_path / "other.gguf", copy)
        found += len(await read(stream))
    assert found == 20
    with pytest.raises(ModelFileChanged):
        async with residency.acquire(None):
            pass


async def test_a_file_replaced_between_the_hash_and_the_map_is_not_served(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(model_path, copy)
    residency = Residency(Catalog.of_file(copy), OPTIONS)

    def replaced_then_opened(path: Path, options: ModelOptions) -> Model:
        shutil.copy(model_path, tmp_path / "other.gguf")
        os.replace(tmp_path / "other.gguf", copy)
        return Model.open(path, options)

    monkeypatch.setattr(module, "Model", SimpleNamespace(open=replaced_then_opened))
    with pytest.raises(ModelFileChanged):
        await residency.start()
    assert residency.current() is None
    await residency.stop()


async def test_a_file_that_was_touched_is_verified_again_once_and_served(model_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(model_path, copy)
    residency = Residency(Catalog.of_file(copy), OPTIONS)
    await residency.start()
    os.utime(copy, ns=(0, 0))
    for loads in (True, False):
        async with residency.acquire(None) as lease:
            assert lease.loaded is loads
    await residency.stop()


async def test_the_end_of_every_job_is_told_before_its_last_step_is_read(residency: Residency) -> None:
    ended: list[Task] = []
    residency.on_end = lambda entry, task: ended.append(task)
    async with residency.acquire(None) as lease:
        async for batch in lease.stream([job([1, 2, 3, 4]), job([1, 2, 5])]):
            n_over = sum(step.final is not None for _, step in batch)
            assert len(ended) >= n_over
    assert [(one.n_cached, one.n_processed) for one in ended] == [(0, 4), (2, 1)]
    assert all(one.step is not None and one.step.final is not None for one in ended)
    assert ended[1].waited_ns > ended[0].waited_ns > 0


async def test_a_job_that_is_stopped_in_its_prompt_is_told_with_what_it_evaluated(residency: Residency) -> None:
    ended: list[Task] = []
    residency.on_end = lambda entry, task: ended.append(task)
    async with residency.acquire(None) as lease:
        stream = lease.stream([job([1] * 500)])
        await stream.aclose()
        assert [(one.n_processed, one.step) for one in ended] in ([(0, None)], [(len(lease.slot.tokens), None)])


async def test_who_waits_is_counted(residency: Residency) -> None:
    async def wait() -> None:
        async with residency.acquire(None):
            assert residency.n_waiting == 0

    async with residency.acquire(None):
        assert residency.n_waiting == 0
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert residency.n_waiting == 1
    await waiter


async def test_an_interruption_ends_what_runs_and_what_waits_with_its_error(residency: Residency) -> None:
    class Over(Exception):
        pass

    held = asyncio.Event()

    async def ask() -> None:
        async with residency.acquire(None) as lease:
            held.set()
            await steps(lease, job([1, 2, 3], n_predict=400))

    tasks = [asyncio.create_task(ask()) for _ in range(3)]
    await held.wait()
    residency.interrupt(Over)
    tasks.append(asyncio.create_task(ask()))
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [Over] * 4
    assert not residency.busy
