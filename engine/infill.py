"""The vocabulary as the infill sampler sees it; the sampler itself is `engine/kernels/sampler_infill.cpp`."""

from __future__ import annotations

import weakref
from typing import Protocol

from engine.errors import InvalidRequest
from engine.kernels import _kernels


class Words(Protocol):
    """What the infill sampler needs of a tokenizer."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def eos(self) -> int | None: ...
    @property
    def eot(self) -> int | None: ...
    @property
    def eog(self) -> frozenset[int]: ...
    def piece(self, token: int, /, *, special: bool = False) -> bytes: ...


_known: weakref.WeakKeyDictionary[Words, _kernels.InfillVocabulary] = weakref.WeakKeyDictionary()


def infill_vocabulary(words: Words) -> _kernels.InfillVocabulary:
    """The tokens by what begins what, kept for the vocabulary once computed.

    Raises:
        InvalidRequest: no token ends a turn or a text, so that the sampler could not end an answer. llama-server would
            abort at the first draw that wants to.
    """
    if words not in _known:
        end = words.eos if words.eot is None else words.eot
        if end is None:
            raise InvalidRequest("the infill sampler needs a token that ends an answer; this vocabulary has none")
        pieces = [words.piece(token) for token in range(words.n_vocab)]
        _known[words] = _kernels.InfillVocabulary(pieces, sorted(words.eog), end)
    return _known[words]
