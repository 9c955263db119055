"""Texts embedded in the slot: what it holds then, what is counted, and that a client who leaves stops it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.errors import InputTooLarge
from engine.model import ModelOptions
from engine.pooling import Pooling
from registry.catalog import Catalog, Entry
from slots.embedding import embed_all
from slots.residency import Residency
from slots.slot import Task


@pytest.fixture
async def residency(model_path: Path) -> AsyncIterator[Residency]:
    residency = Residency(Catalog.of_file(model_path), ModelOptions(n_threads=2, n_batch=32, n_ubatch=32))
    await residency.start()
    yield residency
    await residency.stop()


async def test_the_slot_holds_the_last_text(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        vectors = await embed_all(lease, [[5, 6, 7], [8, 9]], Pooling.MEAN)
        assert len(vectors) == 2
        assert lease.slot.tokens == [8, 9]


async def test_every_text_is_a_task_of_the_slot_and_is_counted(residency: Residency) -> None:
    ended: list[tuple[int, int, int]] = []

    def count(entry: Entry, task: Task) -> None:
        assert task.step is not None
        ended.append((task.id, task.n_cached, task.n_processed))

    residency.on_end = count
    async with residency.acquire(None) as lease:
        await embed_all(lease, [[5, 6, 7], [8, 9]], Pooling.CLS)
    assert ended == [(0, 0, 3), (1, 0, 2)]


async def test_only_the_last_rows_pooling_keeps_what_the_slot_has_of_a_text(residency: Residency) -> None:
    kept = []
    async with residency.acquire(None) as lease:
        for pooling in (Pooling.LAST, Pooling.LAST, Pooling.MEAN):
            await embed_all(lease, [[5, 6, 7]], pooling)
            assert lease.slot.task is not None
            kept.append(lease.slot.task.n_cached)
    assert kept == [0, 2, 0]


async def test_a_text_that_is_refused_leaves_those_before_it_done(residency: Residency) -> None:
    async with residency.acquire(None) as lease:
        with pytest.raises(InputTooLarge):
            await embed_all(lease, [[5, 6, 7], [8] * 33, [9]], Pooling.MEAN)
        assert lease.slot.tokens == [5, 6, 7]


async def test_a_client_who_leaves_stops_it_before_the_next_micro_batch(residency: Residency) -> None:
    async def work() -> None:
        async with residency.acquire(None) as lease:
            await embed_all(lease, [[5] * 8000] * 20, Pooling.LAST)

    def wait_for_tokens() -> None:
        while (resident := residency.current()) is None or not resident.slot.tokens:
            time.sleep(0.001)

    task = asyncio.create_task(work())
    await asyncio.to_thread(wait_for_tokens)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with residency.acquire(None) as lease:
        assert 0 < len(lease.slot.tokens) < 8000
        assert len(lease.slot.tokens) % 32 == 0


async def test_an_interruption_ends_the_work_with_its_error(residency: Residency) -> None:
    class Stopping(Exception):
        pass

    async with residency.acquire(None) as lease:
        work = asyncio.ensure_future(embed_all(lease, [[9] * 31] * 10_000, Pooling.LAST))
        await asyncio.sleep(0.1)
        residency.interrupt(Stopping)
        with pytest.raises(Stopping):
            await work
