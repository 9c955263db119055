"""Where DRY starts anew: its sequence breakers as tokens of a vocabulary, by llama-server b11192's rule."""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from typing import Protocol

_BREAKER_BYTES = 40  # the reference cuts longer sequence breakers
_BREAKER_TAIL = 20  # and the tokens that continue one
_N_KEPT = 16  # lists of breakers whose tokens are kept

Breaker = tuple[int, list[int]]
"""A head token, and the tokens that must follow it."""


class Vocabulary(Protocol):
    """What is needed of a tokenizer; `engine.tokenizer.Tokenizer` is one."""

    @property
    def n_vocab(self) -> int: ...
    def detokenize(self, tokens: Sequence[int], /, *, special: bool = True) -> bytes: ...
    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...


_breakers_of: weakref.WeakKeyDictionary[Vocabulary, dict[tuple[str, ...], list[Breaker]]] = weakref.WeakKeyDictionary()


def dry_breakers(vocabulary: Vocabulary, words: tuple[str, ...]) -> list[Breaker]:
    """DRY's restart sequences, kept for the vocabulary once computed.

    A token that contains a breaker is a restart by itself. One that ends in the first part of a breaker is one when
    the tokens of the rest follow. As llama.cpp's `get_overlapping_token_sequences`.
    """
    kept = _breakers_of.setdefault(vocabulary, {})
    found = kept.get(words)
    if found is None:
        pieces = [vocabulary.detokenize((token,), special=True) for token in range(vocabulary.n_vocab)]
        breakers = (word.encode()[:_BREAKER_BYTES] for word in words if word)
        found = [sequence for word in breakers for sequence in _restarts(vocabulary, pieces, word)]
        if len(kept) >= _N_KEPT:
            kept.clear()
        kept[words] = found
    return found


def _restarts(vocabulary: Vocabulary, pieces: list[bytes], word: bytes) -> list[Breaker]:
    found: list[Breaker] = []
    parts = [word[:length] for length in range(1, len(word))]
    tails: dict[int, list[int]] = {}
    for token, piece in enumerate(pieces):
        if word in piece:
            found.append((token, []))
            continue
        for part in parts:
            if piece.endswith(part):
                if len(part) not in tails:
                    rest = _lossy(word[len(part) :])
                    ids = vocabulary.encode(rest, add_special=False, parse_special=False)
                    tails[len(part)] = ids[:_BREAKER_TAIL]
                found.append((token, tails[len(part)]))
    return found


def _lossy(data: bytes) -> str:
    """UTF-8 as llama.cpp's tokenizer reads it: each byte that is not part of a character becomes U+FFFD."""
    return re.sub("[\udc80-\udcff]", "\ufffd", data.decode("utf-8", "surrogateescape"))
