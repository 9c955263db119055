"""The cases of `step_cases` in the reference."""

from __future__ import annotations

import numpy as np

from testing.oracles.draws import Floats
from testing.oracles.reference_ops import NEOX, Operations
from testing.oracles.step_cases import AttentionCase, RopeCase, RowCase


def rope_table(operations: Operations, case: RopeCase) -> Floats:
    """What turns the first of each pair, (positions, n_rot): the rotation of (1, 0) is cosine and sine."""
    ones = np.zeros((len(case.positions), 1, case.n_rot), np.float32)
    if case.neox:
        ones[..., : case.n_rot // 2] = 1
    else:
        ones[..., ::2] = 1
    turned = operations.rope(
        ones,
        case.positions,
        case.n_rot,
        mode=NEOX if case.neox else 0,
        freq_base=case.freq_base,
        freq_scale=case.freq_scale,
        factors=case.divisors(),
    ).reshape(len(case.positions), case.n_rot)
    if case.neox:
        turned = turned.reshape(-1, 2, case.n_rot // 2).swapaxes(1, 2).reshape(turned.shape)
    return turned


def attention(case: AttentionCase) -> Floats:
    """Attention of the last n rows, as llama.cpp's graph has it: rotate, keep the cells in half precision, attend."""
    operations = Operations(case.n_threads)
    q, k, v = case.rows()
    mask = case.mask()
    mode, positions = NEOX if case.neox else 0, range(case.n_past + case.n)
    q, k = (operations.rope(rows, positions, case.head_size, mode=mode) for rows in (q, k))
    keys = np.zeros((mask.shape[1], *k.shape[1:]), np.float16)
    values = keys.copy()
    keys[: len(k)], values[: len(v)] = k, v
    return operations.flash_attn(q[case.n_past :], keys, values, mask, case.scale, n_head_kv=case.n_head_kv)


def rms_norm(operations: Operations, case: RowCase) -> Floats:
    """The norm and the product with its weight, which the reference fuses, (n, cols), without negative zeros.

    Ours is read through a product with a unit matrix, which adds zeros and so makes every zero positive.
    """
    return operations.rms_norm(case.rows(), case.weight(), case.eps) + np.float32(0)


def swiglu(operations: Operations, case: RowCase) -> Floats:
    """silu(gate) * up, (n, cols), without negative zeros as `rms_norm`."""
    return operations.swiglu(case.rows(), case.others()) + np.float32(0)
