"""What `options` and `keep_alive` of an Ollama request mean. Pure functions.

Each option is honoured, ignored because it changes no token here, or refused; nothing is dropped in silence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from server.durations import go_duration
from server.wire.fields import MAX_WORDS
from server.wire.golang import InvalidBody, interface_type, kind, quote

FOREVER: Final = math.inf
"""A keep-alive without end."""

_SAMPLING: Final = {
    "temperature": "float32",
    "top_k": "integer",
    "top_p": "float32",
    "min_p": "float32",
    "min_keep": "integer",
    "typical_p": "float32",
    "seed": "integer",
    "repeat_penalty": "float32",
    "repeat_last_n": "integer",
    "presence_penalty": "float32",
    "frequency_penalty": "float32",
    "mirostat": "integer",
    "mirostat_eta": "float32",
    "mirostat_tau": "float32",
}
"""Options that go to the sampler under the same name."""

_IGNORED: Final = {
    **dict.fromkeys(("num_thread", "num_gpu", "main_gpu", "num_batch", "num_keep", "draft_num_predict"), "integer"),
    **dict.fromkeys(("use_mmap", "use_mlock", "low_vram", "numa", "f16_kv", "vocab_only", "logits_all"), "boolean"),
    "penalize_newline": "boolean",
}
"""Options that schedule work or belong to something that is off: they change no token here."""

_NEUTRAL: Final = {"tfs_z": ("float32", 1.0), "embedding_only": ("boolean", False)}
"""Options taken only at the value that does nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a request's `options` ask for.

    Attributes:
        sampling: values for the sampler, by llama-server's request field names; only those given.
        num_predict: most tokens of the answer, -1 for the server's limit (Ollama's 0, -1 and -2 all mean none of
            their own).
        num_ctx: the context the prompt must fit, None for the served one.
        stop: strings that end the answer.
        ignored: names that were given and change nothing.
    """

    sampling: Mapping[str, int | float] = field(default_factory=dict)
    num_predict: int = -1
    num_ctx: int | None = None
    stop: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def parse_options(options: Mapping[str, Any]) -> Options:
    """What `options` ask for. A null leaves an option at its default.

    Raises:
        InvalidBody: for a wrong type (Ollama's text) or an option that is not honoured.
    """
    given = {name: value for name, value in options.items() if value is not None}
    sampling: dict[str, int | float] = {}
    ignored: list[str] = []
    for name, value in given.items():
        if name in _SAMPLING:
            sampling[name] = _number(name, value, _SAMPLING[name])
        elif name in _IGNORED:
            _number(name, value, _IGNORED[name])
            ignored.append(name)
        elif name in _NEUTRAL:
            form, neutral = _NEUTRAL[name]
            if _number(name, value, form) != neutral:
                raise InvalidBody(f"option {quote(name)} is not supported")
            ignored.append(name)
        elif name not in ("num_predict", "num_ctx", "stop"):
            raise InvalidBody(f"invalid option provided: {quote(name)}")
    num_predict = int(_number("num_predict", given.get("num_predict", -1), "integer"))
    num_ctx = given.get("num_ctx")
    return Options(
        sampling=sampling,
        num_predict=num_predict if num_predict > 0 else -1,
        num_ctx=None if num_ctx is None else int(_number("num_ctx", num_ctx, "integer")),
        stop=_stop(given.get("stop", [])),
        ignored=tuple(ignored),
    )


def parse_keep_alive(value: Any) -> float | None:
    """Seconds of a `keep_alive`: a Go duration, or a number of seconds; anything negative is for ever.

    Returns:
        None for null and for empty text: the server's default.

    Raises:
        InvalidBody: with Go's text for a bad duration, Ollama's for another type.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            seconds = go_duration(value)
        except ValueError as error:
            raise InvalidBody(str(error)) from None
    elif kind(value) == "number":
        seconds = float(value)
    else:
        raise InvalidBody(f"Unsupported type: '{interface_type(value)}'")
    return FOREVER if seconds < 0 else seconds


def _number(name: str, value: Any, form: str) -> int | float:
    """An option's value as Ollama converts it: a number for an integer is cut, nothing else is converted."""
    article = f"option {quote(name)} must be of type {form}"
    if kind(value) != ("bool" if form == "boolean" else "number"):
        raise InvalidBody(article)
    if form != "integer":
        return value if form == "boolean" else float(value)
    number = int(value)
    if name == "seed":
        return number & 0xFFFFFFFF  # llama-server's seed is 32 bits; -1 draws a new one
    if not -(2**31) <= number < 2**31:
        raise InvalidBody(article)
    return number


def _stop(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidBody('option "stop" must be of type array')
    if len(value) > MAX_WORDS:
        raise InvalidBody(f'option "stop" has more than {MAX_WORDS} items')
    if not all(isinstance(item, str) for item in value):
        raise InvalidBody('option "stop" must be of an array of strings')
    return tuple(item for item in value if item)
