"""A grammar in the reference's libllama: which tokens it lets come next."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from testing.oracles.reference_library import load
from testing.oracles.reference_vocabulary import ReferenceVocabulary

_P, _I32, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t
_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class _TokenDataArray(ctypes.Structure):
    _fields_ = [("data", _P), ("size", _SIZE), ("selected", ctypes.c_int64), ("sorted", ctypes.c_bool)]


_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "llama_sampler_init_grammar": (_P, [_P, _TEXT, _TEXT]),
    "llama_sampler_init_grammar_lazy_patterns": (
        _P,
        [_P, _TEXT, _TEXT, ctypes.POINTER(_TEXT), _SIZE, ctypes.POINTER(_I32), _SIZE],
    ),
    "llama_sampler_apply": (None, [_P, ctypes.POINTER(_TokenDataArray)]),
    "llama_sampler_accept": (None, [_P, _I32]),
    "llama_sampler_free": (None, [_P]),
}


class ReferenceGrammar:
    """A grammar over a vocabulary, at the place that the accepted tokens led to.

    The library ends the process where ours raises: accept only tokens that ours accepts.
    """

    def __init__(self, sampler: int, library: Any, n_vocab: int) -> None:
        self._sampler = sampler
        self._lib = library
        self._candidates = np.zeros(n_vocab, _TOKEN_DATA)

    @classmethod
    def of(
        cls, vocabulary: ReferenceVocabulary, text: str, triggers: tuple[Sequence[str], Sequence[int]] | None = None
    ) -> Self | None:
        """The grammar, lazy with triggers (patterns, tokens); None where the reference refuses it."""
        library = load()
        for name, (result, arguments) in _CALLS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        with _quiet():
            if triggers is None:
                sampler = library.llama_sampler_init_grammar(vocabulary.handle, text.encode(), b"root")
            else:
                patterns = (_TEXT * len(triggers[0]))(*(pattern.encode() for pattern in triggers[0]))
                tokens = (_I32 * len(triggers[1]))(*triggers[1])
                sampler = library.llama_sampler_init_grammar_lazy_patterns(
                    vocabulary.handle, text.encode(), b"root", patterns, len(patterns), tokens, len(tokens)
                )
        return cls(sampler, library, vocabulary.n_vocab) if sampler else None

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which tokens may come next, (n_vocab,)."""
        self._candidates["id"] = np.arange(len(self._candidates))
        self._candidates["logit"] = 0
        data = self._candidates.ctypes.data
        array = _TokenDataArray(data, len(self._candidates), -1, False)
        self._lib.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return np.asarray(self._candidates["logit"] == 0)

    def accept(self, token: int) -> None:
        self._lib.llama_sampler_accept(self._sampler, token)

    def close(self) -> None:
        self._lib.llama_sampler_free(self._sampler)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the library prints about a grammar that it refuses."""
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
