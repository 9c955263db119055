"""What the steps between the products are compared on: rotary positions, attention, norms, the gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testing.oracles.draws import Draws, Floats

_CELLS = 256  # llama-server's caches show a multiple of so many cells


@dataclass(frozen=True, slots=True)
class RopeCase:
    """A table of angles: every `stride`-th position up to the end of a long context."""

    n_rot: int
    neox: bool = False
    freq_base: float = 10000.0
    freq_scale: float = 1.0
    factors: bool = False

    N_POSITIONS = 8192
    STRIDE = 37

    @property
    def name(self) -> str:
        """How a report and a record call it."""
        kind = "halves" if self.neox else "neighbours"
        return f"{self.n_rot}-{kind}-{self.freq_base:g}-{self.freq_scale:g}" + ("-factors" if self.factors else "")

    @property
    def positions(self) -> Sequence[int]:
        """The positions that are looked at."""
        return range(0, self.N_POSITIONS, self.STRIDE)

    def divisors(self) -> Floats | None:
        """A divisor for each pair, or none."""
        return Draws("factors", self.n_rot).floats(self.n_rot // 2, 2) + np.float32(5) if self.factors else None


def ropes() -> Iterator[RopeCase]:
    """Every table."""
    for n_rot in (2, 8, 64, 80, 128, 256):
        for base in (10000.0, 500000.0, 1000000.0):
            yield RopeCase(n_rot, freq_base=base)
        yield RopeCase(n_rot, neox=True)
        yield RopeCase(n_rot, freq_scale=0.125)
        yield RopeCase(n_rot, neox=True, freq_scale=1 / 3, factors=True)
        yield RopeCase(n_rot, freq_base=500000.0, factors=True)


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """n rows at positions n_past and on, over a half-precision cache that holds the n_past before them; rotated."""

    n_head: int
    n_head_kv: int
    head_size: int
    n_past: int
    n: int
    n_threads: int = 2
    neox: bool = False

    @property
    def name(self) -> str:
        """How a report and a record call it."""
        heads = f"{self.n_head}/{self.n_head_kv}x{self.head_size}{'-halves' if self.neox else ''}"
        return f"{heads}-{self.n_past}+{self.n}-t{self.n_threads}"

    @property
    def scale(self) -> float:
        """The factor on a query times a key."""
        return float(np.float32(1) / np.sqrt(np.float32(self.head_size)))

    def rows(self) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values of all positions, (n_past + n, heads, head_size), before the rotation."""
        draws = Draws("attention", self.n_head, self.n_head_kv, self.head_size, self.n_past + self.n)
        heads = (self.n_head, self.n_head_kv, self.n_head_kv)
        q, k, v = (draws.normal(self.n_past + self.n, count, self.head_size) for count in heads)
        return q, k, v

    def mask(self) -> npt.NDArray[np.float16]:
        """(n, cells): 0 where a row sees a cell, else -inf."""
        cells = -(-(self.n_past + self.n) // _CELLS) * _CELLS
        seen = np.arange(cells) <= np.arange(self.n_past, self.n_past + self.n)[:, None]
        return np.where(seen, np.float16(0), np.float16(-np.inf))


_HEADS = ((1, 1, 32), (4, 2, 64), (9, 3, 64), (8, 1, 128), (2, 2, 80), (4, 4, 8), (3, 1, 96), (2, 1, 256), (2, 1, 512))
_STRETCHES = ((0, 1), (0, 2), (0, 5), (0, 63), (0, 64), (0, 65), (0, 100), (31, 1), (255, 1), (256, 1), (300, 7))
_LONG = ((500, 64), (450, 70), (510, 1), (511, 1), (512, 1), (600, 1), (767, 1), (1000, 1), (600, 3), (700, 129))


def attentions() -> Iterator[AttentionCase]:
    """Every shape: few rows, tiles, one row over a short and a long context, which the threads split."""
    for heads in _HEADS:
        for past, n in (*_STRETCHES, *_LONG):
            yield AttentionCase(*heads, past, n)
    for n_threads in (1, 3, 4):
        for past, n in _LONG:
            yield AttentionCase(4, 2, 64, past, n, n_threads)
    for past, n in _STRETCHES:
        yield AttentionCase(4, 2, 64, past, n, neox=True)


@dataclass(frozen=True, slots=True)
class RowCase:
    """n rows of `cols` values, for a norm or as gates; `wide` for values beyond all that exp can take."""

    n: int
    cols: int
    eps: float = 2.0**-17
    wide: bool = False

    @property
    def name(self) -> str:
        """How a report and a record call it."""
        return f"{self.n}x{self.cols}-{'wide' if self.wide else f'{self.eps:g}'}"

    def rows(self) -> Floats:
        """Ordinary rows, and among them tiny ones, large ones and one of zeros."""
        if self.wide:
            return _wide(self.n * self.cols).reshape(self.n, self.cols)
        rows = Draws("rows", self.n, self.cols).normal(self.n, self.cols)
        for i, factor in enumerate((1.0, 2.0**-40, 0.0, 2.0**30, 2.0**-140)):
            rows[i :: len(rows) + 5] *= np.float32(factor)
        return rows

    def others(self) -> Floats:
        """What the gate lets through, (n, cols)."""
        return Draws("others", self.n, self.cols).normal(self.n, self.cols)

    def weight(self) -> Floats:
        """The norm's weight, (cols,)."""
        return Draws("weight", self.cols).normal(self.cols)


def _wide(n: int) -> Floats:
    """Every power of two of either sign, then n numbers in all from far below the range of exp to far above it."""
    powers = np.ldexp(np.float32(1), np.arange(-149, 120)).astype(np.float32)
    steps = (np.arange(n - 2 * len(powers)) % 3840 - 1920) / np.float32(16)
    return np.concatenate([powers, -powers, steps.astype(np.float32)])


def norms() -> Iterator[RowCase]:
    """Rows of every width modulo the lanes."""
    for cols in (32, 64, 96, 160, 576, 1536):
        for n in (1, 2, 6):
            yield RowCase(n, cols)
    yield RowCase(6, 576, 1e-6)


def gates() -> Iterator[RowCase]:
    """The same rows, and a wide range."""
    yield from norms()
    yield RowCase(10, 576, wide=True)
