"""The way to the engine: when a request is built, for which model, and what a bad one leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from engine.generation import GenerationRequest
from engine.model import Model, ModelOptions
from engine.sampling import SamplingParams
from registry.catalog import Catalog, entry_of
from server.answers import open_answer
from slots.residency import Residency
from slots.slot import Job

GREEDY = SamplingParams(temperature=0.0)


class Build:
    """Jobs of one prompt each; remembers the models it was asked to build for and says when it was asked first."""

    def __init__(self, *prompts: list[int]) -> None:
        self.prompts = prompts or ([1, 2, 3],)
        self.models: list[Model] = []
        self.called = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, model: Model) -> Sequence[Job]:
        self.models.append(model)
        self._loop.call_soon_threadsafe(self.called.set)  # it is called in another thread
        return [Job(GenerationRequest(prompt=prompt, sampling=GREEDY, n_predict=3)) for prompt in self.prompts]


def refuse(model: Model) -> Sequence[Job]:
    raise InvalidRequest("no")


@pytest.fixture(scope="module")
def catalog(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The real model twice, under its own name and as `other`."""
    other = tmp_path_factory.mktemp("models") / "other.gguf"
    other.symlink_to(model_path)
    return Catalog([entry_of(model_path), entry_of(other)])


@pytest.fixture
async def residency(catalog: Catalog) -> AsyncIterator[Residency]:
    residency = Residency(catalog, ModelOptions(n_ctx=256, n_threads=1))
    await residency.start()
    yield residency
    await residency.stop()


def resident(residency: Residency) -> Model:
    found = residency.current()
    assert found is not None
    return found.model


@pytest.mark.parametrize("by_name", [False, True])
async def test_a_request_for_the_resident_model_is_built_once(residency: Residency, by_name: bool) -> None:
    build = Build()
    entry = residency.catalog.default if by_name else None
    async with open_answer(residency, entry, build) as answer:
        steps = [step async for step in answer]
    assert build.models == [answer.model] == [resident(residency)]
    assert (answer.entry, answer.load_ns) == (residency.catalog.default, 0)
    assert len(steps) == 3
    assert [step.final is not None for step in steps] == [False, False, True]


async def test_several_prompts_come_in_batches_with_their_index(residency: Residency) -> None:
    async with open_answer(residency, None, Build([1, 2], [3])) as answer:
        found = [index for batch in [batch async for batch in answer.batches()] for index, _ in batch]
    assert found == [0, 0, 0, 1, 1, 1]


async def test_a_request_is_built_while_it_waits_for_the_engine(residency: Residency) -> None:
    build = Build()

    async def ask() -> int:
        async with open_answer(residency, None, build) as answer:
            return len([step async for step in answer])

    async with residency.acquire(None):
        task = asyncio.create_task(ask())
        await asyncio.wait_for(build.called.wait(), timeout=60)
        assert not task.done()
    assert await task == 3
    assert len(build.models) == 1


async def test_a_request_is_built_again_when_another_model_has_come_meanwhile(residency: Residency) -> None:
    build, first = Build(), resident(residency)

    async def ask() -> Model:
        async with open_answer(residency, None, build) as answer:
            assert len([step async for step in answer]) == 3
            return answer.model

    async def switch() -> None:
        async with residency.acquire(residency.catalog.resolve("other")):
            pass

    async with residency.acquire(None):
        switching = asyncio.create_task(switch())
        await asyncio.sleep(0)  # it is first in the queue
        asking = asyncio.create_task(ask())
        await asyncio.wait_for(build.called.wait(), timeout=60)
    await switching
    assert build.models == [first, await asking] == [first, resident(residency)]
    assert first is not resident(residency)


async def test_a_request_for_a_model_that_is_not_resident_is_built_once_it_is(residency: Residency) -> None:
    build, first = Build(), resident(residency)
    async with open_answer(residency, residency.catalog.resolve("other"), build) as answer:
        assert len([step async for step in answer]) == 3
    assert build.models == [answer.model] != [first]
    assert answer.entry.name == "other"
    assert answer.load_ns > 0


async def test_with_nothing_resident_the_default_model_is_loaded_and_built_for(residency: Residency) -> None:
    await residency.unload()
    build = Build()
    async with open_answer(residency, None, build) as answer:
        assert answer.load_ns > 0
    assert build.models == [resident(residency)]


@pytest.mark.parametrize("name", [None, "other"])
async def test_a_build_that_fails_gives_the_place_up(residency: Residency, name: str | None) -> None:
    with pytest.raises(InvalidRequest, match="no"):
        async with open_answer(residency, residency.catalog.resolve(name) if name else None, refuse):
            pass
    assert not residency.busy
    async with open_answer(residency, None, Build()) as answer:
        assert len([step async for step in answer]) == 3


async def test_a_bad_request_is_refused_while_the_engine_is_busy(residency: Residency) -> None:
    async with residency.acquire(None):
        with pytest.raises(InvalidRequest, match="no"):
            async with open_answer(residency, None, refuse):
                pass
        assert residency.busy
    assert not residency.busy


async def test_a_keep_alive_of_zero_unloads_the_model_after_the_answer(residency: Residency) -> None:
    async with open_answer(residency, None, Build(), keep_alive=0) as answer:
        assert len([step async for step in answer]) == 3
    await residency.unload()  # waits for the engine
    assert residency.current() is None
