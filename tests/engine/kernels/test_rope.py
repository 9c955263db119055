"""The rotary table: what turns how far, and what stretching changes. The reference's bits are in records/."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.kernels import Rope

N = 300
YARN: dict[str, Any] = {"n_rot": 64, "freq_scale": 0.25, "yarn": True, "n_ctx_orig": 512}


def test_position_0_does_not_turn() -> None:
    assert Rope(n_rot=8).table(1).tolist() == [[1.0, 0.0] * 4]


def test_a_row_holds_a_pair_s_cosine_and_sine_after_each_other() -> None:
    table = Rope(n_rot=4, freq_base=4.0).table(3)  # the second pair turns half as far as the first
    assert table[2, 2:].tobytes() == table[1, :2].tobytes()
    assert 0.5 < table[1, 0] < 0.6 < 0.8 < table[1, 1] < 0.9


def test_a_scale_of_a_half_turns_as_far_in_twice_as_many_positions() -> None:
    plain, stretched = Rope(n_rot=64).table(N), Rope(n_rot=64, freq_scale=0.5).table(2 * N)
    assert stretched[::2].tobytes() == plain.tobytes()


def test_a_factor_divides_the_angles_of_its_pair_alone() -> None:
    plain = Rope(n_rot=8).table(2 * N)
    divided = Rope(n_rot=8, freq_factors=[1.0, 1.0, 2.0, 1.0]).table(2 * N)
    assert divided[::2, 4:6].tobytes() == plain[:N, 4:6].tobytes()
    assert np.delete(divided, [4, 5], axis=1).tobytes() == np.delete(plain, [4, 5], axis=1).tobytes()


def test_a_factor_on_the_magnitude_multiplies_every_value() -> None:
    assert (Rope(n_rot=8, attn_factor=2.0).table(N) == 2 * Rope(n_rot=8).table(N)).all()


def kept_and_stretched(n_ctx_orig: int) -> tuple[list[int], list[int]]:
    """The pairs that turn as without YaRN, and those that turn as stretched by its factor."""
    yarn = Rope(**YARN | {"n_ctx_orig": n_ctx_orig}).table(N)
    magnitude = float(yarn[0, 0])
    plain = Rope(n_rot=64, attn_factor=magnitude).table(N)
    linear = Rope(n_rot=64, attn_factor=magnitude, freq_scale=YARN["freq_scale"]).table(N)
    same = [[i for i in range(32) if (yarn[:, 2 * i] == other[:, 2 * i]).all()] for other in (plain, linear)]
    return same[0], same[1]


def test_yarn_keeps_the_fast_pairs_stretches_the_slow_ones_and_mixes_between() -> None:
    kept, stretched = kept_and_stretched(2048)
    assert kept == list(range(len(kept))) != []
    assert stretched == list(range(32 - len(stretched), 32)) != []
    assert len(kept) + len(stretched) < 32


def test_yarn_over_a_longer_original_context_keeps_more_pairs() -> None:
    assert len(kept_and_stretched(512)[0]) < len(kept_and_stretched(4096)[0]) < len(kept_and_stretched(65536)[0])


def test_yarn_grows_the_magnitude_with_the_stretch_and_not_without() -> None:
    grown = [float(Rope(**YARN | {"freq_scale": 1 / factor}).table(1)[0, 0]) for factor in (1, 2, 4, 8)]
    assert grown == sorted(set(grown))
    assert grown[0] == 1.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [({"n_rot": 7}, "in pairs"), ({"n_rot": 8, "freq_factors": [1.0] * 8}, "one factor a pair")],
)
def test_what_does_not_come_in_pairs_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Rope(**arguments)
