"""Where reasoning begins, how long it lasts and what ends it. Whole answers are held against the reference's elsewhere
(`reasoning-*` in test_generation.py)."""

from __future__ import annotations

import numpy as np
import pytest

from engine.reasoning_budget import (
    NO_REASONING,
    ReasoningBudget,
    ReasoningParams,
    State,
    Tokens,
    reasoning_from_request,
)

START, END, LONG_END, FORCED = 1, (2,), (7, 2), (8, 2)


class Letters:
    """A vocabulary in which a token is the byte of its number; above 127 it cuts a character or ends one."""

    def piece(self, token: int, /, *, special: bool = False) -> bytes:
        return bytes([token])

    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        return list(text.encode())


def budget(limit: int, *ends: Tokens, forced: Tokens = FORCED) -> ReasoningBudget:
    return ReasoningBudget(ReasoningParams(limit, (START,), ends or (END,), forced), Letters())


def after(one: ReasoningBudget, *tokens: int) -> State:
    for token in tokens:
        one.accept(token)
    return one.state


def drawn(one: ReasoningBudget) -> int | None:
    """The token that is forced, None for the model's own choice."""
    logits = np.arange(16, dtype=np.float32)
    found = one.apply(logits)
    finite = np.flatnonzero(np.isfinite(found))
    return None if finite.size == logits.size else int(finite[0])


def test_an_answer_without_the_marker_has_no_reasoning() -> None:
    assert after(budget(1), 5, 2, 5) is State.BEFORE


def test_reasoning_runs_from_marker_to_marker() -> None:
    one = budget(-1)
    assert after(one, START) is State.COUNTING
    assert one.running
    assert after(one, 5, 5, 5, 2) is State.AFTER
    assert one.ended_by == END
    assert not one.running


def test_at_its_limit_the_message_and_the_end_are_forced() -> None:
    one = budget(2)
    assert after(one, START, 5, 6) is State.FORCING
    assert drawn(one) == 8
    one.accept(8)
    assert drawn(one) == 2
    assert after(one, 2) is State.AFTER
    assert one.ended_by == END
    assert drawn(one) is None


def test_a_limit_of_nothing_ends_it_at_once() -> None:
    assert after(budget(0), START) is State.FORCING


def test_a_cut_character_is_finished_first() -> None:
    assert after(budget(1), START, 0xE2) is State.CUT_CHARACTER
    assert after(budget(1), START, 0xE2, 0xC3) is State.CUT_CHARACTER
    assert after(budget(1), START, 0xE2, ord("a")) is State.FORCING


def test_with_nothing_to_force_reasoning_just_ends() -> None:
    one = budget(1, forced=())
    assert after(one, START, 5) is State.FORCING
    assert drawn(one) is None
    assert after(one, 5) is State.AFTER
    assert one.ended_by is None


def test_the_longest_marker_that_ends_there_counts() -> None:
    one = budget(-1, END, LONG_END)
    after(one, START, 5, 7, 2)
    assert one.ended_by == LONG_END


def test_each_reasoning_of_an_answer_has_the_whole_limit() -> None:
    one = budget(2)
    assert after(one, START, 5, 2, 5, 5, START, 5) is State.COUNTING
    assert after(one, 5) is State.FORCING


@pytest.mark.parametrize(
    ("message", "forced"), [(None, ()), ("", (*b"</t>",)), ("So.", (*b"So.</t>",))], ids=["none", "empty", "some"]
)
def test_the_message_goes_before_the_first_end_and_without_one_nothing_is_forced(
    message: str | None, forced: Tokens
) -> None:
    fields = {
        "reasoning_budget_tokens": 3,
        "reasoning_budget_start_tag": "<t>",
        "reasoning_budget_end_tags": ["", "</t>", "<call>"],
        "reasoning_budget_message": message,
    }
    found = reasoning_from_request(fields, NO_REASONING, Letters())
    assert found == ReasoningParams(3, (*b"<t>",), ((*b"</t>",), (*b"<call>",)), forced)


def test_the_default_limit_holds_where_the_request_has_none() -> None:
    assert reasoning_from_request({}, ReasoningParams(5), Letters()).limit == 5
    assert reasoning_from_request({"reasoning_budget_tokens": -1}, ReasoningParams(5), Letters()).limit == -1
