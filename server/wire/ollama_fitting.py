"""Which messages of a conversation fit a context, as Ollama has it. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Message = Mapping[str, Any]

STEPS: Final = 128
"""Longer conversations are halved instead of shortened message by message."""


def fit_messages(
    messages: Sequence[Message], limit: int, count: Callable[[Sequence[Message]], int]
) -> tuple[list[Message], int]:
    """The messages that fit `limit` tokens, by Ollama's rule: the oldest go first, but system messages stay, and so
    does the last message even when it alone does not fit.

    Ollama tries one message fewer at a time. So is it done here for up to `STEPS` messages; with more, the first that
    fits is found by halving, which is the same unless the template makes a longer prompt of fewer messages.

    Args:
        messages: the conversation, not empty.
        limit: tokens the rendered prompt may have.
        count: tokens in the prompt of some of the messages.

    Returns:
        what is left, and how many messages went.
    """

    def kept(first: int) -> list[Message]:
        system = [message for message in messages[:first] if message.get("role") == "system"]
        return system + list(messages[first:])

    def fits(first: int) -> bool:
        return count(kept(first)) <= limit

    last = len(messages) - 1
    if last < STEPS:
        first = next((first for first in range(last) if fits(first)), last)
    elif fits(0):
        first = 0
    else:
        first = _first(fits, 1, last)
    fitted = kept(first)
    return fitted, len(messages) - len(fitted)


def _first(true: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from `low` on for which `true` is so, `high` if it is so for none below."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle + 1, high)
    return low
