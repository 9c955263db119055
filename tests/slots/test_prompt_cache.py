"""Which states are parked, which go, and which one a prompt takes up."""

from __future__ import annotations

import numpy as np
import pytest

from slots.prompt_cache import PromptCache, State, common_prefix, share

MIB = 1 << 20


def state() -> State:
    return np.zeros(1, dtype=np.uint8)


def no_memory() -> State:
    raise MemoryError


def cache_of(*prompts: list[int], limit: int = 0, size: int = 10, n_ctx: int = 1000) -> PromptCache:
    cache = PromptCache(limit, n_ctx)
    for tokens in prompts:
        cache.park(tokens, size, state)
    return cache


def held(cache: PromptCache) -> list[list[int]]:
    return [parked.tokens for parked in cache]


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 511, 512, 600])
def test_a_common_prefix_ends_where_two_lists_part(n: int) -> None:
    tokens = list(range(600))
    assert common_prefix(tokens, tokens[:n]) == n
    assert common_prefix([*tokens[:n], -1], tokens) == n
    assert common_prefix([*tokens[:n], -1, 5], [*tokens[:n], -2, 5]) == n


def test_a_share_is_a_single_and_of_nothing_less_than_any() -> None:
    assert share(1, 3) == np.float32(1 / 3)
    assert share(0, 0) == -1


def test_nothing_is_parked_of_an_empty_slot() -> None:
    assert len(cache_of([])) == 0


def test_a_state_that_another_one_holds_is_not_parked() -> None:
    cache = cache_of([1, 2, 3])
    cache.park([1, 2], 10, no_memory)
    cache.park([1, 2, 3], 10, no_memory)
    assert held(cache) == [[1, 2, 3]]


def test_states_that_the_new_one_holds_go() -> None:
    assert held(cache_of([1, 2], [5], [1], [1, 2, 3])) == [[5], [1, 2, 3]]


def test_the_oldest_go_for_want_of_room() -> None:
    assert held(cache_of([1], [2], [3], limit=25)) == [[2], [3]]


def test_a_state_larger_than_the_limit_disturbs_nothing() -> None:
    cache = cache_of([1, 2], limit=25)
    cache.park([1, 2, 3], 26, no_memory)
    assert held(cache) == [[1, 2]]


def test_where_memory_ends_the_limit_shrinks_to_four_tenths_of_what_is_there() -> None:
    cache = cache_of([1], [2], [3], limit=100)
    cache.park([4], 10, no_memory)
    assert cache.limit == 12
    assert held(cache) == [[3]]


def test_without_a_limit_in_bytes_tokens_are_limited_to_a_context() -> None:
    cache = cache_of([1] * 5, [2] * 5, [3] * 5, n_ctx=10)
    cache.trim()
    assert held(cache) == [[2] * 5, [3] * 5]


def test_with_a_limit_in_bytes_as_many_tokens_stay_as_fit_by_their_average_size() -> None:
    cache = cache_of([1] * 5, [2] * 5, [3] * 5, n_ctx=10, limit=60, size=10)
    cache.trim()
    assert len(cache) == 3


def test_the_state_that_serves_a_prompt_best_is_taken_out() -> None:
    cache = cache_of([1, 2, 3, 9], [1, 2, 3, 4], [7])
    taken = cache.take([], [1, 2, 3, 4, 5])
    assert taken is not None
    assert taken.tokens == [1, 2, 3, 4]
    assert held(cache) == [[1, 2, 3, 9], [7]]


def test_a_state_must_keep_a_quarter_of_itself() -> None:
    assert cache_of([1, 2, 3, 4, 5]).take([], [1, 9]) is None
    assert cache_of([1, 2, 3, 4]).take([], [1, 9]) is not None


def test_a_state_must_beat_the_slot_in_what_it_keeps_and_in_what_it_saves() -> None:
    assert cache_of([1, 2, 8]).take([1, 2, 9], [1, 2, 3, 4]) is None
    assert cache_of([1, 2, 3, 9, 9, 9]).take([1, 2], [1, 2, 3, 4]) is None
    assert cache_of([1, 2, 3]).take([1, 2, 9], [1, 2, 3, 4]) is not None


def test_an_empty_prompt_takes_nothing() -> None:
    assert cache_of([1]).take([], []) is None
