"""The keys of a GGUF header that describe a model, read with their types checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.errors import InvalidModelFile, UnplayableModel


class Header:
    """The keys of one architecture.

    Args:
        metadata: a GGUF file's metadata.
        architecture: the prefix of its keys, `general.architecture`.
    """

    def __init__(self, metadata: Mapping[str, Any], architecture: str) -> None:
        self._metadata = metadata
        self._architecture = architecture

    def _get(self, name: str) -> Any:
        return self._metadata.get(f"{self._architecture}.{name}")

    def _missing(self, name: str, what: str) -> UnplayableModel:
        return UnplayableModel(f"{self._architecture}.{name} is not {what}")

    def integer(self, name: str, default: int | None = None) -> int:
        """A positive integer."""
        value = self._get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
            raise self._missing(name, "a positive integer")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise self._missing(name, "a number")
        return float(value)

    def refuse(self, name: str, why: str) -> None:
        """Raises UnplayableModel if the key is there and not zero."""
        value = self._get(name)
        if isinstance(value, np.ndarray) or value:
            raise UnplayableModel(f"{self._architecture}.{name} is set: {why}, which is not played")

    def rope_scale(self) -> float:
        """The factor on rotary angles: 1 / `rope.scaling.factor` for linear scaling, else 1 (llama-model.cpp)."""
        kind = self._get("rope.scaling.type")
        if kind is not None and not (isinstance(kind, str) and kind in ("none", "linear")):
            raise UnplayableModel(f"{self._architecture}.rope.scaling.type is {kind!r}, which is not played")
        factor = self.number("rope.scaling.factor", self.number("rope.scale_linear", 0.0))
        if factor == 0.0 or kind == "none":
            return 1.0
        return float(np.float32(1.0) / np.float32(factor))

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        if self._get("vocab_size") is not None:
            return self.integer("vocab_size")
        tokens = self._metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list):
            raise InvalidModelFile("tokenizer.ggml.tokens is missing or no array of strings")
        return len(tokens)
