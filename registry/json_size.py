"""How much structure a JSON text has: reading it takes time and memory by its values, not by its bytes."""

from __future__ import annotations

from typing import Final

import numpy as np

MAX_CONTAINERS: Final = 100_000
"""Arrays and objects of a request at most."""

MAX_VALUES: Final = 1_000_000
"""Values of a request at most."""


def too_much_structure(
    text: bytes, what: str = "the body", *, containers: int = MAX_CONTAINERS, values: int = MAX_VALUES
) -> str | None:
    """Why a JSON text is not read, or None: it has too many arrays and objects, or too many values.

    Args:
        text: the JSON.
        what: it is called.
        containers: how many arrays and objects it may have.
        values: how many values it may have, no fewer than those.

    Counts in a few passes over the bytes, at the speed of memory. What the first look takes for structure may be inside
    strings, so the second leaves out what follows an odd number of quotes; other threads run meanwhile.
    """
    if len(text) <= 2 * containers or _excess(text, what, containers, values) is None:  # each takes two bytes
        return None
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if text.count(b'"') > 4 * values:  # each value may have a key
        return f"{what} has more than {values} values"
    letters = np.frombuffer(text, np.uint8)
    outside = np.cumsum(letters == ord('"'), dtype=np.uint8) & 1 == 0  # however often it begins anew at 0
    return _excess(letters[outside].tobytes(), what, containers, values)


def _excess(text: bytes, what: str, containers: int, values: int) -> str | None:
    if text.count(b"[") + text.count(b"{") > containers:
        return f"{what} has more than {containers} arrays and objects"
    if text.count(b",") >= values:
        return f"{what} has more than {values} values"
    return None
