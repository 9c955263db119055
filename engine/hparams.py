"""The keys of a GGUF header that describe a model, read with their types checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import InvalidModelFile, UnplayableModel


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary angles are made and stretched; see engine/kernels/rope.h."""

    freq_base: float = 10000.0
    freq_scale: float = 1.0
    yarn: bool = False
    n_ctx_orig: int = 0
    attn_factor: float = 1.0


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

    def integer_of_layers(self, name: str, n_layer: int, default: int | None = None) -> int:
        """A positive integer, alone or once for each layer."""
        value = self._get(name)
        if not isinstance(value, np.ndarray):
            return self.integer(name, default)
        if value.size != n_layer or not np.issubdtype(value.dtype, np.integer) or not 0 < int(value[0]) < 2**31:
            raise self._missing(name, f"a positive integer or {n_layer} of them")
        if (value != value[0]).any():
            raise UnplayableModel(f"{self._architecture}.{name} is not the same for all layers, which is not played")
        return int(value[0])

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

    def require(self, name: str, wanted: int, why: str, default: int | None = None) -> None:
        """Raises UnplayableModel if the key, or the default where it is missing, is another value."""
        value = self._get(name)
        value = default if value is None else value
        if value is not None and (type(value) is not type(wanted) or value != wanted):
            raise UnplayableModel(f"{self._architecture}.{name} is {value}, not {wanted}: {why}")

    def rope_scaling(self) -> RopeScaling:
        """How rotary angles are stretched, by the defaults of llama-model.cpp and llama-context.cpp."""
        kind = self._get("rope.scaling.type")
        if kind is not None and not (isinstance(kind, str) and kind in ("none", "linear", "yarn")):
            raise UnplayableModel(f"{self._architecture}.rope.scaling.type is {kind!r}, which is not played")
        factor = self.number("rope.scaling.factor", self.number("rope.scale_linear", 0.0))
        freq_base = self.number("rope.freq_base", 10000.0)
        for name, value in (("freq_base", freq_base), ("scaling.factor", factor if kind == "yarn" else 0.0)):
            if value < 0.0:
                raise UnplayableModel(f"{self._architecture}.rope.{name} is {value}, not positive")
        stretched = factor != 0.0 and kind != "none"
        n_ctx_train = self.integer("context_length")
        unstated = self._get("rope.scaling.original_context_length") == 0
        return RopeScaling(
            freq_base=freq_base,
            freq_scale=float(np.float32(1.0) / np.float32(factor)) if stretched else 1.0,
            yarn=kind == "yarn",
            n_ctx_orig=n_ctx_train if unstated else self.integer("rope.scaling.original_context_length", n_ctx_train),
            attn_factor=self.number("rope.scaling.attn_factor", 1.0),
        )

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary; as llama.cpp, whatever `vocab_size` says."""
        tokens = self._metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list):
            raise InvalidModelFile("tokenizer.ggml.tokens is missing or no array of strings")
        return len(tokens)
