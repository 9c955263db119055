"""The vocabulary as the infill sampler sees it; the sampler itself is `engine/kernels/sampler_infill.cpp`."""

from __future__ import annotations

import weakref
from typing import Protocol

from engine.errors import InvalidRequest
from engine.kernels import _kernels


class Vocabulary(Protocol):
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


_known: weakref.WeakKeyDictionary[Vocabulary, _kernels.InfillVocabulary] = weakref.WeakKeyDictionary()


def infill_vocabulary(vocabulary: Vocabulary) -> _kernels.InfillVocabulary:
    """The tokens by what begins what, kept for the vocabulary once computed.

    Raises:
        InvalidRequest: no token ends a turn or a text, so that the sampler could not end an answer. llama-server would
            abort at the first draw that wants to.
    """
    if vocabulary not in _known:
        end = vocabulary.eos if vocabulary.eot is None else vocabulary.eot
        if end is None:
            raise InvalidRequest("the infill sampler needs a token that ends an answer; this vocabulary has none")
        pieces = [vocabulary.piece(token) for token in range(vocabulary.n_vocab)]
        _known[vocabulary] = _kernels.InfillVocabulary(pieces, sorted(vocabulary.eog), end)
    return _known[vocabulary]
