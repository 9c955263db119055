"""What the slot keeps of the next prompt."""

from __future__ import annotations

import pytest

from slots.slot import Slot


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
