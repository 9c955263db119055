"""Rules for the integers between two bounds, as digits: the alternatives llama-server b11192 writes, in its order.

The bounds are 64-bit numbers that wrap around, as the reference's do.
"""

from __future__ import annotations

from collections.abc import Iterator

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
"""As a bound, each end means that there is none on its side."""

_MOST_DIGITS = 16  # of a number without an upper bound


def wrap(number: int, bits: int) -> int:
    """What is left of an integer in so many bits, signed."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def integer_range(minimum: int, maximum: int) -> str:
    """The rule for the integers from `minimum` to `maximum`, both included, both in 64 bits.

    Bounds that contradict each other give a rule too, one that the grammar parser may then refuse, as in llama-server.

    Raises:
        ValueError: both ends are open, which also happens to the half that a bound at the very end of the 64-bit
            range leaves; its text is llama-server's.
    """
    return "".join(_range(minimum, maximum, _MOST_DIGITS, top_level=True))


def _range(minimum: int, maximum: int, digits_left: int, *, top_level: bool) -> Iterator[str]:
    """`digits_left`: the most digits an unbounded side may have; `top_level`: no digit stands before these."""
    if minimum != INT64_MIN and maximum != INT64_MAX:
        yield from _closed(minimum, maximum, digits_left)
    elif minimum != INT64_MIN:
        yield from _from(minimum, digits_left, top_level=top_level)
    elif maximum == INT64_MAX:
        raise ValueError("At least one of min_value or max_value must be set")
    elif maximum >= 0:
        if top_level:
            yield f'"-" [1-9] {_digits(0, max(digits_left - 1, 1))} | '
        yield from _range(0, maximum, digits_left, top_level=True)
    else:
        yield '"-" ('
        yield from _range(wrap(-maximum, 64), INT64_MAX, digits_left, top_level=False)
        yield ")"


def _closed(minimum: int, maximum: int, digits_left: int) -> Iterator[str]:
    """Both bounds are set: one alternative for the negative half, then one for each number of digits."""
    if minimum < 0:
        yield '"-" ('
        yield from _range(wrap(-maximum, 64) if maximum < 0 else 0, -minimum, digits_left, top_level=True)
        if maximum < 0:
            yield ")"
            return
        yield ") | "
        minimum = 0
    low, high = str(minimum), str(maximum)
    for n_digits in range(len(low), len(high)):
        yield from _between(low, "9" * n_digits)
        yield " | "
        low = "1" + "0" * n_digits
    yield from _between(low, high)


def _from(minimum: int, digits_left: int, *, top_level: bool) -> Iterator[str]:
    """Only the lower bound is set."""
    fewer = max(digits_left - 1, 1)
    if minimum < 0:
        yield '"-" ('
        yield from _range(INT64_MIN, -minimum, digits_left, top_level=False)
        yield f") | [0] | [1-9] {_digits(0, digits_left - 1)}"
    elif minimum == 0:
        yield f"[0] | [1-9] {_digits(0, fewer)}" if top_level else _digits(1, digits_left)
    else:
        text = str(minimum)
        first = int(text[0])
        lowest = 1 if top_level else 0
        if len(text) == 1:
            if first > lowest:
                yield f"{_digit(lowest, first - 1)} {_digits(1, fewer)} | "
            yield f"{_digit(first, 9)} {_digits(0, fewer)}"
            return
        if first > 1:
            yield f"{_digit(lowest, first - 1)} {_digits(len(text), fewer)} | "
        yield f"{_digit(first, first)} ("
        yield from _range(int(text[1:]), INT64_MAX, fewer, top_level=False)
        yield ")"
        if first < 9:
            yield f" | {_digit(first + 1, 9)} {_digits(len(text) - 1, fewer)}"


def _between(low: str, high: str) -> Iterator[str]:
    """The numbers from `low` to `high`, which have as many digits (`high` fewer when the bounds are crossed)."""
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    if same:
        yield f'"{low[:same]}"'
    if same == min(len(low), len(high)):
        return
    if same:
        yield " "
    first, last = ord(low[same]) - ord("0"), ord(high[same]) - ord("0")
    low, high = low[same + 1 :], high[same + 1 :]
    if not low:
        yield f"[{first}-{last}]"
        return
    zeros, nines = "0" * len(low), "9" * len(low)
    rest = _digits(len(low), len(low))
    yield "("
    last_is_done = False
    if low == zeros:
        yield f"{_digit(first, last - 1)} {rest}"
    else:
        yield f"[{first}] ("
        yield from _between(low, nines)
        yield ")"
        if first < last - 1:
            last_is_done = high == nines
            yield f" | {_digit(first + 1, last if last_is_done else last - 1)} {rest}"
    if not last_is_done:
        yield f" | {_digit(last, last)} "
        yield from _between(zeros, high)
    yield ")"


def _digit(first: int, last: int) -> str:
    """One digit of a range. A crossed range may reach -1, which is the character before `0`."""
    start, end = chr(ord("0") + first), chr(ord("0") + last)
    return f"[{start}]" if start == end else f"[{start}-{end}]"


def _digits(fewest: int, most: int) -> str:
    """Any digits, so many of them; `most` may be below `fewest`, which llama-server writes as it is."""
    if fewest == most:
        return "[0-9]" if fewest == 1 else f"[0-9]{{{fewest}}}"
    return f"[0-9]{{{fewest},{most}}}"
