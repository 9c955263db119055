"""Weights on their way, judged by their header as soon as that is there: what is not played is not fetched whole."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from registry.errors import RegistryError
from registry.transfer.errors import NotPlayable
from registry.transfer.partial import PartialFile
from registry.transfer.ticks import TICK

Check = Callable[[Path, bool], bool]
"""What weights must pass beside their digest. Given the file, and whether it is whole or the beginning of one, it says
whether the header is all there; raises `NotPlayable` when they are not played."""

_FIRST: Final = 1 << 20
"""Bytes that are looked at first; where the header goes on behind them, twice as many, and so on."""


async def judge(file: PartialFile, check: Check) -> None:
    """Waits for the header of a file that is fetched meanwhile, and has it judged.

    Raises:
        NotPlayable: what is there says that the file is not played.
    """
    n_bytes = _FIRST
    # With half of a file all of its last tensor is missing, which some rules go by. The first part comes in one run.
    while n_bytes <= min(file.size // 2, file.parts[0].size if file.parts else 0):
        beginning = await asyncio.to_thread(file.beginning, n_bytes)
        if beginning is None:
            await asyncio.sleep(TICK)
        elif await asyncio.to_thread(_is_judged, beginning, check):
            return
        else:
            n_bytes *= 2


def _is_judged(beginning: bytes, check: Check) -> bool:
    """Whether the header is all there, and played."""
    try:
        with tempfile.NamedTemporaryFile(prefix="bankml-header-") as file:
            file.write(beginning)
            file.flush()
            return check(Path(file.name), False)
    except NotPlayable:
        raise
    except (OSError, RegistryError):  # there will be another look when the file is whole
        return True
