"""Texts as vectors: tokens in, the rows of the last norm out, pooled as llama.cpp pools them.

Nothing is sampled and no logits are made. The keys and values stay in the cache, as those of any prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from engine.errors import Cancelled, ContextOverflow, InputOverflow, InputTooLarge, InvalidRequest
from engine.generation import never
from engine.kernels import mean_rows
from engine.model import ModelOptions
from engine.pooling import FloatArray, Pooling


class Embeddable(Protocol):
    """What is needed of `engine.model.Model`."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def n_ubatch(self) -> int: ...
    @property
    def options(self) -> ModelOptions: ...
    def evaluate(self, tokens: Sequence[int], position: int, *, output: bool) -> None: ...
    def rows(self, tokens: Sequence[int], position: int) -> FloatArray: ...
    def rank(self, rows: FloatArray) -> FloatArray: ...


def check_input(model: Embeddable, tokens: Sequence[int], pooling: Pooling) -> None:
    """Whether a text can be embedded.

    Raises:
        InvalidRequest: it is empty, or a token is not in the vocabulary.
        InputTooLarge: it has more tokens than a micro-batch, and its pooling needs all of them at once.
        ContextOverflow: it does not fit the context.
    """
    if not tokens:
        raise InvalidRequest("Input content cannot be empty")
    if min(tokens) < 0 or max(tokens) >= model.n_vocab:
        raise InvalidRequest("Prompt contains invalid tokens")
    if pooling.splits:
        if len(tokens) >= model.n_ctx:
            raise ContextOverflow(len(tokens), model.n_ctx)
        return
    if len(tokens) > model.n_ubatch:
        raise InputTooLarge(len(tokens), model.n_ubatch)
    if len(tokens) > model.n_ctx:
        raise InputOverflow(len(tokens), model.n_ctx)


def embed(
    model: Embeddable,
    tokens: Sequence[int],
    pooling: Pooling,
    *,
    cached: list[int],
    n_past: int = 0,
    cancelled: Callable[[], bool] = never,
) -> FloatArray:
    """The embedding of a text, not normalized (`engine.pooling.normalized`).

    Args:
        model: its KV cache holds `cached`.
        tokens: the text.
        pooling: which rows make the embedding.
        cached: the slot's tokens. Says what the KV cache holds at any time, whatever ends the work.
        n_past: how many tokens of the text `cached` starts with and are not computed anew, for a pooling that splits.
        cancelled: asked before each micro-batch.

    Returns:
        float32 of shape (n_tokens, n_embd) without pooling, (n_labels,) of a reranker, else (n_embd,); the caller's.

    Raises:
        Cancelled: `cancelled()` turned true.
        What `check_input` raises.
    """
    check_input(model, tokens, pooling)
    if n_past and not (pooling.splits and n_past < len(tokens) and n_past <= len(cached)):
        raise ValueError(f"n_past is {n_past} with {len(tokens)} tokens and {len(cached)} cached ones")
    del cached[n_past:]
    for start, end in _micro_batches(n_past, len(tokens), model.options):
        if cancelled():
            raise Cancelled("cancelled while embedding")
        piece = tokens[start:end]
        if end < len(tokens):
            model.evaluate(piece, start, output=False)
        else:
            rows = model.rows(piece, start)
        cached.extend(piece)
    return _pooled(model, rows, pooling)


def _micro_batches(n_past: int, n_tokens: int, options: ModelOptions) -> Iterator[tuple[int, int]]:
    """Starts and ends of what is evaluated at once: batches of `n_batch`, each cut into micro-batches of `n_ubatch`."""
    for batch in range(n_past, n_tokens, options.n_batch):
        batch_end = min(batch + options.n_batch, n_tokens)
        for start in range(batch, batch_end, options.n_ubatch):
            yield start, min(start + options.n_ubatch, batch_end)


def _pooled(model: Embeddable, rows: FloatArray, pooling: Pooling) -> FloatArray:
    match pooling:
        case Pooling.NONE:
            return rows.copy()
        case Pooling.MEAN:
            return mean_rows(model.options.isa, rows)
        case Pooling.CLS:
            return np.array(rows[0], dtype=np.float32)
        case Pooling.LAST:
            return np.array(rows[-1], dtype=np.float32)
        case Pooling.RANK:
            return model.rank(rows)
