"""How one vector is made of the rows of a text, and how long it is made: llama.cpp's pooling and normalization."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

_LARGEST_INT16 = 32760.0  # what the largest value becomes under the norm 0


class Pooling(StrEnum):
    """Which rows of a text make its embedding, in the order of `llama_pooling_type`."""

    NONE = "none"
    MEAN = "mean"
    CLS = "cls"
    LAST = "last"
    RANK = "rank"

    @property
    def splits(self) -> bool:
        """Whether a text may take several micro-batches: its last row alone sees what came before."""
        return self is Pooling.LAST


def normalized(vector: FloatArray, norm: int) -> FloatArray:
    """The vector divided by its norm (`common_embd_normalize`).

    Args:
        vector: (n,).
        norm: -1 leaves the vector as it is, 0 makes its largest magnitude 32760, 2 its Euclidean length 1, any other p
            the p-th root of its sum of p-th powers.
    """
    length = _length(vector, norm)
    return vector * np.float32(1.0 / length if length > 0.0 else 0.0)


def _length(vector: FloatArray, norm: int) -> float:
    if norm == -1:
        return 1.0
    magnitudes = np.abs(vector)
    if norm == 0:
        return float(np.fmax.reduce(magnitudes, initial=np.float32(0.0))) / _LARGEST_INT16
    if norm == 2:
        return math.sqrt(_sum((vector * vector).astype(np.float64)))
    powers = np.array([_power(value, norm) for value in magnitudes.tolist()])
    return _power(_sum(powers), 1.0 / norm)


def _sum(values: npt.NDArray[np.float64]) -> float:
    """The sum added up one by one, as no other order gives the bits."""
    return float(np.add.accumulate(values)[-1])


def _power(base: float, exponent: float) -> float:
    """The C library's pow, which has an infinity where Python has an exception."""
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):
        return math.inf
