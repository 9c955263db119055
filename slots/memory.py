"""Memory that was freed goes back to the system; the C library would keep it for the next model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _trimmer() -> Callable[[int], object] | None:
    """glibc's `malloc_trim`; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


_TRIM = _trimmer()


def give_back() -> None:
    """Hand free memory of the heap to the system. Takes milliseconds; the GIL is free meanwhile."""
    if _TRIM is not None:
        _TRIM(0)
