"""What is asked of the sampler chain: parameters, prompts and rows of logits, all made by integer arithmetic.

The rows are not stored with the record: `logits` makes the same bits anywhere.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.sampling import DEFAULT_SAMPLERS

N_STEPS = 4
FULL = 49152
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SamplerCase:
    """One chain, asked for `N_STEPS` tokens.

    Attributes:
        name: how the record is called.
        params: fields of `SamplingParams`, the rest at llama-server's defaults.
        rows: the kind of logits, see `logits`.
        n_vocab: logits in a row.
        prompt: tokens accepted before the first draw.
        bias: logit biases.
        breakers: DRY's restart sequences as tokens.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    rows: str = "fine"
    n_vocab: int = FULL
    prompt: Sequence[int] = ()
    bias: Sequence[tuple[int, float]] = ()
    breakers: Sequence[Sequence[int]] = ()

    @property
    def row_seed(self) -> int:
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "little")


def _mixed(seed: int, n: int) -> NDArray[np.uint64]:
    """`n` 64-bit numbers, by splitmix64 of a counter."""
    x = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64((seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & _MASK)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _bell(seed: int, n: int) -> NDArray[np.int64]:
    """`n` numbers of about a normal shape, between -2**23 and 2**23, with a deviation of some 2.4 million."""
    bits, more = _mixed(seed, n), _mixed(seed ^ 0x5DEECE66D, n)
    parts = [(source >> np.uint64(shift)) & np.uint64(0x3FFFFF) for source in (bits, more) for shift in (0, 40)]
    total = np.full(n, -(1 << 23), np.int64)
    for part in parts:
        total += part.astype(np.int64)
    return total


def logits(kind: str, n: int, seed: int, step: int) -> NDArray[np.float32]:
    """A row of `n` float32 logits.

    Args:
        kind: "fine" (hardly a tie, within 8), "wide" (within 32), "low" (around -40), "tied" (multiples of 1/4),
            "coins" (0 or 1), "equal" (all 0), "holes" (a third is -inf), "few" (all but about 5 are -inf), "peaked"
            (one far above the rest), "plateau" (the eight best are equal).
        n: how many.
        seed: of the case.
        step: of the draw.
    """
    bell = _bell((seed << 8) + step, n)
    coins = _mixed((seed << 8) + step + 128, n)
    row = (bell * 2.0**-20).astype(np.float32)
    if kind == "wide":
        row = (bell * 2.0**-18).astype(np.float32)
    elif kind == "low":
        row -= np.float32(40)
    elif kind == "tied":
        row = ((bell >> 18) * 0.25).astype(np.float32)
    elif kind == "coins":
        row = (coins & np.uint64(1)).astype(np.float32)
    elif kind == "equal":
        row = np.zeros(n, np.float32)
    elif kind == "holes":
        row[coins % np.uint64(3) == 0] = -np.inf
    elif kind == "few":
        kept = [int(token) % n for token in coins[:5]]
        few = np.full(n, -np.inf, np.float32)
        few[kept] = row[kept]
        row = few
    elif kind == "peaked":
        row[int(coins[0]) % n] = 20
    elif kind == "plateau":
        row[[int(token) % n for token in coins[:8]]] = 9
    elif kind != "fine":
        raise ValueError(kind)
    return row


def digest(candidates: Iterable[tuple[int, float, float]]) -> str:
    """Eight bytes of a hash over (token, logit, probability) in order, bit for bit; any NaN counts as the same."""
    state = hashlib.sha256()
    for token, logit, p in candidates:
        state.update(struct.pack("<iff", token, *(x if x == x else float("nan") for x in (logit, p))))
    return state.hexdigest()[:16]


_REPEATS = [5, 9, 5, 9, 7, 5, 9, 7, 11, 5, 9, 7, 3, 3, 3, 5, 9]
_LONG = [(i * 7919) % 300 for i in range(200)] + _REPEATS * 3
_OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
_PENALTIES = {"repeat_penalty": 1.3, "frequency_penalty": 0.2, "presence_penalty": 0.4}
_DRY = {"dry_multiplier": 0.8, "dry_penalty_last_n": 256}


def _cases() -> Iterable[SamplerCase]:
    every_kind = ("fine", "wide", "low", "tied", "coins", "equal", "holes", "few", "peaked", "plateau")
    for kind in every_kind:
        yield SamplerCase(f"default-{kind}", {}, kind)
        yield SamplerCase(f"greedy-{kind}", {"temperature": 0.0}, kind)
        yield SamplerCase(f"open-{kind}", {**_OFF, "temperature": 1.0}, kind, 3000)
        yield SamplerCase(f"greedy-open-{kind}", {**_OFF, "temperature": 0.0}, kind, 700)
    for n in (1, 2, 7, 40, 41, 128, 129, 300, 1024, 1025, 4096):
        yield SamplerCase(f"default-{n}", {"seed": n}, "fine", n)
        yield SamplerCase(f"top-p-only-{n}", {"seed": n, "top_k": 0, "min_p": 0.0}, "tied", n)
        yield SamplerCase(f"typical-{n}", {"seed": n, "top_k": 0, "typical_p": 0.6}, "fine", n)
    for k in (1, 2, 5, 127, 128, 129, 200, 1000, FULL):
        yield SamplerCase(f"top-k-{k}", {"top_k": k, "seed": k})
        yield SamplerCase(f"top-k-{k}-tied", {"top_k": k, "seed": k, "temperature": 1.5, "min_p": 0.0}, "tied")
    for top_p in (0.0, 0.1, 0.5, 0.99, 0.9999):
        yield SamplerCase(f"top-p-{top_p}-wide", {"top_p": top_p, "top_k": 0, "min_p": 0.0, "temperature": 1.0}, "wide")
        yield SamplerCase(f"top-p-{top_p}-tied", {"top_p": top_p, "top_k": 0, "min_keep": 3}, "tied")
    for min_p in (0.001, 0.3, 1.0):
        yield SamplerCase(f"min-p-{min_p}", {**_OFF, "min_p": min_p})
        yield SamplerCase(f"min-p-{min_p}-keep", {**_OFF, "min_p": min_p, "min_keep": 30}, "tied")
        yield SamplerCase(f"min-p-{min_p}-sorted", {"top_p": 1.0, "min_p": min_p, "min_keep": 2}, "wide")
    for typical in (0.0, 0.2, 0.9):
        yield SamplerCase(f"typical-p-{typical}", {"typical_p": typical, "temperature": 1.0})
        yield SamplerCase(f"typical-p-{typical}-tied", {"typical_p": typical, "min_keep": 4}, "tied")
        yield SamplerCase(f"typical-p-{typical}-open", {**_OFF, "typical_p": typical}, "holes", 3000)
    for sigma in (0.5, 1.0, 2.0):
        yield SamplerCase(f"top-n-sigma-{sigma}", {"top_n_sigma": sigma})
        yield SamplerCase(f"top-n-sigma-{sigma}-holes", {**_OFF, "top_n_sigma": sigma}, "holes")
        yield SamplerCase(f"top-n-sigma-{sigma}-equal", {"top_n_sigma": sigma}, "equal", 500)
    for p, threshold in ((1.0, 0.05), (0.5, 0.1), (0.3, 0.5), (1.0, 0.6)):
        xtc = {"xtc_probability": p, "xtc_threshold": threshold, "top_p": 1.0, "min_p": 0.0}
        yield SamplerCase(f"xtc-{p}-{threshold}", xtc, "wide")
        yield SamplerCase(f"xtc-{p}-{threshold}-keep", {**xtc, "min_keep": 39, "seed": 9}, "wide")
        yield SamplerCase(f"xtc-{p}-{threshold}-greedy", {**xtc, "temperature": 0.0}, "wide")
        yield SamplerCase(f"xtc-{p}-{threshold}-open", {**xtc, "top_k": 0}, "plateau", 3000)
    for spread, exponent in ((0.5, 1.0), (1.5, 0.5), (0.8, 3.0)):
        dynamic = {"dynatemp_range": spread, "dynatemp_exponent": exponent}
        yield SamplerCase(f"dynatemp-{spread}-{exponent}", dynamic)
        yield SamplerCase(f"dynatemp-{spread}-{exponent}-wide", {**dynamic, "temperature": 0.0, "seed": 3}, "wide")
        yield SamplerCase(f"dynatemp-{spread}-{exponent}-open", {**dynamic, **_OFF}, "holes", 3000)
    for temperature in (0.01, 0.7, 1.0, 2.5, 1e6):
        yield SamplerCase(f"temperature-{temperature}", {"temperature": temperature, "seed": 77})
    yield from _with_history()


def _with_history() -> Iterable[SamplerCase]:
    for last_n in (0, 1, 8, 64, 1000):
        window = {**_PENALTIES, "repeat_last_n": last_n}
        yield SamplerCase(f"penalties-{last_n}", window, "wide", 300, _LONG)
        yield SamplerCase(f"penalties-{last_n}-greedy", {**window, "temperature": 0.0}, "tied", 300, _LONG)
    for name, value in (("repeat_penalty", 0.7), ("frequency_penalty", -0.5), ("presence_penalty", 1.0)):
        yield SamplerCase(f"penalty-{name}", {name: value}, "fine", FULL, _LONG)
    for allowed in (0, 1, 2, 5):
        dry = {**_DRY, "dry_allowed_length": allowed}
        yield SamplerCase(f"dry-{allowed}", dry, "wide", 300, _LONG)
        yield SamplerCase(f"dry-{allowed}-breakers", dry, "wide", 300, _LONG, (), ((11,), (3, 3), (3, 5, 9)))
        yield SamplerCase(f"dry-{allowed}-short", {**dry, "dry_penalty_last_n": 9}, "fine", 300, _LONG, (), ((7, 5),))
    yield SamplerCase("dry-steep", {**_DRY, "dry_base": 8.0}, "wide", 300, [1, 2] * 60)
    yield SamplerCase("dry-flat", {**_DRY, "dry_base": 1.0, "temperature": 0.0}, "wide", 300, [1, 2] * 60)
    yield SamplerCase(
        "dry-everything", {**_DRY, **_PENALTIES, "top_n_sigma": 2.0, "typical_p": 0.9}, "fine", 300, _LONG
    )
    ban = ((7, -float("inf")), (9, 3.5), (9, -1.25), (0, 100.0))
    yield SamplerCase("bias", {}, "fine", FULL, (), ban)
    yield SamplerCase("bias-greedy", {"temperature": 0.0}, "tied", 3000, (), ban[:3])
    yield SamplerCase("bias-penalties", _PENALTIES, "wide", 300, _LONG, ban)
    everything = {
        **_PENALTIES,
        **_DRY,
        "top_n_sigma": 2.5,
        "top_k": 300,
        "typical_p": 0.95,
        "top_p": 0.97,
        "min_p": 0.01,
        "xtc_probability": 0.7,
        "xtc_threshold": 0.02,
        "dynatemp_range": 0.4,
        "seed": 2024,
    }
    for kind in ("fine", "wide", "tied", "plateau"):
        yield SamplerCase(f"everything-{kind}", everything, kind, FULL, _LONG, ban[:2], ((11,),))
    yield from _in_order(everything, ban)
    yield from _other_endings(ban)
    yield from _infill(everything)


def _in_order(everything: Mapping[str, Any], ban: Sequence[tuple[int, float]]) -> Iterable[SamplerCase]:
    """Every sampler alone, every one before and after the rest, twice, and none at all."""
    for number, name in enumerate(DEFAULT_SAMPLERS):
        for where, order in {
            "alone": (name,),
            "first": (name, *(other for other in DEFAULT_SAMPLERS if other != name)),
            "last": (*(other for other in DEFAULT_SAMPLERS if other != name), name),
            "twice": (name, "temperature", name),
        }.items():
            for kind, n in (("fine", FULL), ("tied", 3000), ("holes", 300)):
                params = {**everything, "samplers": order, "seed": number}
                yield SamplerCase(f"order-{name}-{where}-{kind}", params, kind, n, _LONG, ban[:2], ((11,),))
    for kind in ("fine", "wide", "tied", "holes", "plateau"):
        for number, order in enumerate(
            (DEFAULT_SAMPLERS[::-1], DEFAULT_SAMPLERS[4:] + DEFAULT_SAMPLERS[:4], DEFAULT_SAMPLERS[1::2], ())
        ):
            params = {**everything, "samplers": order, "min_keep": 3}
            yield SamplerCase(f"order-{number}-{kind}", params, kind, 5000, _LONG, ban, ((11,), (3, 3)))
            params = {**everything, "samplers": order, "temperature": 0.0, "dynatemp_range": 0.0}
            yield SamplerCase(f"order-{number}-{kind}-greedy", params, kind, 5000, _LONG)


def _other_endings(ban: Sequence[tuple[int, float]]) -> Iterable[SamplerCase]:
    """Mirostat, which knows no sampler but the temperature, and adaptive-p after every order."""
    for version in (1, 2):
        for kind, n in (("fine", FULL), ("wide", FULL), ("tied", 3000), ("holes", 300), ("peaked", 300), ("few", 300)):
            for tau, eta in ((5.0, 0.1), (0.5, 0.9), (12.0, 0.01)):
                params = {"mirostat": version, "mirostat_tau": tau, "mirostat_eta": eta, "seed": version, **_PENALTIES}
                yield SamplerCase(f"mirostat-{version}-{tau}-{kind}", params, kind, n, _LONG, ban[:2])
        for temperature in (0.0, 0.3, 2.0):
            params = {"mirostat": version, "temperature": temperature, "dynatemp_range": 0.5}
            yield SamplerCase(f"mirostat-{version}-temperature-{temperature}", params, "wide", 3000)
        yield SamplerCase(f"mirostat-{version}-one", {"mirostat": version}, "fine", 1)
    for target in (-1.0, 0.0, 0.3, 0.55, 1.0):
        for kind in ("fine", "wide", "tied", "holes", "peaked"):
            shared: dict[str, Any] = {"adaptive_target": target, "adaptive_decay": 0.7}
            last = {"samplers": (*DEFAULT_SAMPLERS, "adaptive_p")}
            yield SamplerCase(f"adaptive-{target}-{kind}", shared | last, kind, 3000, _LONG)
            first: dict[str, Any] = {"samplers": ("adaptive_p", "min_p", "temperature"), "adaptive_decay": 0.0}
            yield SamplerCase(f"adaptive-{target}-{kind}-open", shared | first, kind, 3000, _LONG, ban)


_ENDS = (0, 2, 4)
"""SmolLM2's end-of-generation tokens."""
_ALIKE = (216, 252, 295, 260, 601, 965, 665, 3472, 253, 354, 284, 750, 100, 373, 1195)
"""SmolLM2's tokens for " ", " t", " th", " the", " them", " then", " there", " therefore", " a", " an", " and", " any",
"t", "th" and "the": the infill sampler puts some together."""


def _infill(everything: Mapping[str, Any]) -> Iterable[SamplerCase]:
    """Infill, with the real vocabulary's first tokens: alone and in company, with the ends and likely tokens raised."""
    orders: Mapping[str, Sequence[str]] = {
        "alone": ("infill",),
        "after-top-k": ("top_k", "infill"),
        "after-all": (*DEFAULT_SAMPLERS, "infill"),
        "before-all": ("infill", *DEFAULT_SAMPLERS),
        "reference": ("top_k", "top_p", "infill", "temperature"),
        "after-typical": ("typ_p", "infill", "min_p"),
        "after-xtc": ("xtc", "infill", "xtc"),
        "twice": ("top_k", "infill", "temperature", "infill"),
        "adaptive": ("top_k", "infill", "adaptive_p"),
    }
    raised: Mapping[str, Sequence[tuple[int, float]]] = {
        "plain": (),
        "ends": tuple((token, 6.0 + token / 2) for token in _ENDS),
        "one-end": ((2, 9.0), (0, -float("inf")), (4, -float("inf"))),
        "alike": tuple((token, 9.0 + index % 4) for index, token in enumerate(_ALIKE)),
        "alike-falling": tuple((token, 12.0 - index / 2) for index, token in enumerate(_ALIKE)),
        "both": (*((token, 10.0 - index / 4) for index, token in enumerate(_ALIKE)), (2, 2.0)),
    }
    for number, (where, order) in enumerate(orders.items()):
        for bias_name, bias in raised.items():
            for kind in ("fine", "wide", "tied"):
                params = {**everything, "top_k": 20, "samplers": order, "seed": number, "adaptive_target": 0.4}
                params |= {"temperature": 0.6, "dynatemp_range": 0.2} if bias_name != "plain" else {}
                yield SamplerCase(f"infill-{where}-{bias_name}-{kind}", params, kind, 3500, _LONG, bias)
    for kind in ("low", "coins", "equal", "holes", "few", "peaked", "plateau"):
        for k in (2, 5, 40, 129, 0):
            params = {"samplers": ("top_k", "infill"), "top_k": k, "seed": k}
            yield SamplerCase(f"infill-top-{k}-{kind}", params, kind, 3500 if k == 0 else FULL, (), raised["ends"][:1])
            params = {**params, "temperature": 0.0, "samplers": ("top_k", "temperature", "infill")}
            yield SamplerCase(f"infill-top-{k}-{kind}-greedy", params, kind, 3500)


CASES: Sequence[SamplerCase] = tuple(_cases())

DRY_WORDS: Sequence[tuple[str, ...]] = (
    ("\n", ":", '"', "*"),
    ("the",),
    ("user:", "\n\n"),
    ("。", "é!"),
    (" and so on and so forth until the very end of it all",),
)
"""Sequence breakers put to the reference with the real vocabulary."""
