"""The way every API takes to the engine: build the request, wait for the engine, read the steps.

An API gives a pure function from the loaded model to its jobs and turns the steps it gets into its own events:

```python
def build(model: Model) -> list[Job]:            # pure; runs off the event loop; raises what is wrong with the request
    return [Job(GenerationRequest(prompt=model.tokenizer.encode(text), sampling=...))]

async with open_answer(residency, name, build, keep_alive=...) as answer:
    async for step in answer:                    # engine.generation.Step
        ...                                      # step.final is set on the last one
```

Not streamed: run that in `streams.until_disconnect(request, ...)`. Streamed: put it in an async generator of bytes and
return `streams.EventStream(generator, media_type)`; yield `b""` once the answer is open, so that the client sees the
status before the first token. Either way a client who leaves cancels the task, and leaving the `async with` block stops
the engine before its next token or micro-batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from engine.generation import Step
from engine.model import Model
from registry.catalog import Entry
from slots.residency import Lease, Residency
from slots.slot import Job
from slots.step_stream import StepStream

Build = Callable[[Model], Sequence[Job]]
T = TypeVar("T")


@dataclass(slots=True)
class Answer:
    """A request that has the engine.

    Attributes:
        model, entry: who answers.
        jobs: what was built, one per prompt.
        load_ns: nanoseconds spent loading the model for this request, 0 when it was resident.
    """

    model: Model
    entry: Entry
    jobs: Sequence[Job]
    load_ns: int
    stream: StepStream

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a schema asks for and its grammar does not hold, the same for all prompts."""
        return self.jobs[0].request.sampling.grammar.warnings if self.jobs else ()

    def reads_prompt(self, index: int) -> bool:
        """Whether job `index` reads its prompt: not so the second answer to a prompt, and those after it."""
        shared = self.jobs[index].request.shared
        return shared is None or index == 0 or self.jobs[index - 1].request.shared is not shared

    async def __aiter__(self) -> AsyncIterator[Step]:
        """The steps of a single-prompt request."""
        async for batch in self.stream:
            for _, step in batch:
                yield step

    def batches(self) -> StepStream:
        """Lists of `(index of the prompt, Step)`, everything that is ready at a time."""
        return self.stream


@asynccontextmanager
async def open_answer(
    residency: Residency,
    entry: Entry | None,
    build: Build,
    *,
    keep_alive: float | None = None,
    num_ctx: int | None = None,
) -> AsyncIterator[Answer]:
    """Build the jobs, wait in the queue for the engine and start them; see `open_lease`."""
    async with open_lease(residency, entry, build, keep_alive=keep_alive, num_ctx=num_ctx) as (lease, jobs):
        yield start(lease, jobs)


@asynccontextmanager
async def open_lease(
    residency: Residency,
    entry: Entry | None,
    build: Callable[[Model], T],
    *,
    keep_alive: float | None = None,
    num_ctx: int | None = None,
) -> AsyncIterator[tuple[Lease, T]]:
    """Build what a request asks for and wait in the queue for the engine.

    `build` runs against the resident model while the request waits in its place, so that a bad one is refused at once;
    again only if another model has come meanwhile.

    Args:
        residency: who has the engine.
        entry: the model, None for the one that is there.
        build: see the module's text.
        keep_alive, num_ctx: as `Residency.acquire`.

    Raises:
        What `build` raises; what `Residency.acquire` raises.
    """
    built: list[tuple[Model, T]] = []

    async def build_early() -> None:
        resident = residency.current()
        if resident is not None and (entry is None or entry.same_weights(resident.entry)):
            built.append((resident.model, await asyncio.to_thread(build, resident.model)))

    async with residency.acquire(entry, keep_alive, num_ctx=num_ctx, prepare=build_early) as lease:
        if not built or built[0][0] is not lease.model:
            built[:] = [(lease.model, await asyncio.to_thread(build, lease.model))]
        yield lease, built[0][1]


def start(lease: Lease, jobs: Sequence[Job]) -> Answer:
    """Start `jobs` on an engine already held."""
    return Answer(lease.model, lease.entry, jobs, lease.load_ns, lease.stream(jobs))
