"""`logit_bias` as a request gives it: tokens by number or text, and what to add to their logits."""

from __future__ import annotations

import math
import re
from ctypes import c_float
from typing import Any, Protocol


class Vocabulary(Protocol):
    """What is needed of a tokenizer; `engine.tokenizer.Tokenizer` is one."""

    @property
    def n_vocab(self) -> int: ...
    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...


def logit_bias(value: Any, vocabulary: Vocabulary) -> list[tuple[int, float]]:
    """(token, bias) pairs from llama-server's two forms, a list and an object; what it cannot read it skips."""
    found: list[tuple[int, float]] = []
    if isinstance(value, list):
        for pair in value:
            if isinstance(pair, list) and len(pair) == 2 and (bias := bias_of(pair[1])) is not None:
                found += [(token, bias) for token in _bias_tokens(pair[0], vocabulary)]
    elif isinstance(value, dict):
        for key, amount in value.items():
            if (bias := bias_of(amount)) is not None:
                found += [(token, bias) for token in _bias_tokens(_as_number(key), vocabulary)]
    return found


def bias_of(value: Any) -> float | None:
    """The amount of a `logit_bias`, false for never; None for what is none."""
    if value is False:
        return -math.inf
    return float(c_float(value).value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bias_tokens(key: Any, vocabulary: Vocabulary) -> list[int]:
    if isinstance(key, str):
        return vocabulary.encode(key, add_special=False, parse_special=False)
    if isinstance(key, int) and not isinstance(key, bool):
        token = key % 2**32  # the reference keeps 32 bits
        return [token] if token < vocabulary.n_vocab else []
    return []


def _as_number(key: str) -> int | str:
    """An object's key as C's strtol reads it: a number only when nothing follows it (an empty key is 0)."""
    if not key:
        return 0
    return max(-(2**63), min(2**63 - 1, int(key))) if re.fullmatch(r"[ \t\n\v\f\r]*[+-]?[0-9]+", key) else key
