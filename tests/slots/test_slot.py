"""What the slot keeps of the next prompt."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from engine.generation import GenerationRequest
from slots.prompt_cache import PromptCache, State
from slots.slot import SIMILARITY, Job, Slot


@pytest.mark.parametrize(
    ("held", "prompt", "n_past"),
    [
        ([], [1, 2, 3], 0),
        ([1, 2, 3], [1, 2, 3, 4, 5], 3),
        ([1, 2, 9, 9], [1, 2, 3, 4], 2),
        ([9], [1, 2], 0),
        ([1, 2, 3, 4, 5], [1, 2], 1),
    ],
    ids=["an empty slot", "a grown prompt", "a prompt that turns off", "another prompt", "a shorter prompt"],
)
def test_the_common_prefix_is_kept_and_one_token_is_always_computed(
    held: list[int], prompt: list[int], n_past: int
) -> None:
    assert Slot(held).reuse(prompt) == n_past


def test_a_prompt_that_is_all_there_keeps_one_token_less() -> None:
    assert Slot([1, 2, 3]).reuse([1, 2, 3]) == 2
    assert Slot([1]).reuse([1]) == 0


def test_without_cache_prompt_nothing_is_kept() -> None:
    assert Slot([1, 2, 3]).reuse([1, 2, 3, 4], cache_prompt=False) == 0


def test_an_empty_prompt_keeps_nothing() -> None:
    assert Slot([1, 2]).reuse([]) == 0


def test_asking_changes_nothing_and_clearing_empties() -> None:
    slot = Slot([1, 2, 3])
    slot.reuse([1])
    assert slot.tokens == [1, 2, 3]
    slot.clear()
    assert slot.tokens == []


class Cache:
    """A KV cache of which only the number of tokens is kept."""

    n_ctx = 100

    def __init__(self) -> None:
        self.restored: list[int] = []

    def cache_state(self, n_tokens: int) -> State:
        return np.full(1, n_tokens, dtype=np.uint8)

    def restore_cache(self, state: State, n_tokens: int) -> None:
        assert state[0] == n_tokens
        self.restored.append(n_tokens)

    def state_size(self, n_tokens: int) -> int:
        return n_tokens


def slot_of(tokens: list[int], *parked: list[int], similarity: float = SIMILARITY) -> Slot:
    cache = PromptCache(0, 1000)
    for other in parked:
        cache.park(other, len(other), partial(np.full, 1, len(other), np.uint8))
    return Slot(list(tokens), Cache(), cache, similarity)


def begin(slot: Slot, prompt: list[int], id_slot: int = -1) -> list[list[int]]:
    slot.begin(Job(GenerationRequest(prompt), id_slot=id_slot))
    assert slot.parked is not None
    return [parked.tokens for parked in slot.parked]


A, B = [1] * 10, [2] * 10


def test_a_slot_too_unlike_the_prompt_is_parked() -> None:
    assert begin(slot_of(A), B) == [A]


def test_a_slot_that_keeps_half_of_itself_is_not() -> None:
    assert begin(slot_of(A), [*A[:5], 3]) == []
    assert begin(slot_of(A), [*A[:4], 3]) == [A]


def test_what_is_parked_comes_back_for_its_conversation() -> None:
    slot = slot_of(B, A)
    assert begin(slot, [*A, 3]) == [B]
    assert slot.tokens == A
    assert slot.task is not None
    assert slot.task.n_cached == len(A)


def test_an_empty_slot_takes_up_a_state_unless_it_was_asked_for_by_number() -> None:
    assert begin(slot_of([], A), [*A, 3]) == []
    assert begin(slot_of([], A), [*A, 3], id_slot=0) == [A]


def test_a_slot_asked_for_by_number_is_parked_where_little_of_it_is_kept() -> None:
    assert begin(slot_of(A), B, id_slot=0) == [A]
    assert begin(slot_of(A), [*A, 3], id_slot=0) == []
    assert begin(slot_of(A), [*A, 3], id_slot=1) == [A]


def test_without_a_rule_of_similarity_only_a_slot_asked_for_stays() -> None:
    assert begin(slot_of(A, similarity=0), [*A, 3]) == [A]
    assert begin(slot_of(A, similarity=0), B, id_slot=0) == []


def test_an_empty_prompt_parks_the_slot_and_leaves_it() -> None:
    slot = slot_of(A)
    assert begin(slot, []) == [A]
    assert slot.tokens == A


def test_tasks_are_counted() -> None:
    slot = slot_of([])
    begin(slot, A)
    begin(slot, A)
    assert slot.task is not None
    assert slot.task.id == 1
