"""Seeded inputs that are the same bytes anywhere: integers drawn from PCG64, and numbers made of them exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class Draws:
    """The raw words of PCG64, a stream that numpy promises not to change, seeded by whatever names the use."""

    def __init__(self, *seed: int | str) -> None:
        digest = hashlib.sha256(repr(seed).encode()).digest()
        self._bits = np.random.PCG64(int.from_bytes(digest[:16], "little"))

    def bytes(self, *shape: int) -> Bytes:
        """Any bytes."""
        n = int(np.prod(shape))
        words = np.asarray(self._bits.random_raw(-(-n // 8)), "<u8")
        return words.view(np.uint8)[:n].reshape(shape)

    def words(self, *shape: int) -> npt.NDArray[np.uint32]:
        """Any 32-bit numbers."""
        n = int(np.prod(shape))
        return self.bytes(4 * n).view("<u4").astype(np.uint32).reshape(shape)

    def pick(self, values: Sequence[int], n: int) -> npt.NDArray[np.uint32]:
        """n of `values`."""
        return np.asarray(values, np.uint32)[self.words(n) % len(values)]

    def integers(self, n: int, bits: int) -> npt.NDArray[np.int64]:
        """n integers of `bits` bits (at most 16), from 0 on."""
        return self.bytes(2 * n).view("<u2").astype(np.int64) & ((1 << bits) - 1)

    def halves(self, n: int, exponent: int, signs: str = "+") -> Bytes:
        """Half-precision numbers of 2^exponent to twice as much, (n, 2) bytes; one in 64 is zero or subnormal.

        Args:
            signs: "+", "-", or "+-" for either.
        """
        draw = self.integers(n, 16)
        normal = draw & 0x3FF | exponent + 15 << 10
        rare = np.where(draw & 1 == 0, 0, draw & 0x3FF)
        negative = self.integers(n, 1) if signs == "+-" else int(signs == "-")
        half = np.where(draw >> 10 == 0, rare, normal) | negative << 15
        return half.astype("<u2").view(np.uint8).reshape(n, 2)

    def floats(self, n: int, exponent: int) -> Floats:
        """Numbers of 11 bits, spread evenly over -2^exponent to 2^exponent."""
        return np.ldexp((self.integers(n, 11) - 1024).astype(np.float32), exponent - 10)

    def normal(self, *shape: int) -> Floats:
        """Bell-shaped numbers of deviation about 1: sums of eight 16-bit draws, exact in a float."""
        draws = self.words(*shape, 4)
        total = (draws >> 16).astype(np.int64) + (draws & 0xFFFF) - 0xFFFF
        return np.asarray(total.sum(axis=-1) / 2.0**16 * 1.25, np.float32)
