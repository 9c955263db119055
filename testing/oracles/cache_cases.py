"""What attention is compared on: sessions of one layer over a cache that grows, in every type the cache can have.

A step's rows are few or many, its context short or long, so that each of the reference's kernels is taken: a row at a
time, tiles of 64 rows, one row split over the threads from 512 cells on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from engine.ggml_types import GGMLType
from testing.oracles.draws import Draws, Floats
from testing.oracles.operation_cases import activations

CACHE_TYPES = (GGMLType.F16, GGMLType.Q8_0)
"""Types the cache can have."""

HEADS = ((3, 1, 64), (4, 2, 32), (2, 1, 96), (4, 2, 128), (1, 1, 160), (2, 1, 192), (1, 1, 256), (16, 4, 8), (2, 2, 80))
"""Query heads, key/value heads, dimensions of a head; rows are a multiple of 32."""

STEPS = ((0, 1), (1, 2), (3, 5), (8, 63), (71, 64), (135, 65), (200, 1), (201, 100), (301, 1))
LONG_STEPS = (*STEPS, (302, 209), (511, 1), (512, 1), (513, 70), (583, 1), (584, 128), (712, 1), (40, 3), (43, 1))
"""(position, rows); both sides of 512 cells, and at the end back to an earlier position."""


@dataclass(frozen=True, slots=True)
class Session:
    """Steps over one cache.

    Attributes:
        heads: query heads, key/value heads, and a head's dimensions.
        types: of keys and of values.
        values: "ordinary", "sharp" (scores far apart: many new maxima, weights that vanish), "edges" (rows that
            quantizers trip over) or "overflow" (those, and rows too large for half precision).
        n_threads: threads that compute, which decides bits where a row is split.
        steps: (position, rows) of each evaluation.
    """

    heads: tuple[int, int, int]
    types: tuple[GGMLType, GGMLType]
    values: str = "ordinary"
    n_threads: int = 2
    steps: Sequence[tuple[int, int]] = STEPS

    @property
    def name(self) -> str:
        """How a report and a record call it."""
        n_head, n_head_kv, size = self.heads
        length = "long" if len(self.steps) > len(STEPS) else "short"
        return f"{self.cache}-{n_head}:{n_head_kv}x{size}-{self.values}-{length}-t{self.n_threads}"

    @property
    def cache(self) -> str:
        """The types of keys and values."""
        return "/".join(kind.name.lower() for kind in self.types)

    @property
    def n_ctx(self) -> int:
        """Cells of the cache: a multiple of 256, as llama-server makes it."""
        return -(-max(position + n for position, n in self.steps) // 256) * 256

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return float(np.float32(1.0) / np.sqrt(np.float32(self.heads[2])))

    def rows(self) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values of every row of every step, one after the other: (rows, heads * size) each."""
        n_head, n_head_kv, size = self.heads
        return _rows(sum(n for _, n in self.steps), n_head * size, n_head_kv * size, self.values)


@functools.lru_cache(maxsize=32)
def _rows(n: int, q_width: int, kv_width: int, values: str) -> tuple[Floats, Floats, Floats]:
    if values in ("edges", "overflow"):
        made = [activations(n, width, "edges", seed).copy() for seed, width in enumerate((q_width, kv_width, kv_width))]
        for rows in made if values == "edges" else ():
            rows[np.abs(rows).max(axis=1) > 1e4] = np.float32(-1.5)
    else:
        draws = Draws("attention", n, q_width, kv_width)
        made = [draws.normal(n, width) for width in (q_width, kv_width, kv_width)]
        made[1][:, :: kv_width // 8] *= np.float32(8)  # keys have outliers, always in the same dimensions
        if values == "sharp":
            made[0] *= np.float32(16)
    q, k, v = made
    return q, k, v


def _sessions() -> Iterator[Session]:
    for types in product(CACHE_TYPES, CACHE_TYPES):
        for heads in HEADS:
            if all(heads[2] % kind.block_size == 0 for kind in types):
                yield Session(heads, types)
        for values in ("sharp", "edges", "overflow"):
            yield Session((3, 1, 64), types, values)
        for n_threads in (1, 2, 3):
            yield Session((3, 1, 64), types, n_threads=n_threads, steps=LONG_STEPS)


SESSIONS = tuple(_sessions())
"""Every session that is compared and on record, those of one cache together."""
