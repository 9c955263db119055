"""Parameters of a model as text: what a Modelfile's PARAMETER or a person's `/set parameter` says, as typed values.

Names, types and messages are those of Ollama's `api.FormatParams`; `min_keep` and Mirostat's three are this server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from registry.errors import RegistryError

Value = bool | int | float | list[str]

FORMS: Final[Mapping[str, Literal["int", "float", "bool", "strings"]]] = {
    **dict.fromkeys(("num_keep", "seed", "num_predict", "top_k", "repeat_last_n", "min_keep", "mirostat"), "int"),
    **dict.fromkeys(("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict"), "int"),
    **dict.fromkeys(("top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty"), "float"),
    **dict.fromkeys(("frequency_penalty", "mirostat_tau", "mirostat_eta"), "float"),
    "use_mmap": "bool",
    "stop": "strings",
}
"""The type of each parameter."""

DEPRECATED: Final = frozenset({"penalize_newline", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mlock"})
"""What older Modelfiles may have: Ollama's command says so and leaves it out."""

_INT: Final = re.compile(r"[+-]?[0-9]{1,40}")  # Python reads no number of thousands of digits
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


class ParameterError(RegistryError):
    """A parameter that there is not, or a value it cannot have; the message is Ollama's."""


def parse_parameter(name: str, values: Sequence[str]) -> Value:
    """The value of one parameter.

    Args:
        name: Ollama's name for it.
        values: at least one text; all count for `stop`, the first one for every other.

    Raises:
        ParameterError: there is no such parameter, or the text is no value of its type.
    """
    form = FORMS.get(name)
    if form is None:
        raise ParameterError(f"unknown parameter '{name}'")
    if form == "strings":
        return list(values)
    text = values[0]
    if form == "bool" and text in _BOOLS:
        return _BOOLS[text]
    if form == "int" and _INT.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    if form == "float" and _FLOAT.fullmatch(text) and abs(number := float(text)) <= 3.4028234663852886e38:
        return float(str(np.float32(number)))  # the shortest text that is the same number in Ollama's 32 bits
    raise ParameterError(f"invalid {form} value [{' '.join(values)}]")


def parse_parameters(pairs: Iterable[tuple[str, str]]) -> dict[str, Value]:
    """The values of a Modelfile's PARAMETER lines: of a name given twice the last counts, but every `stop` does.

    Raises:
        ParameterError: as `parse_parameter`.
    """
    found: dict[str, Value] = {}
    for name, text in pairs:
        value, before = parse_parameter(name, [text]), found.get(name)
        if isinstance(before, list) and isinstance(value, list):
            before += value
        else:
            found[name] = value
    return found
