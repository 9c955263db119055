"""Where a model's reasoning begins and ends, token by token, and its end by force when it has been long enough.

The rules are those of common/reasoning-budget.cpp: tokens after the marker that begins reasoning are counted; when
there have been enough of them, and no character is left cut, a message and the marker that ends it are forced, whatever
the model would say. A grammar that waits for its trigger does not look at reasoning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Tokens = tuple[int, ...]


class Vocabulary(Protocol):
    """What is needed of a tokenizer; `engine.tokenizer.Tokenizer` is one."""

    def piece(self, token: int, /, *, special: bool = False) -> bytes: ...
    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class ReasoningParams:
    """How reasoning is known and how long it may be.

    Attributes:
        limit: tokens of it at most, -1 for no limit.
        start: the tokens that begin it; nothing where there is none.
        ends: each of these ends it.
        forced: what is said when it has reached its limit.
    """

    limit: int = -1
    start: Tokens = ()
    ends: tuple[Tokens, ...] = ()
    forced: Tokens = ()


NO_REASONING = ReasoningParams()


def reasoning_from_request(
    fields: Mapping[str, Any], default: ReasoningParams, vocabulary: Vocabulary
) -> ReasoningParams:
    """The parameters of a request.

    Args:
        fields: llama-server's, `reasoning_budget_tokens`, `_start_tag`, `_end_tags` and `_message`; the message goes
            before the first end, and without one, be it empty, nothing is forced.
        default: its limit counts where the request has none.
        vocabulary: turns them into tokens.
    """

    def tokens(text: str) -> Tokens:
        return tuple(vocabulary.encode(text, add_special=False, parse_special=True))

    limit, message = fields.get("reasoning_budget_tokens"), fields.get("reasoning_budget_message")
    ends = tuple(tokens(tag) for tag in fields.get("reasoning_budget_end_tags") or () if tag)
    return ReasoningParams(
        limit=default.limit if limit is None else limit,
        start=tokens(fields.get("reasoning_budget_start_tag") or ""),
        ends=ends,
        forced=(*tokens(message), *ends[0]) if ends and message is not None else (),
    )


class State(Enum):
    """Where an answer is."""

    BEFORE = auto()
    COUNTING = auto()
    CUT_CHARACTER = auto()  # over its limit, but a character is not whole yet
    FORCING = auto()
    AFTER = auto()


class _Matcher:
    """Finds the longest of some sequences that ends with the newest token; what was found is not looked at again."""

    def __init__(self, sequences: Sequence[Tokens]) -> None:
        self._sequences = sorted({sequence for sequence in sequences if sequence}, key=len, reverse=True)
        self._seen: deque[int] = deque(maxlen=max(map(len, self._sequences), default=0))

    def advance(self, token: int) -> Tokens | None:
        self._seen.append(token)
        seen = tuple(self._seen)
        found = next((sequence for sequence in self._sequences if seen[-len(sequence) :] == sequence), None)
        if found is not None:
            self.reset()
        return found

    def reset(self) -> None:
        self._seen.clear()


class ReasoningBudget:
    """One answer's reasoning.

    Args:
        params: how it is known.
        vocabulary: knows which tokens leave a character cut.

    Attributes:
        state: where the answer is.
        ended_by: the marker that ended the reasoning, None while none has.
    """

    def __init__(self, params: ReasoningParams, vocabulary: Vocabulary) -> None:
        self._params = params
        self._vocabulary = vocabulary
        self._start, self._end = _Matcher([params.start]), _Matcher(params.ends)
        self._left = 0
        self._n_forced = 0
        self.state = State.BEFORE
        self.ended_by: Tokens | None = None

    @property
    def running(self) -> bool:
        """Whether the answer is in its reasoning."""
        return self.state not in (State.BEFORE, State.AFTER)

    def accept(self, token: int) -> None:
        """Take the answer's next token."""
        match self.state:
            case State.BEFORE | State.AFTER:
                if self._start.advance(token) is not None:
                    self._begin()
            case State.COUNTING | State.CUT_CHARACTER:
                self._count(token)
            case State.FORCING:
                ended_by = self._end.advance(token)
                self._n_forced += 1
                if self._n_forced >= len(self._params.forced):
                    self.state, self.ended_by = State.AFTER, ended_by

    def apply(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits to draw from, (n_vocab,): the same ones, or those of the one token that is forced."""
        if self.state is not State.FORCING or self._n_forced >= len(self._params.forced):
            return logits
        token = self._params.forced[self._n_forced]
        only = np.full_like(logits, -np.inf)
        only[token] = logits[token]
        return only

    def _begin(self) -> None:
        self._end.reset()
        self.ended_by = None
        self._left = self._params.limit
        self.state = State.COUNTING
        if self._left == 0:
            self._force()

    def _count(self, token: int) -> None:
        ended_by = self._end.advance(token)
        if ended_by is not None:
            self.state, self.ended_by = State.AFTER, ended_by
            return
        self._left -= 1
        if self._left == 0 or self.state is State.CUT_CHARACTER:
            if _leaves_no_cut(self._vocabulary.piece(token)):
                self._force()
            elif self.state is State.COUNTING:
                self.state = State.CUT_CHARACTER
                self._end.reset()

    def _force(self) -> None:
        self.state = State.FORCING
        self._n_forced = 0
        self._end.reset()


def _leaves_no_cut(piece: bytes) -> bool:
    """Whether a token's own bytes end in a whole character (common/unicode.cpp: `common_utf8_is_complete`)."""
    for n_bytes, byte in enumerate(reversed(piece[-4:]), 1):
        if byte & 0xC0 != 0x80:
            return n_bytes >= (4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1)
    return not piece
