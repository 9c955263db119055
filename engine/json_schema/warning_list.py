"""What a grammar does not hold of its schema, as short texts for the answer's receipt."""

from __future__ import annotations

_MOST = 50  # texts
_LONGEST = 200  # characters of a place or a keyword


class Warnings:
    """A bounded list of `PLACE: WHAT`, without repetitions."""

    __slots__ = ("_added", "_more", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._added = 0
        self._more = 0

    @property
    def full(self) -> bool:
        """Whether another text would only be counted, so that nobody need make it."""
        return self._added >= _MOST

    def add(self, place: str, what: str) -> None:
        """`what`, a keyword or a reason, is not held at `place`."""
        if self.full:
            self._more += 1
        else:
            self._texts[f"{_clipped(place)}: {_clipped(what)}"] = None
        self._added += 1

    def texts(self) -> tuple[str, ...]:
        """All of them, in the order of their coming; the last one counts those that found no place."""
        return (*self._texts, *((f"and {self._more} more",) if self._more else ()))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."
