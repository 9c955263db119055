"""Powers in 32 bits as PyTorch's library of vectors (SLEEF 3, `Sleef_powf8_u10`) rounds them: nearly always, but not
always, to the nearest.

The logarithm and the exponential are taken in pairs of floats, a value and what rounding took from it; the steps, their
order and the coefficients are those of the published algorithm with fused multiply-adds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Pair = tuple[Any, Any]

_f = np.float32


def _fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z rounded once: a product of two floats is exact in 64 bits."""
    return (np.float64(x) * np.float64(y) + np.float64(z)).astype(_f)


def _add(x: Pair, y: Pair) -> Pair:
    """x + y where x is the larger."""
    total = x[0] + y[0]
    return total, x[0] - total + y[0] + x[1] + y[1]


def _add_one(x: Pair, y: Any) -> Pair:
    """x + y whichever is larger, y a single float."""
    total = x[0] + y
    part = total - x[0]
    return total, (x[0] - (total - part)) + (y - part) + x[1]


def _times(x: Pair, y: Any) -> Pair:
    product = x[0] * y
    return product, _fma(x[1], y, _fma(x[0], y, -product))


def _product(x: Pair, y: Pair) -> Pair:
    product = x[0] * y[0]
    return product, _fma(x[0], y[1], _fma(x[1], y[0], _fma(x[0], y[0], -product)))


def _square(x: Pair) -> Pair:
    product = x[0] * x[0]
    return product, _fma(x[0] + x[0], x[1], _fma(x[0], x[0], -product))


def _quotient(x: Pair, y: Pair) -> Pair:
    inverse = _f(1) / y[0]
    quotient = x[0] * inverse
    rest = _fma(inverse, x[0], -quotient)
    error = _fma(-y[1], inverse, _fma(-y[0], inverse, _f(1)))
    return quotient, _fma(quotient, error, _fma(x[1], inverse, rest))


def _logarithm(value: Floats) -> Pair:
    exponent = np.frexp(value * _f(1 / 0.75))[1] - 1
    mantissa = np.ldexp(value, -exponent)
    zero = np.zeros_like(value)
    x = _quotient(_add_one((zero - 1, zero), mantissa), _add_one((zero + 1, zero), mantissa))
    x2 = _square(x)
    t = _fma(_f(0.240320354700088500976562), x2[0], _f(0.285112679004669189453125))
    t = _fma(t, x2[0], _f(0.400007992982864379882812))
    whole = _times((_f(0.69314718246459960938), _f(-1.904654323148236017e-09)), exponent.astype(_f))
    total = _add(whole, (x[0] * _f(2), x[1] * _f(2)))
    cubic = (_f(0.66666662693023681640625), _f(3.69183861259614332084311e-09))
    return _add(total, _product(_product(x2, x), _add(cubic, _times(x2, t))))


def _exponential(x: Pair) -> Floats:
    turns = np.rint((x[0] + x[1]) * _f(1.442695040888963407359924681001892137426645954152985934135449406931))
    s = _add_one(x, turns * _f(-0.693145751953125))
    s = _add_one(s, turns * _f(-1.428606765330187045e-06))
    total = s[0] + s[1]
    s = (total, s[0] - total + s[1])
    u = _f(0.00136324646882712841033936)
    for coefficient in (
        0.00836596917361021041870117,
        0.0416710823774337768554688,
        0.166665524244308471679688,
        0.499999850988388061523438,
    ):
        u = _fma(u, s[0], _f(coefficient))
    t = _add(s, _times(_square(s), u))
    one = _add((_f(1), _f(0)), t)
    result: Floats = np.ldexp(one[0] + one[1], turns.astype(np.int32))
    return result


def powers(base: float, exponents: Floats) -> Floats:
    """`base` to the power of each exponent, F32.

    Args:
        base: a normal number above zero.
        exponents: so that no power leaves the range of normal numbers.
    """
    logarithm = _logarithm(np.full(exponents.shape, base, _f))
    return _exponential(_times(logarithm, exponents))
