"""The loop does at its edges what llama-server does, and the slot's tokens always say what the KV cache holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import Cancelled, ContextOverflow, InvalidRequest
from engine.generation import Final, GenerationRequest, SharedPrompt, Step, generate
from engine.model import Model, ModelOptions
from engine.sampling import SamplingParams
from engine.timings import Timings
from engine.tokenizer import Tokenizer
from testing.oracles.record_generation import N_CTX
from testing.oracles.replay import generation_request, load

RECORDS: dict[str, dict[str, Any]] = dict(load("generation")["records"])
ANSWERED = [name for name, record in RECORDS.items() if "error" not in record]
GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[Model]:
    """The real model, with the context and threads the records were made with."""
    model = Model.open(model_path, ModelOptions(n_ctx=N_CTX, n_threads=2))
    yield model
    model.close()


@pytest.fixture(scope="module")
def small_batches(model_path: Path) -> Iterator[Model]:
    """The real model with batches of 48 in micro-batches of 32."""
    model = Model.open(model_path, ModelOptions(n_ctx=N_CTX, n_threads=2, n_batch=48, n_ubatch=32))
    yield model
    model.close()


@dataclass(slots=True)
class Watched:
    """A real model that notes what it evaluates and may fail on the way."""

    model: Model
    evaluated: list[tuple[int, int, bool]] = field(default_factory=list)
    fail_at: int = -1

    @property
    def options(self) -> ModelOptions:
        return self.model.options

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def n_ctx(self) -> int:
        return self.model.n_ctx

    @property
    def n_vocab(self) -> int:
        return self.model.n_vocab

    @property
    def logits(self) -> NDArray[np.float32]:
        return self.model.logits

    def evaluate(self, tokens: Sequence[int], position: int, *, output: bool) -> None:
        if len(self.evaluated) == self.fail_at:
            raise OSError("the disk is gone")
        self.model.evaluate(tokens, position, output=output)
        self.evaluated.append((position, len(tokens), output))


def after(n: int) -> Callable[[], bool]:
    """A `cancelled` that turns true once it has been asked `n` times."""
    asked = iter(range(n))
    return lambda: next(asked, None) is None


def last(steps: list[Step]) -> Final:
    final = steps[-1].final
    assert final is not None
    return final


@pytest.mark.parametrize("name", ANSWERED)
def test_answer_is_the_references_whole_and_streamed(model: Model, name: str) -> None:
    record = RECORDS[name]
    held = [1, 2, 3]
    steps = list(generate(model, generation_request(model, record), tokens=held, n_past=0))
    final, timings = last(steps), steps[-1].timings
    assert final.tokens == record["tokens"]
    assert final.text + "\ufffd" * bool(final.cut) == record["content"]
    for attribute in ("stop_type", "stopping_word", "truncated", "tokens_evaluated", "has_new_line"):
        assert getattr(final, attribute) == record[attribute], attribute
    if record["prompt_ids"]:
        assert final.tokens_cached == record["tokens_cached"] == len(held)
    assert (timings.cache_n, timings.prompt_n) == (record["cache_n"], record["prompt_n"])
    assert timings.predicted_n == record["predicted_n"] == record["tokens_predicted"] == steps[-1].n_decoded
    word = final.stop_type == "word" or (final.truncated and "stop" in record["request"])
    events = [[step.text, [step.token], word and step.final is not None] for step in steps if step.send]
    assert [*events, ["", [], True]] == record["events"]


def test_prompt_as_long_as_the_context_is_refused_before_any_work(model: Model) -> None:
    record, watched, tokens = RECORDS["too-long"], Watched(model), [1, 2, 3]
    with pytest.raises(ContextOverflow) as error:
        generate(watched, generation_request(model, record), tokens=tokens, n_past=0)
    assert str(error.value) == record["error"]["message"]
    assert (error.value.n_prompt, error.value.n_ctx) == (record["error"]["n_prompt_tokens"], record["error"]["n_ctx"])
    assert (watched.evaluated, tokens) == ([], [1, 2, 3])


@pytest.mark.parametrize("token", [-1, 49152])
def test_token_outside_the_vocabulary_is_refused_before_any_work(model: Model, token: int) -> None:
    with pytest.raises(InvalidRequest, match="Prompt contains invalid tokens"):
        generate(model, GenerationRequest([1, token]), tokens=[], n_past=0)


def test_empty_prompt_samples_nothing_and_leaves_the_slot_alone(model: Model) -> None:
    watched, tokens = Watched(model), [1, 2, 3]
    steps = list(generate(watched, GenerationRequest([]), tokens=tokens, n_past=0))
    assert steps == [Step("", None, False, 0, Timings(), steps[0].final)]
    final = last(steps)
    assert (final.stop_type, final.tokens, final.tokens_cached, final.tokens_evaluated) == ("none", [], 3, 0)
    assert (watched.evaluated, tokens) == ([], [1, 2, 3])


@pytest.mark.parametrize("n_past", [-1, 3, 4])
def test_prefix_that_leaves_nothing_to_evaluate_is_an_error(model: Model, n_past: int) -> None:
    with pytest.raises(ValueError, match="n_past"):
        generate(model, GenerationRequest([1, 2, 3]), tokens=[1, 2, 3, 4], n_past=n_past)


def test_tokens_say_what_the_cache_holds_after_every_step(model: Model) -> None:
    prompt = RECORDS["plain"]["prompt_ids"]
    tokens: list[int] = [9, 9]
    sampled: list[int] = []
    for step in generate(model, GenerationRequest(prompt, GREEDY, n_predict=12), tokens=tokens, n_past=0):
        assert tokens == prompt + sampled
        assert step.token is not None
        sampled.append(step.token)
        assert step.n_decoded == len(sampled)
    assert tokens == prompt + sampled[:-1]


def test_what_is_cached_is_not_evaluated_again_and_changes_no_token(model: Model) -> None:
    prompt = RECORDS["plain"]["prompt_ids"]
    sampling = SamplingParams(seed=5, repeat_penalty=1.5, temperature=1.0)
    request = GenerationRequest(prompt, sampling, n_predict=8)
    tokens: list[int] = []
    fresh = list(generate(model, request, tokens=tokens, n_past=0))
    watched = Watched(model)
    cached = list(generate(watched, request, tokens=tokens, n_past=len(prompt) - 1))
    assert last(cached).tokens == last(fresh).tokens  # the penalties have seen the cached tokens too
    assert (cached[-1].timings.cache_n, cached[-1].timings.prompt_n) == (len(prompt) - 1, 1)
    assert watched.evaluated[0] == (len(prompt) - 1, 1, True)


def test_prompt_goes_in_batches_cut_into_micro_batches_and_only_its_last_row_has_logits(small_batches: Model) -> None:
    prompt = (RECORDS["context-full"]["prompt_ids"] * 2)[:100]
    watched, tokens, progress = Watched(small_batches), list(prompt[:7]), list[tuple[int, int]]()
    small_batches.evaluate(prompt[:7], 0, output=False)
    request = GenerationRequest(prompt, GREEDY, n_predict=2)
    list(generate(watched, request, tokens=tokens, n_past=7, on_prompt=lambda *done: progress.append(done)))
    pieces = [(7, 32, False), (39, 16, False), (55, 32, False), (87, 13, True)]
    assert watched.evaluated == [*pieces, (100, 1, True)]
    assert progress == [(7, 100), (55, 100), (100, 100)]


def test_progress_is_told_at_the_start_and_after_each_batch_when_asked_for(small_batches: Model) -> None:
    prompt = (RECORDS["context-full"]["prompt_ids"] * 2)[:100]
    tokens = list(prompt[:7])
    small_batches.evaluate(tokens, 0, output=False)
    request = GenerationRequest(prompt, GREEDY, n_predict=1, return_progress=True)
    steps = list(generate(small_batches, request, tokens=tokens, n_past=7))
    told = [step.progress for step in steps if step.progress is not None]
    assert [(one.total, one.cache, one.processed) for one in told] == [(100, 7, 7), (100, 7, 55), (100, 7, 100)]
    assert [(step.token, step.send, step.n_decoded) for step in steps[:3]] == [(None, False, 0)] * 3
    assert [step.timings.prompt_n for step in steps] == [0, 48, 93, 93]


def test_answers_to_one_prompt_read_it_once_and_begin_with_the_same_logits(model: Model) -> None:
    prompt = RECORDS["context-full"]["prompt_ids"][:90]
    shared = SharedPrompt()

    def ask(seed: int, shared: SharedPrompt | None) -> GenerationRequest:
        sampling = SamplingParams(seed=seed, temperature=5.0, min_p=0.0, top_p=1.0, n_probs=3)
        return GenerationRequest(prompt, sampling, n_predict=12, shared=shared)

    tokens: list[int] = []
    watched = Watched(model)
    together = [list(generate(watched, ask(seed, shared), tokens=tokens, n_past=0)) for seed in (1, 2, 3)]
    assert [piece for piece in watched.evaluated if piece[1] > 1] == [(0, 90, True)]
    alone = [list(generate(model, ask(seed, None), tokens=[], n_past=0)) for seed in (1, 2, 3)]
    for shared_steps, lone_steps in zip(together, alone, strict=True):
        assert last(shared_steps).tokens == last(lone_steps).tokens
        assert last(shared_steps).shown == last(lone_steps).shown
        assert shared_steps[-1].timings.prompt_n == 90
    assert len({tuple(last(steps).tokens) for steps in together}) > 1
    assert tokens == prompt + last(together[-1]).tokens[:-1]


@pytest.mark.parametrize(("n_asked", "n_held"), [(0, 0), (1, 32), (2, 48), (4, 96), (5, 100), (7, 102)])
def test_cancelled_before_the_next_micro_batch_or_token(small_batches: Model, n_asked: int, n_held: int) -> None:
    prompt = (RECORDS["context-full"]["prompt_ids"] * 2)[:100]
    tokens = [1, 2, 3]
    with pytest.raises(Cancelled):
        list(
            generate(
                small_batches, GenerationRequest(prompt, GREEDY), tokens=tokens, n_past=0, cancelled=after(n_asked)
            )
        )
    assert len(tokens) == n_held
    assert tokens[:100] == prompt[:n_held]


def test_closed_generation_leaves_a_slot_that_the_next_one_can_use(model: Model) -> None:
    prompt = RECORDS["plain"]["prompt_ids"]
    tokens: list[int] = []
    whole = last(list(generate(model, GenerationRequest(prompt, GREEDY, n_predict=8), tokens=tokens, n_past=0))).tokens
    steps = generate(model, GenerationRequest(prompt, GREEDY), tokens=tokens, n_past=0)
    for _ in range(4):
        next(steps)
    steps.close()
    assert tokens == prompt + whole[:3]
    longer = GenerationRequest(prompt + whole[:4], GREEDY, n_predict=4)
    assert last(list(generate(model, longer, tokens=tokens, n_past=len(tokens)))).tokens == whole[4:]


@pytest.mark.parametrize(("fail_at", "n_held"), [(0, 0), (2, 48), (4, 96), (5, 100), (6, 101)])
def test_failed_evaluation_leaves_only_what_was_computed(small_batches: Model, fail_at: int, n_held: int) -> None:
    prompt = (RECORDS["context-full"]["prompt_ids"] * 2)[:100]
    tokens = [1, 2, 3]
    with pytest.raises(OSError, match="disk"):
        list(
            generate(
                Watched(small_batches, fail_at=fail_at), GenerationRequest(prompt, GREEDY), tokens=tokens, n_past=0
            )
        )
    assert len(tokens) == n_held


def test_same_seed_gives_the_same_tokens_and_the_seed_is_told(model: Model) -> None:
    prompt = RECORDS["plain"]["prompt_ids"]
    hot = SamplingParams(temperature=2.0)
    first = last(list(generate(model, GenerationRequest(prompt, hot, n_predict=16), tokens=[], n_past=0)))
    again = SamplingParams(temperature=2.0, seed=first.seed)
    assert last(list(generate(model, GenerationRequest(prompt, again, n_predict=16), tokens=[], n_past=0))) == first


def test_timings_count_as_llama_servers_do() -> None:
    timings = Timings(cache_n=3, prompt_n=5, prompt_ns=50_441_999, predicted_n=8, predicted_ns=115_448_001)
    assert timings.as_dict() == {
        "cache_n": 3,
        "prompt_n": 5,
        "prompt_ms": 50.441,
        "prompt_per_token_ms": 10.0882,
        "prompt_per_second": 99.12571122697805,
        "predicted_n": 8,
        "predicted_ms": 115.448,
        "predicted_per_token_ms": 16.492571428571427,
        "predicted_per_second": 60.633358741597945,
    }


def test_first_token_costs_nothing_and_an_empty_answer_has_no_rates() -> None:
    one = Timings(prompt_n=1, prompt_ns=14_434_000, predicted_n=1, predicted_ns=0)
    assert (one.predicted_ms, one.predicted_per_token_ms, one.predicted_per_second) == (0.001, 0.0, 0.0)
    assert set(Timings().as_dict().values()) == {0}
