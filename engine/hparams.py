"""The keys of a GGUF header that describe a model, read with their types checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import InvalidModelFile, UnplayableModel, shown
from engine.pooling import Pooling

_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = 1.0 / _LARGEST  # below it the reciprocal is infinite


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
        """A number that is finite in single precision, as the engine has it."""
        value = self._get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise self._missing(name, "a number")
        return float(value)

    def positive(self, name: str, default: float | None = None, *, or_zero: bool = False) -> float:
        """A finite number above 0; or 0, if that has a meaning."""
        value = self.number(name, default)
        if value < 0.0 or (np.float32(value) == 0.0 and not or_zero):
            raise UnplayableModel(f"{self._architecture}.{name} is {value}, not positive")
        return value

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
            raise UnplayableModel(f"{self._architecture}.{name} is {shown(value)}, not {wanted}: {why}")

    def rope_scaling(self) -> RopeScaling:
        """How rotary angles are stretched, by the defaults of llama-model.cpp and llama-context.cpp."""
        kind = self._get("rope.scaling.type")
        if kind is not None and not (isinstance(kind, str) and kind in ("none", "linear", "yarn")):
            raise UnplayableModel(f"{self._architecture}.rope.scaling.type is {shown(kind)}, which is not played")
        n_ctx_train = self.integer("context_length")
        stated = self._get("rope.scaling.original_context_length")
        unstated = isinstance(stated, int) and stated == 0
        return RopeScaling(
            freq_base=self.positive("rope.freq_base", 10000.0),
            freq_scale=1.0 if kind == "none" else self._rope_scale(kind == "yarn"),
            yarn=kind == "yarn",
            n_ctx_orig=n_ctx_train if unstated else self.integer("rope.scaling.original_context_length", n_ctx_train),
            attn_factor=self.number("rope.scaling.attn_factor", 1.0),
        )

    def _rope_scale(self, yarn: bool) -> float:
        """One over the factor, in single precision; 1 where the factor is 0 or missing."""
        name = "rope.scaling.factor" if self._get("rope.scaling.factor") is not None else "rope.scale_linear"
        factor = np.float32(self.positive(name, 0.0, or_zero=True) if yarn else self.number(name, 0.0))
        if factor == 0.0:
            return 1.0
        if abs(factor) < _SMALLEST:
            raise UnplayableModel(f"{self._architecture}.{name} is {factor}, too small to divide by")
        return float(np.float32(1.0) / factor)

    def pooling(self) -> Pooling:
        """How the model wants its rows pooled: not at all, unless the file says."""
        kinds = list(Pooling)
        value = self._get("pooling_type")
        if value is None:
            return Pooling.NONE
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < len(kinds):
            raise self._missing("pooling_type", f"a number from 0 to {len(kinds) - 1}")
        return kinds[max(value, 0)]

    def n_labels(self) -> int:
        """How many scores a classifier gives: one for each label that the file names, else one."""
        labels = self._get("classifier.output_labels")
        if labels is None:
            return 1
        if not isinstance(labels, list):
            raise self._missing("classifier.output_labels", "an array of strings")
        return len(labels) or 1

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary; as llama.cpp, whatever `vocab_size` says."""
        tokens = self._metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list):
            raise InvalidModelFile("tokenizer.ggml.tokens is missing or no array of strings")
        return len(tokens)
