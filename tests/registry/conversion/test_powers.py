"""registry/conversion/powers.py: powers with the bits of PyTorch 2.13, which were read from it."""

from __future__ import annotations

import numpy as np

from registry.conversion.powers import powers

# Base, exponent, power: a few that are not the nearest float, and some of Llama 3's own.
PYTORCH = (
    (10000000.0, 0.89760035, 1919563.375),
    (53814793.1786146, 0.81740737, 2085912.0),
    (26232071.73084451, 0.92880845, 7774534.5),
    (96165757.70918502, 0.7440591, 870640.625),
    (91729853.18138547, 0.95304555, 38782460.0),
    (6235895.5654084105, 0.9340508, 2222187.5),
    (500000.0, 0.0, 1.0),
)


def test_powers_have_pytorchs_bits() -> None:
    for base, exponent, expected in PYTORCH:
        assert powers(base, np.array([exponent], np.float32))[0] == np.float32(expected), (base, exponent)


def test_powers_are_within_one_step_of_the_nearest_float() -> None:
    exponents = np.arange(0, 256, 2, dtype=np.float32) / np.float32(256)
    for base in (10000.0, 500000.0, 1e6, 5e6):
        exact = np.power(np.float64(base), exponents.astype(np.float64))
        steps = powers(base, exponents).view(np.int32) - exact.astype(np.float32).view(np.int32)
        assert np.abs(steps).max() <= 1
