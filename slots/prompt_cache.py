"""States of other conversations, parked in memory: llama-server's host prompt cache, rule by rule.

A state is what the KV cache held of a prompt and its answer. It is parked when another prompt is about to write over
most of it, and taken up again when a prompt comes that it serves better than the slot does. Since a prompt is then read
from another place on, these rules decide which tokens are reused and, with that, bits. They are those of
`server_prompt_cache` (server-task.cpp) and `get_available_slot` (server-context.cpp). Shares are compared in single
precision, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.uint8]

_MIN_KEEP: Final = 0.25  # of a parked state: a long one is not given up for a little
_STRETCH: Final = 256


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two lists share."""
    limit = min(len(a), len(b))
    start = 0
    while start < limit and a[start : start + _STRETCH] == b[start : start + _STRETCH]:
        start += _STRETCH
    start = min(start, limit)
    return next((i for i in range(start, min(start + _STRETCH, limit)) if a[i] != b[i]), min(start + _STRETCH, limit))


def share(part: int, whole: int) -> np.float32:
    """`part` of `whole`, in single precision; of nothing it is -1, less than any."""
    return np.float32(part) / np.float32(whole) if whole else np.float32(-1)


@dataclass(frozen=True, slots=True)
class ParkedPrompt:
    """A parked state.

    Attributes:
        tokens: what it was computed from.
        state: the KV cache's bytes for them.
        size: bytes it counts for: those of the reference's state, so that as many fit.
    """

    tokens: list[int]
    state: State
    size: int


class PromptCache:
    """Parked states, the oldest first.

    Args:
        limit: bytes they may take together, 0 for no limit.
        n_ctx: tokens of a context. Without a limit in bytes, states together hold no more tokens than this; with one,
            as many as fit by their average size if that is more.
    """

    def __init__(self, limit: int, n_ctx: int) -> None:
        self.limit = limit
        self._n_ctx = n_ctx
        self._states: list[ParkedPrompt] = []

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ParkedPrompt]:
        return iter(self._states)

    @property
    def size(self) -> int:
        """Bytes the states take together."""
        return sum(parked.size for parked in self._states)

    @property
    def n_tokens(self) -> int:
        """Tokens the states hold together."""
        return sum(len(parked.tokens) for parked in self._states)

    def park(self, tokens: Sequence[int], size: int, save: Callable[[], State]) -> None:
        """Keep a state, unless one that is there holds it already, or it is larger than all that may be kept.

        States that the new one holds go; then the oldest ones, until there is room.

        Args:
            tokens: what it was computed from; nothing is kept of none.
            size: see `ParkedPrompt.size`.
            save: copies the KV cache's bytes.
        """
        if not tokens or any(common_prefix(parked.tokens, tokens) == len(tokens) for parked in self._states):
            return
        if 0 < self.limit < size:
            return
        self._states = [p for p in self._states if common_prefix(p.tokens, tokens) < len(p.tokens)]
        while self.limit > 0 and self._states and self.size + size > self.limit:
            del self._states[0]
        try:
            state = save()
        except MemoryError:
            # the limit was more than there is: less is kept from now on
            self.limit = max(1, int(0.4 * self.size))
            self.trim()
            return
        self._states.append(ParkedPrompt(list(tokens), state, size))

    def take(self, held: Sequence[int], prompt: Sequence[int]) -> ParkedPrompt | None:
        """The state that serves `prompt` best, taken out; None where the slot does, which holds `held`.

        A better one has more of itself kept and more of the prompt read already, both; at least a quarter of itself.
        """
        if not prompt:
            return None
        shared = common_prefix(held, prompt)
        best_keep, best_similarity = share(shared, len(held)), share(shared, len(prompt))
        best = None
        for parked in self._states:
            shared = common_prefix(parked.tokens, prompt)
            keep, similarity = share(shared, len(parked.tokens)), share(shared, len(prompt))
            if keep >= _MIN_KEEP and best_keep < keep and best_similarity < similarity:
                best_keep, best_similarity, best = keep, similarity, parked
        if best is not None:
            self._states = [parked for parked in self._states if parked is not best]
        return best

    def trim(self) -> None:
        """Let the oldest states go until the limits hold."""
        while self.limit > 0 and self._states and self.size > self.limit:
            del self._states[0]
        most = self._n_ctx
        if self.limit > 0:
            per_token = max(np.float32(1), share(self.size, max(1, self.n_tokens)))
            most = max(most, int(np.float32(self.limit) / per_token))
        while self._states and self.n_tokens > most:
            del self._states[0]
