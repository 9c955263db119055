"""What a parser says of a text: the kinds of matches, and the parts it named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

FAIL: Final = 0
"""The input is not what is wanted."""
MATCH: Final = 1
PARTIAL: Final = 2
"""The input ends before it could be told; all of it so far is what is wanted."""

Outcome = tuple[int, int]
"""A kind, and where the match ends."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A tagged part of the input.

    Attributes:
        tag: what it is.
        text: the part.
        inside: the tagged parts within it.
        partial: it is not whole yet.
    """

    tag: str
    text: str
    inside: tuple[Capture, ...] = ()
    partial: bool = False

    def walk(self) -> Iterator[Capture]:
        """This capture and those within, outer ones first."""
        yield self
        for capture in self.inside:
            yield from capture.walk()


class Result(NamedTuple):
    """The outcome of a parser at one position.

    Attributes:
        kind: `FAIL`, `MATCH` or `PARTIAL`.
        end: where the match ends; of a failure, where it was noticed, roughly.
        captures: the outermost tagged parts, in order; none of a failure.
    """

    kind: int
    end: int
    captures: tuple[Capture, ...] = ()
