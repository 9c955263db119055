"""The order in which the reference goes through rules by their names: that of libstdc++'s `std::unordered_map`.

It decides which of two schemas gets a name that both want, so the grammar depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_BUCKETS: Final = (1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229)
"""How many buckets the map has, one step after the other: it takes as many names as it has buckets."""

_SEED: Final = 0xC70F6907
_MUL: Final = 0xC6A4A7935BD1E995
_MASK: Final = (1 << 64) - 1


def map_order(names: Iterable[str]) -> list[str]:
    """The names, each given once, in the order of a map that they were put into one by one."""
    sizes = iter(_BUCKETS)
    size = next(sizes)
    buckets: dict[int, list[str]] = {}
    for count, name in enumerate(names):
        if count == 0 or count >= size:
            size = next(sizes, size)
            known, buckets = _in_order(buckets), {}
            for one in known:
                buckets.setdefault(_hash(one) % size, []).append(one)
        buckets.setdefault(_hash(name) % size, []).append(name)
    return _in_order(buckets)


def _in_order(buckets: dict[int, list[str]]) -> list[str]:
    """The last bucket that came to be is first, and so is the last name of each."""
    return [name for bucket in reversed(buckets.values()) for name in reversed(bucket)]


def _hash(text: str) -> int:
    """MurmurHash64A as `std::hash` has it."""
    data = text.encode()
    value = _SEED ^ (len(data) * _MUL & _MASK)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        value = (value ^ (_mixed(int.from_bytes(data[at : at + 8], "little") * _MUL & _MASK) * _MUL & _MASK)) * _MUL
        value &= _MASK
    if len(data) > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MUL & _MASK
    return _mixed(_mixed(value) * _MUL & _MASK)


def _mixed(value: int) -> int:
    return value ^ (value >> 47)
