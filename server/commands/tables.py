"""Tables as Ollama's command prints them: columns padded to their widest cell, four spaces after each. Pure functions.

Long cells are wrapped with the least raggedness, by the rule of the Go library that Ollama uses (tablewriter 0.0.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_GAP: Final = "    "
_TOO_LONG: Final = 10**5
"""What a line longer than the limit costs; other lines cost the square of what they lack."""


def width(text: str) -> int:
    """The columns a text takes in a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def table(rows: Iterable[Sequence[str]], header: Sequence[str] = (), *, limit: int = 30) -> str:
    """The lines of a table; "" when there is nothing to show.

    Args:
        rows: cells of each row; one may have fewer than another.
        header: one line above them.
        limit: columns after which the text of a cell is wrapped between words.
    """
    wrapped = [[_wrapped(cell, limit) for cell in row] for row in rows]
    widths: list[int] = [width(name) for name in header]
    for row in wrapped:
        widths += [0] * (len(row) - len(widths))
        for column, lines in enumerate(row):
            widths[column] = max(widths[column], *map(width, lines))
    shown: list[str] = []
    if header:
        names = [_padded(name, size) for name, size in zip(header, widths, strict=True)]
        shown.append(f"{_GAP.join(names)} \n")
    for row in wrapped:
        height = max(map(len, row))
        for line in range(height):
            # A cell that has ended is two spaces, in a column of no width too.
            cells = [cell[line] if line < len(cell) else "  " for cell in row]
            shown.append("".join(_padded(cell, widths[at]) + _GAP for at, cell in enumerate(cells)) + "\n")
    return "".join(shown)


def _padded(text: str, size: int) -> str:
    return text + " " * (size - width(text))


def _wrapped(cell: str, limit: int) -> list[str]:
    """The lines of a cell, at most `limit` wide but for a word that is wider; then that is the limit."""
    words = cell.replace("\n", " ").split(" ")
    widest = max(map(width, cell.split("\n")))
    limit = max(min(widest, limit), *map(width, words), 0)
    return [" ".join(words[first:last]) for first, last in _breaks([width(word) for word in words], limit)]


def _breaks(widths: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Where to break a row of words so that the squares of what the lines lack, the last one aside, add up to least.

    Args:
        widths: of each word; one space goes between two.
        limit: columns of a line; no word is wider.

    Returns:
        for each line its first word and the one after its last.
    """
    n = len(widths)
    cost: list[float] = [0] * n
    after = [n] * n
    tail = -1  # columns from word i to the end
    for i in range(n - 1, -1, -1):
        tail += widths[i] + 1
        if tail <= limit:
            continue
        best = float("inf")
        length = -1
        for j in range(i + 1, n):
            length += widths[j - 1] + 1
            lacking = (limit - length) ** 2 + (_TOO_LONG if length > limit else 0)
            if lacking + cost[j] < best:
                best, after[i] = lacking + cost[j], j
            if length > limit and lacking >= best:
                break  # a longer line costs still more
        cost[i] = best
    lines = []
    first = 0
    while first < n:
        lines.append((first, after[first]))
        first = after[first]
    return lines
