"""Sampling flags put to the reference: what they make of `/props`, of a request that says nothing and of one that does.

The models are small and seeded; one says nothing about sampling, the other has defaults of its own for everything a
file can have some for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from testing.gguf_writer import ModelFile
from testing.oracles.sentencepiece_shapes import model

OWN_DEFAULTS: Final[Mapping[str, Any]] = {
    "sequence": "top_k;min_p;temperature",
    "top_k": 7,
    "top_p": 0.5,
    "min_p": 0.25,
    "xtc_probability": 0.125,
    "xtc_threshold": 0.2,
    "temp": 0.6,
    "penalty_last_n": 33,
    "penalty_repeat": 1.2,
    "mirostat_tau": 3.0,
    "mirostat_eta": 0.3,
}
"""`general.sampling.*` of the second model."""

FLAGS: Final[Sequence[Sequence[str]]] = (
    (),
    ("--samplers", "top_k;temperature"),
    ("--samplers", "Top-K;typ;MIN-P;temp;nucleus"),
    ("--samplers", "penalties;dry;topk;infill;adaptive-p"),
    ("--samplers", ""),
    ("--sampler-seq", "kt"),
    ("--sampling-seq", "edskypmxtia"),
    ("--sampler-seq", ""),
    ("--temp", "0"),
    ("--temperature", "-1"),
    ("--temp", "1.7", "--top-k", "12", "--top-p", "0.7", "--min-p", "0.3"),
    ("--top-k", "-1", "--top-p", "2", "--min-p", "-1"),
    ("--top-nsigma", "1.5", "--xtc-probability", "0.5", "--xtc-threshold", "0.3"),
    ("--top-n-sigma", "-2"),
    ("--typical", "0.6", "--repeat-last-n", "12", "--repeat-penalty", "1.3"),
    ("--typical-p", "0.4", "--repeat-last-n", "0"),
    ("--presence-penalty", "0.4", "--frequency-penalty", "-0.3"),
    ("--dry-multiplier", "0.8", "--dry-base", "2.5", "--dry-allowed-length", "1", "--dry-penalty-last-n", "99"),
    ("--dry-multiplier", "0.8", "--dry-sequence-breaker", "\\n", "--dry-sequence-breaker", "a\\x41\\q"),
    ("--no-escape", "--dry-multiplier", "0.8", "--dry-sequence-breaker", "\\n"),
    ("--dry-multiplier", "0.8", "--dry-sequence-breaker", "x", "--dry-sequence-breaker", "none"),
    ("--dynatemp-range", "0.4", "--dynatemp-exp", "1.5"),
    ("--mirostat", "1", "--mirostat-lr", "0.2", "--mirostat-ent", "4"),
    ("--mirostat", "2"),
    ("--mirostat-ent", "2.5"),
    ("--samplers", "top_k;adaptive_p", "--adaptive-target", "0.4", "--adaptive-decay", "0.5"),
    ("--sampler-seq", "ka", "--adaptive-target", "3", "--adaptive-decay", "7"),
    ("--ignore-eos",),
    ("--ignore-eos", "--logit-bias", "20+1.5", "-l", "21-2"),
    ("-l", "30+5", "-l", "30-inf", "-l", " 31 + -2.5", "-l", "999999+1", "-l", "-4+1"),
    ("--logit-bias", "300+100"),
    ("-s", "123"),
    ("--seed", "-1", "--temp", "0"),
    ("--seed", "4294967295", "--top-k", "1"),
    ("--top-k", "0", "--top-k", "3"),
)

REFUSED: Final[Sequence[Sequence[str]]] = (
    *(("--repeat-last-n", value) for value in ("-1", "x", "99999999999")),
    *(("--repeat-penalty", value) for value in ("0", "-1", "nan", "inf", "1e-39", "x")),
    *((f"--{name}-penalty", value) for name in ("presence", "frequency") for value in ("nan", "inf", "1e39", "x")),
    *(("--dry-penalty-last-n", value) for value in ("-1", "x")),
    *((f"--{name}", "x") for name in ("temp", "top-k", "top-p", "min-p", "top-nsigma", "typical", "seed", "mirostat")),
    *((f"--{name}", "x") for name in ("dynatemp-range", "dynatemp-exp", "dry-multiplier", "dry-base", "mirostat-lr")),
    *((f"--{name}", "1e39") for name in ("temp", "top-p", "mirostat-ent", "adaptive-target", "adaptive-decay")),
    *(("--mirostat", value) for value in ("3", "-1")),
    *(("--logit-bias", value) for value in ("5", "x+1", "5*3", "5+", "5+x", "+1", "", "99999999999+1")),
    *((name,) for name in ("--samplers", "--sampler-seq", "-l", "--temp", "--dry-sequence-breaker")),
)
"""What the reference does not start with (the last ones lack their value)."""

SAYS_NOTHING: Final[Mapping[str, Any]] = {"prompt": "Hello world Hello world", "n_predict": 6, "return_tokens": True}
SAYS_SOME: Final[Mapping[str, Any]] = {
    **SAYS_NOTHING,
    "seed": 3,
    "temperature": 0.9,
    "samplers": "kt",
    "mirostat": 0,
    "logit_bias": [[5, 1]],
    "ignore_eos": False,
}
SHOWN: Final = ("content", "tokens", "generation_settings")
"""What is kept of an answer."""


def requests(flags: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """What is asked of a server with these flags; a seed that they draw is drawn by a request instead."""
    drawn = not {"-s", "--seed"} & set(flags)
    return ({**SAYS_NOTHING, "seed": 5} if drawn else SAYS_NOTHING), SAYS_SOME


def model_file(*, own_defaults: bool) -> ModelFile:
    """The small model, with or without sampling defaults of its own."""
    file = model()
    if own_defaults:
        file.metadata.update({f"general.sampling.{name}": value for name, value in OWN_DEFAULTS.items()})
    return file
