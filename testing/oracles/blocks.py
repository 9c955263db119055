"""How a block of each quantized type is laid out, as far as random ones need it: where its scales are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.gguf import GGMLType
from testing.oracles.draws import Bytes, Draws


@dataclass(frozen=True, slots=True)
class Half:
    """A scale in half precision: 2^exponent to twice as much makes weights about a tenth large."""

    exponent: int
    signs: str = "+"


_EITHER: Final = "+-"  # as llama-quantize leaves them, and where quants are not centred

LAYOUTS: Final[Mapping[GGMLType, Sequence[Half | int]]] = {
    GGMLType.Q4_0: (Half(-6, _EITHER), 16),
    GGMLType.Q4_1: (Half(-6), Half(-3, "-"), 16),
    GGMLType.Q5_0: (Half(-7, _EITHER), 20),
    GGMLType.Q5_1: (Half(-7), Half(-3, "-"), 20),
    GGMLType.Q8_0: (Half(-10), 32),
    GGMLType.Q2_K: (16, 64, Half(-8, _EITHER), Half(-8, _EITHER)),
    GGMLType.Q3_K: (32, 64, 12, Half(-9, _EITHER)),
    GGMLType.Q4_K: (Half(-12), Half(-9), 12, 128),
    GGMLType.Q5_K: (Half(-13), Half(-9), 12, 32, 128),
    GGMLType.Q6_K: (128, 64, 16, Half(-14, _EITHER)),
    GGMLType.IQ4_NL: (Half(-10, _EITHER), 16),
    GGMLType.IQ4_XS: (Half(-14, _EITHER), 2, 4, 128),
    GGMLType.Q1_0: (Half(-4), 16),
    GGMLType.Q2_0: (Half(-4, _EITHER), 16),
}
"""The parts of a block in their order: scales, and how many bytes of quants or small scales, which may be any."""

FLOAT_TYPES: Final = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
WANTED: Final = (*FLOAT_TYPES, *LAYOUTS)
"""The weight types that are promised."""


def scale_offsets(kind: GGMLType) -> tuple[int, ...]:
    """Where the half-precision scales lie in a block of a type that is in `LAYOUTS`."""
    offsets, at = [], 0
    for part in LAYOUTS[kind]:
        if isinstance(part, Half):
            offsets.append(at)
        at += 2 if isinstance(part, Half) else part
    return tuple(offsets)


def small_weights(draws: Draws, kind: GGMLType, n: int) -> Bytes:
    """n blocks of a type that is in `WANTED`, (n, block bytes): weights around zero, about a tenth large."""
    if kind is GGMLType.F32:
        return draws.floats(n, -2).astype("<f4").view(np.uint8).reshape(n, 4)
    if kind is GGMLType.F16:
        return draws.floats(n, -2).astype("<f2").view(np.uint8).reshape(n, 2)
    if kind is GGMLType.BF16:
        return (draws.floats(n, -2).view(np.uint32) >> 16).astype("<u2").view(np.uint8).reshape(n, 2)
    parts = [
        draws.halves(n, part.exponent, part.signs) if isinstance(part, Half) else draws.bytes(n, part)
        for part in LAYOUTS[kind]
    ]
    return np.hstack(parts)
