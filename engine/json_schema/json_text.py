"""A JSON value as the text llama-server b11192 writes for it (nlohmann's `dump`), which a `const` or `enum` becomes.

Strings stay as they are but for quotes, backslashes and control characters. Integers are exact. A fraction has the
digits Grisu2 finds (Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers", 2010): enough to
read the same number back and nearly always the fewest, so Python's own digits would differ in one number of a thousand.
"""

from __future__ import annotations

import json
import math
from typing import Any

from engine.json_schema.limits import MAX_DEPTH, Budget, too_deep

_FEWEST_FRACTION_ZEROS = -4  # below that, and above the 15 digits a double always holds, the exponent is written
_MOST_DIGITS = 15

_MASK = (1 << 64) - 1
_FIRST_POWER, _POWER_STEP = -300, 8  # the decimal powers Grisu2 scales with: every eighth from 10^-300 on
_ALPHA = -60  # the lowest binary exponent of a scaled number


def json_text(value: Any, budget: Budget) -> str:
    """The text of `value`, parsed JSON, without any space.

    Raises:
        InvalidRequest: it is nested deeper than `MAX_DEPTH`, or too long.
    """
    parts: list[str] = []
    _write(value, parts, budget, MAX_DEPTH)
    return "".join(parts)


def _write(value: Any, parts: list[str], budget: Budget, depth: int) -> None:
    if depth == 0:
        raise too_deep()
    budget.nodes(1)
    if isinstance(value, dict):
        comma = "{"
        for key, item in value.items():
            parts.append(f"{comma}{json.dumps(key, ensure_ascii=False)}:")
            budget.text(len(parts[-1]))
            _write(item, parts, budget, depth - 1)
            comma = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        comma = "["
        for item in value:
            parts.append(comma)
            _write(item, parts, budget, depth - 1)
            comma = ","
        parts.append("]" if value else "[]")
    else:
        parts.append(fraction_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False))
        budget.text(len(parts[-1]))


def fraction_text(value: float) -> str:
    """A finite float as nlohmann writes it: `0.5`, `100.0`, `1e+15`, `-0.0`."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0.0:
        return f"{sign}0.0"
    digits, exponent = _shortest(abs(value))
    point = len(digits) + exponent  # digits before the decimal point
    if len(digits) <= point <= _MOST_DIGITS:
        return f"{sign}{digits}{'0' * exponent}.0"
    if 0 < point <= _MOST_DIGITS:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _FEWEST_FRACTION_ZEROS < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+03d}"


def _shortest(value: float) -> tuple[str, int]:
    """Grisu2: decimal digits and the power of ten of the last one, for a positive float."""
    low, middle, high, binary = _boundaries(value)
    scale, scale_exponent, power = _decimal_power(binary)
    low, middle, high = (_scaled(number, scale) for number in (low, middle, high))
    return _digits(low + 1, middle, high - 1, -(binary + scale_exponent + 64), -power)


def _boundaries(value: float) -> tuple[int, int, int, int]:
    """The float and the middles between it and its neighbours, as 64-bit numbers times one power of two."""
    mantissa, exponent = math.frexp(value)
    number, exponent = int(mantissa * 2**53), exponent - 53
    if exponent < -1074:  # subnormal: the spacing does not shrink any more
        number, exponent = number >> (-1074 - exponent), -1074
    # Below a power of two the numbers are twice as dense.
    closer = number == 1 << 52 and exponent > -1074
    low = 4 * number - (1 if closer else 2)
    middle, high, exponent = 4 * number, 4 * number + 2, exponent - 2
    shift = 64 - high.bit_length()
    return low << shift, middle << shift, high << shift, exponent - shift


def _decimal_power(binary: int) -> tuple[int, int, int]:
    """The power of ten that brings a number times 2^`binary` into Grisu2's range: its 64 bits, exponent, decimal."""
    wanted = _ALPHA - binary - 1
    estimate = int(wanted * 78913 / 2**18) + (wanted > 0)  # log10(2) in 18 bits, towards zero
    index = (-_FIRST_POWER + estimate + _POWER_STEP - 1) // _POWER_STEP
    power = _FIRST_POWER + index * _POWER_STEP
    numerator, denominator = (10**power, 1) if power >= 0 else (1, 10**-power)
    exponent = numerator.bit_length() - denominator.bit_length() - 64
    while True:
        up, down = (numerator << max(0, -exponent)), (denominator << max(0, exponent))
        bits = (2 * up + down) // (2 * down)
        if bits.bit_length() == 64:
            return bits, exponent, power
        exponent += bits.bit_length() - 64


def _scaled(number: int, scale: int) -> int:
    """The upper 64 bits of the product, rounded."""
    return ((number * scale + (1 << 63)) >> 64) & _MASK


def _digits(low: int, middle: int, high: int, shift: int, exponent: int) -> tuple[str, int]:
    """The digits of `high` until the rest lies within `high` - `low`, the last one moved towards `middle`."""
    delta, distance = high - low, high - middle
    one = 1 << shift
    whole, rest = high >> shift, high & (one - 1)
    text = str(whole)
    for position in range(len(text)):
        unit = 10 ** (len(text) - 1 - position)
        left = (whole % unit << shift) + rest
        if left <= delta:
            digits = _towards(text[: position + 1], distance, delta, left, unit << shift)
            return digits, exponent + len(text) - 1 - position
    n_more = 0
    while True:
        rest, delta, distance, n_more = rest * 10, delta * 10, distance * 10, n_more + 1
        text += str(rest >> shift)
        rest &= one - 1
        if rest <= delta:
            return _towards(text, distance, delta, rest, one), exponent - n_more


def _towards(text: str, distance: int, delta: int, rest: int, unit: int) -> str:
    """Lowers the last digit while that brings the number nearer to the one that was asked for."""
    last = int(text[-1])
    while (
        rest < distance
        and delta - rest >= unit
        and (rest + unit < distance or distance - rest > rest + unit - distance)
    ):
        last -= 1
        rest += unit
    return text[:-1] + str(last)
