"""Texts as vectors on a borrowed engine: one after another in the one slot, each a task of it.

No other conversation's state is parked for them or taken up, as in llama-server.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.embeddings import check_input, embed
from engine.errors import Cancelled
from engine.generation import Final, GenerationRequest, Step
from engine.pooling import FloatArray, Pooling
from engine.timings import Timings
from slots.residency import Lease
from slots.slot import Job


async def embed_all(
    lease: Lease, texts: Sequence[Sequence[int]], pooling: Pooling, form: Any = None
) -> list[FloatArray]:
    """The embedding of each text; see `engine.embeddings.embed`. The slot then holds the last one.

    Cancelled, it stops the engine before its next micro-batch and returns when that is idle.

    Args:
        lease: the engine.
        texts: each one's tokens.
        pooling: which rows make an embedding.
        form: `Job.form` of each task.

    Raises:
        What `engine.embeddings.embed` raises, once the texts before that one are done; what `Residency.interrupt` was
        given.
    """
    stop, residency = threading.Event(), lease.residency

    def is_stopped() -> bool:
        return stop.is_set() or residency.interruption is not None

    asked_ns = time.perf_counter_ns()

    def embed_each() -> list[FloatArray]:
        jobs = (Job(GenerationRequest(text), form=form, asked_ns=asked_ns) for text in texts)
        return [_embed(lease, job, pooling, is_stopped) for job in jobs]

    work = asyncio.ensure_future(lease.run(embed_each))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(work, return_exceptions=True)
        raise
    except Cancelled:
        residency.check_interruption()
        raise


def _embed(lease: Lease, job: Job, pooling: Pooling, cancelled: Callable[[], bool]) -> FloatArray:
    slot, text = lease.slot, job.request.prompt
    task = slot.start(job, slot.reuse(text) if pooling.splits else 0)
    started_ns = time.perf_counter_ns()
    try:
        check_input(lease.model, text, pooling)
        task.begun = True
        vector = embed(lease.model, text, pooling, cached=slot.tokens, n_past=task.n_cached, cancelled=cancelled)
        timings = Timings(task.n_cached, len(text) - task.n_cached, time.perf_counter_ns() - started_ns)
        final = Final("none", tokens_cached=len(text), tokens_evaluated=len(text))
        task.step = Step("", None, False, 0, timings, final)
        return vector
    finally:
        task.end(len(slot.tokens))
        lease.residency.on_end(lease.entry, task)
