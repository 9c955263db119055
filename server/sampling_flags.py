"""How llama-server b11192 reads those of its sampling flags that are more than a number: `common/arg.cpp`.

Each function takes a flag's value as written, or passes on what is read already; what is wrong is a ValueError fit for
one line.
"""

from __future__ import annotations

import json
import math
import re
from ctypes import c_float
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.grammar import GrammarParams
    from engine.reasoning_budget import ReasoningParams

_BIAS = re.compile(r"\s*([+-]?[0-9]+)\s*([+-])(.+)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\"}


def float32(value: float) -> float:
    """The 32-bit float that the reference keeps.

    Raises:
        ValueError: it does not fit.
    """
    rounded = c_float(value).value
    if not math.isfinite(rounded):
        raise ValueError("must be a finite number")
    return rounded


def named_samplers(value: object) -> object:
    """`--samplers`: names in any of llama-server's spellings, `;` between them. It drops one that it does not know;
    here that is an error."""
    if not isinstance(value, str):
        return value
    from engine.sampling import DEFAULT_SAMPLERS, sampler_names  # slow, and seldom needed

    names = [name for name in value.split(";") if name]
    for name in names:
        if not sampler_names([name]):
            raise ValueError(
                f"there is no sampler '{name}'; known are {' '.join((*DEFAULT_SAMPLERS, 'infill', 'adaptive_p'))}"
            )
    return sampler_names(names)


def lettered_samplers(value: object) -> object:
    """`--sampler-seq`: one letter a sampler. An unknown one is an error, as in `named_samplers`."""
    if not isinstance(value, str):
        return value
    from engine.sampling import SAMPLER_LETTERS, samplers_of_letters

    for letter in value:
        if letter not in SAMPLER_LETTERS:
            known = " ".join(f"{key}={name}" for key, name in SAMPLER_LETTERS.items())
            raise ValueError(f"there is no sampler '{letter}'; known are {known}")
    return samplers_of_letters(value)


def logit_biases(value: object) -> object:
    """`--logit-bias`, each `TOKEN+BIAS` or `TOKEN-BIAS`, as pairs in order. The token need not exist."""
    if not isinstance(value, tuple) or not all(isinstance(text, str) for text in value):
        return value
    return tuple(_bias(text) for text in value)


def _bias(text: str) -> tuple[int, float]:
    found = _BIAS.fullmatch(text)
    try:
        if found is None or not -(2**31) <= int(found[1]) < 2**31:
            raise ValueError
        amount = float(found[3])
        if math.isnan(amount):
            raise ValueError
        if math.isfinite(amount):
            amount = float32(amount)
    except ValueError:
        raise ValueError(f"'{text}' must be TOKEN+BIAS or TOKEN-BIAS, such as 15043+1") from None
    return int(found[1]), -amount if found[2] == "-" else amount


def breakers(value: object) -> object:
    """`--dry-sequence-breaker`, in order; `none` drops those before it."""
    if not isinstance(value, tuple):
        return value
    kept: list[object] = []
    for word in value:
        if word == "none":
            kept.clear()
        else:
            kept.append(word)
    return tuple(kept)


@lru_cache(maxsize=1)
def grammar(*, grammar: str = "", json_schema: str | None = None) -> GrammarParams:
    """`--grammar`, or the grammar of `--json-schema`.

    Raises:
        ValueError: it is none. That a token which it names is not in the vocabulary shows only with a model.
    """
    from engine.errors import InvalidRequest  # slow, and seldom needed
    from engine.grammar import GrammarParams, check_grammar
    from engine.json_schema import json_schema_to_grammar

    try:
        if json_schema is not None:
            # not "output_format", as in the reference: there it has to begin with the chat template's opening
            found = json_schema_to_grammar(json.loads(json_schema))
            params = GrammarParams(found.text, warnings=found.warnings)
        else:
            params = GrammarParams(grammar)
        check_grammar(params)
    except InvalidRequest as error:
        raise ValueError(getattr(error, "reason", None) or str(error)) from None
    return params


def reasoning(limit: int) -> ReasoningParams:
    """The limit of reasoning as the engine takes it."""
    from engine.reasoning_budget import ReasoningParams  # slow, and seldom needed

    return ReasoningParams(limit)


def unescaped(text: str) -> str:
    """A text with C's escapes (`\\n`, `\\r`, `\\t`, quotes, `\\\\`, `\\xNN`) taken for what they mean; others stay.

    Raises:
        ValueError: `\\xNN` makes bytes that are not UTF-8.
    """
    data = re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", _meant, text.encode(), flags=re.DOTALL)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"'{text}' makes bytes that are not UTF-8") from None


def _meant(match: re.Match[bytes]) -> bytes:
    escape = match[1].decode("latin-1")
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    return _ESCAPES[escape].encode() if escape in _ESCAPES else match[0]
