"""What whole models are compared on: prompts around every boundary that decides a kernel, decoding, a cache kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engine.model import Model, ModelOptions
from testing.oracles.draws import Draws

Logits = npt.NDArray[np.float32]
N_CTX = 1024


class Player(Protocol):
    """Ours and the reference's: `reference_model.Oracle` says what each call does."""

    n_vocab: int

    def prompt(self, tokens: Sequence[int], position: int = 0) -> Logits: ...
    def decode(self, token: int) -> Logits: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Flags of llama-server that decide bits, under the names both sides take them by."""

    name: str = "default"
    flags: Mapping[str, Any] = field(default_factory=dict)


SETTINGS = (
    Settings(),
    Settings("-t 1", {"n_threads": 1}),
    Settings("-t 3", {"n_threads": 3}),
    Settings("-ub 32", {"n_ubatch": 32}),
    Settings("-b 100 -ub 64", {"n_batch": 100, "n_ubatch": 64}),
)
QUANTIZED_CACHE = Settings("-ctk q8_0 -ctv q8_0", {"cache_type_k": "q8_0", "cache_type_v": "q8_0"})
CACHES = (
    QUANTIZED_CACHE,
    Settings("-ctk q8_0", {"cache_type_k": "q8_0"}),
    Settings("-ctv q8_0", {"cache_type_v": "q8_0"}),
)


def settings_of(model: str) -> Sequence[Settings]:
    """The settings a small model is tried under: both types of cache, and one model under all."""
    return (*SETTINGS, *CACHES) if model == "llama-mixed" else (SETTINGS[0], QUANTIZED_CACHE)


@dataclass(frozen=True, slots=True)
class Script:
    """What is asked of a model.

    Attributes:
        lengths: prompts, each from an empty cache.
        n_decode: tokens decoded after each.
        n_more: tokens of the prompt that then follows on the first half of that cache.
    """

    lengths: Sequence[int]
    n_decode: int = 4
    n_more: int = 23

    def play(self, model: Player) -> Iterator[tuple[str, Logits]]:
        """The logits at each point, with its name."""
        tokens = seeded_tokens(model.n_vocab)
        for n in self.lengths:
            yield f"prompt {n}", model.prompt(tokens[:n])
            for i in range(self.n_decode):
                yield f"prompt {n}, then {i + 1}", model.decode(tokens[n + i])
            half = (n + 1) // 2
            more = tokens[-self.n_more :]
            yield f"prompt {n}, {self.n_more} more from {half}", model.prompt(more, half)


WHOLE = Script((1, 2, 5, 17, 100, 300, 600))
"""For the fast path: alone, tiles broken and whole, the first token split over the threads, two micro-batches."""
SMALL = Script((1, 2, 5, 70, 530), 2)
"""For small models, on both paths."""
EDGES = Script((63, 64, 65, 130, 250, 505, 513), 10)
"""For the architectures, on the fast path: each number of rows, and of cells, from which another kernel runs."""
SHORT = Script((1, 6), 1, 5)
"""For plain C over a real model, which takes half a second a token."""


def seeded_tokens(n_vocab: int) -> list[int]:
    """Tokens of a vocabulary, the same for each of its size."""
    draws = Draws("tokens", n_vocab).words(N_CTX)
    return [int(draw) for draw in draws % n_vocab]


class EngineModel:
    """Our engine behind the calls of the oracle.

    Args:
        isa: the code path.
        flags: fields of `ModelOptions`.
    """

    def __init__(self, path: Path, isa: str, flags: Mapping[str, Any]) -> None:
        options: dict[str, Any] = {"n_ctx": N_CTX, "n_threads": 2, **flags}
        self._model = Model.open(path, ModelOptions(isa=isa, **options))
        self.n_vocab = self._model.n_vocab
        self._n_past = 0

    def prompt(self, tokens: Sequence[int], position: int = 0) -> Logits:
        """As llama-server hands a prompt over: batches, each in micro-batches."""
        options = self._model.options
        n_ubatch = min(options.n_ubatch, options.n_batch)
        for start in range(0, len(tokens), options.n_batch):
            end = min(start + options.n_batch, len(tokens))
            for at in range(start, end, n_ubatch):
                piece = tokens[at : min(at + n_ubatch, end)]
                self._model.evaluate(piece, position + at, output=at + len(piece) == len(tokens))
        self._n_past = position + len(tokens)
        return self._model.logits.copy()

    def decode(self, token: int) -> Logits:
        self._model.evaluate([token], self._n_past, output=True)
        self._n_past += 1
        return self._model.logits.copy()

    def close(self) -> None:
        self._model.close()
