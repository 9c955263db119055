"""Markers in rendered prompts (`<think>`, `[TOOL_CALLS]`, ...), and what two prompts differ in, cut at markers.

The rules are those of llama-server b11192's `chat-auto-parser-helpers.cpp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine.chat_formats.peg import SPACE


class Segment(NamedTuple):
    """A piece of a text: a marker (`<...>` or `[...]`) or what stands between markers."""

    is_marker: bool
    text: str


def trim(text: str) -> str:
    """The text without the white space around it."""
    return text.strip(SPACE)


def segments(text: str) -> list[Segment]:
    """The text in pieces; a marker that never closes is text to the end."""
    found: list[Segment] = []
    done = 0
    while done < len(text):
        starts = [start for start in (text.find("<", done), text.find("[", done)) if start >= 0]
        start = min(starts, default=len(text))
        if start > done:
            found.append(Segment(False, text[done:start]))
        if start == len(text):
            break
        end = text.find(">" if text[start] == "<" else "]", start)
        found.append(Segment(end >= 0, text[start : end + 1] if end >= 0 else text[start:]))
        done = end + 1 if end >= 0 else len(text)
    return found


def visible(pieces: list[Segment]) -> list[Segment]:
    """The segments that are more than white space."""
    return [piece for piece in pieces if trim(piece.text)]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two texts as what they share at the start and at the end, and what each has of its own between."""

    prefix: str = ""
    suffix: str = ""
    left: str = ""
    right: str = ""


class _Side:
    """The segments of one text that are not yet known to be shared: from `first` to `last`, the last one included.

    Attributes:
        gone: the last one is shared too.
    """

    def __init__(self, text: str) -> None:
        self.pieces = segments(text)
        self.first, self.last, self.gone = 0, len(self.pieces) - 1, False

    @property
    def single(self) -> bool:
        return self.first == self.last

    @property
    def head(self) -> Segment:
        return self.pieces[self.first]

    @property
    def tail(self) -> Segment:
        return self.pieces[self.last]

    def drop_tail(self) -> None:
        """Count the last segment as shared."""
        if self.single:
            self.gone = True
        else:
            self.last -= 1

    def rest(self) -> str:
        """What is not shared."""
        return "".join(piece.text for piece in self.pieces[self.first : self.last + (not self.gone)])


def difference(left: str, right: str) -> Difference:
    """What two texts share and what they do not, cut at markers where they differ in markers.

    Segments are compared from both ends at once, then what is left of text is compared by characters. The difference
    found is not always the shortest, but always the reference's.
    """
    one, other = _Side(left), _Side(right)
    if not one.pieces:
        return Difference(right=right)
    if not other.pieces:
        return Difference(left=left)
    prefix, suffix = _shared_segments(one, other)
    text_before = not one.head.is_marker and not other.head.is_marker
    text_behind = not one.tail.is_marker and not other.tail.is_marker
    rest_left, rest_right = one.rest(), other.rest()
    n_behind = shared_length(rest_left[::-1], rest_right[::-1]) if text_behind else 0
    end_left, end_right = len(rest_left) - n_behind, len(rest_right) - n_behind
    n_before = shared_length(rest_left[:end_left], rest_right[:end_right]) if text_before else 0
    own_left, own_right = rest_left[n_before:end_left], rest_right[n_before:end_right]
    if not own_left and not own_right:
        return Difference(prefix=left)
    if not own_left and right.startswith(left):
        return Difference(prefix=left, right=right[len(left) :])
    return Difference(prefix + rest_left[:n_before], rest_left[end_left:] + suffix, own_left, own_right)


def _shared_segments(one: _Side, other: _Side) -> tuple[str, str]:
    """Takes the segments that both texts start and end with off them."""
    prefix = suffix = ""
    while not one.single and not other.single:
        same_head = one.head == other.head
        if same_head:
            prefix += one.head.text
            one.first, other.first = one.first + 1, other.first + 1
        same_tail = one.tail == other.tail
        if same_tail:
            suffix = one.tail.text + suffix
            one.drop_tail()
            other.drop_tail()
        if not same_head and not same_tail:
            break
    if one.single != other.single:
        short, long = (one, other) if one.single else (other, one)
        if short.head == long.tail:
            suffix = long.tail.text + suffix
            long.last -= 1
            short.gone = True
        elif short.head == long.head:
            prefix += long.head.text
            long.first += 1
            short.gone = True
    elif one.single and one.head == other.head and one.head.is_marker:
        prefix += one.head.text
        one.gone = other.gone = True
    return prefix, suffix


def shared_length(left: str, right: str) -> int:
    """How many characters two texts start with alike."""
    shorter = min(len(left), len(right))
    return next((at for at in range(shorter) if left[at] != right[at]), shorter)
