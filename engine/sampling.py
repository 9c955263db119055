"""Sampling parameters as llama-server b11192 resolves them, and its sampler chain.

The chain itself is compiled (`engine/kernels/sampler.cpp`), and so are grammars (`engine/grammar.py`). Here are the
names, the defaults, the limits and the refusals of `server-schema.cpp` and `common_sampler_init`.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_float
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engine import dry, grammar, infill
from engine.dry import dry_breakers
from engine.errors import InvalidRequest
from engine.grammar import (
    NO_GRAMMAR,
    GrammarError,
    GrammarParams,
    accept,
    grammar_from_request,
    grammar_matcher,
    prefill_tokens,
)
from engine.infill import infill_vocabulary
from engine.kernels import _kernels
from engine.logit_bias import logit_bias
from engine.reasoning_budget import NO_REASONING, ReasoningBudget, ReasoningParams, reasoning_from_request

INT32_MAX = 2**31 - 1
FLOAT32_MAX = (2 - 2**-23) * 2.0**127
RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's LLAMA_DEFAULT_SEED: a seed is drawn
DEFAULT_SAMPLERS = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
_ALL_SAMPLERS = (*DEFAULT_SAMPLERS, "infill", "adaptive_p")
SAMPLER_LETTERS: Mapping[str, str] = dict(zip("edskypmxtia", _ALL_SAMPLERS, strict=True))
_SAMPLER_ALIASES = {
    "nucleus": "top_p",
    "temp": "temperature",
    "typ": "typ_p",
    **{name: name for name in _ALL_SAMPLERS},
    **{name.replace("_", "-"): name for name in _ALL_SAMPLERS},
    **{name.replace("_", ""): name for name in _ALL_SAMPLERS},
}


def f32(value: float) -> float:
    """`value` rounded to a 32-bit float, as the reference stores it; infinite when it is out of range."""
    return c_float(value).value


class Vocabulary(dry.Vocabulary, grammar.Vocabulary, infill.Vocabulary, Protocol):
    """What sampling needs of a tokenizer; `engine.tokenizer.Tokenizer` is one."""

    def is_eog(self, token: int, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """One request's sampling, by llama-server's field names and with its defaults.

    Attributes:
        seed: 32 bits; `RANDOM_SEED` (-1 in a request) draws one.
        logit_bias: (token, bias) in the order they are added; the end tokens of `ignore_eos` are among them.
        suppress_tokens: tokens the model file never wants sampled.
        samplers: the chain, in order. `adaptive_p` anywhere ends it with adaptive-p.
        mirostat: 1 or 2 takes the place of every sampler but the temperature.
        n_probs: when positive, so many of the most likely tokens are shown beside each token.
        grammar: what the answer has to follow.
        preserved_tokens: special tokens that are text in the answer.

    The rest is documented in llama-server's README; floats hold 32-bit values.
    """

    seed: int = RANDOM_SEED
    temperature: float = f32(0.8)
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = f32(0.95)
    min_p: float = f32(0.05)
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = f32(0.1)
    typical_p: float = 1.0
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = f32(0.1)
    adaptive_target: float = -1.0
    adaptive_decay: float = f32(0.9)
    ignore_eos: bool = False
    logit_bias: tuple[tuple[int, float], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    n_probs: int = 0
    min_keep: int = 0
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    grammar: GrammarParams = NO_GRAMMAR
    preserved_tokens: frozenset[int] = frozenset()
    reasoning: ReasoningParams = NO_REASONING

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], base: SamplingParams | None = None) -> SamplingParams:
        """The defaults a model file asks for with its `general.sampling.*` keys, as llama.cpp reads them.

        llama.cpp prints the value and reads the number at its start, so a value of another type still counts.

        Args:
            metadata: the file's.
            base: what holds where the file says nothing; llama-server's defaults when None.
        """
        found: dict[str, Any] = {}
        for field, (key, kind) in _METADATA_KEYS.items():
            if f"general.sampling.{key}" in metadata:
                text = _printed(metadata[f"general.sampling.{key}"])
                match = re.match(r"\s*[+-]?\d+" if kind is int else r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)
                if match:
                    number = match[0]
                    found[field] = int(number) if kind is int else f32(float(number))
        sequence = metadata.get("general.sampling.sequence")
        if isinstance(sequence, str) and sequence:
            found["samplers"] = sampler_names(sequence.split(";"))
        suppressed = metadata.get("tokenizer.ggml.suppress_tokens")
        if suppressed is not None:
            n_vocab = len(metadata.get("tokenizer.ggml.tokens", ()))
            found["suppress_tokens"] = tuple(int(token) for token in suppressed if 0 <= token < n_vocab)
        return replace(base or cls(), **found)

    @classmethod
    def from_request(
        cls, fields: Mapping[str, Any], defaults: SamplingParams, vocabulary: Vocabulary
    ) -> SamplingParams:
        """Resolves a request's fields over the model's defaults, in llama-server's order.

        Args:
            fields: by llama-server's names, numbers and booleans already typed; None counts as absent, and what is
                not about sampling is left alone. `logit_bias` and `samplers` are taken in all their JSON forms.
            defaults: the model's.
            vocabulary: reads the text in `logit_bias` and knows the end tokens for `ignore_eos`.

        Raises:
            InvalidRequest: a value out of a hard limit or one the sampler refuses, with llama-server's message; or
                something not reproduced, with the reason.
        """
        found: dict[str, Any] = {}
        for name, limits in _LIMITS.items():
            if fields.get(name) is not None:
                found[name] = limits.apply(name, fields[name])
        if fields.get("seed") is not None:
            found["seed"] = int(fields["seed"]) % 2**32
        if found.get("dry_base", 1.0) < 1.0:
            found["dry_base"] = defaults.dry_base
        if fields.get("backend_sampling"):
            raise InvalidRequest("backend_sampling is not supported: tokens are sampled on the CPU")
        if fields.get("dry_sequence_breakers") is not None:
            found["dry_sequence_breakers"] = tuple(fields["dry_sequence_breakers"])
            if not found["dry_sequence_breakers"]:
                raise InvalidRequest(_NO_BREAKERS)
        found["grammar"], found["preserved_tokens"] = grammar_from_request(fields, defaults.grammar, vocabulary)
        found["reasoning"] = reasoning_from_request(fields, defaults.reasoning, vocabulary)
        bias = list(defaults.logit_bias)
        if fields.get("logit_bias") is not None:
            bias = logit_bias(fields["logit_bias"], vocabulary)
        if fields.get("ignore_eos") is not None:
            found["ignore_eos"] = bool(fields["ignore_eos"])
            if found["ignore_eos"]:
                bias += [(token, -math.inf) for token in sorted(vocabulary.eog)]
        found["logit_bias"] = tuple(bias)
        if fields.get("samplers") is not None:
            found["samplers"] = _samplers(fields["samplers"], defaults.samplers)
        params = replace(defaults, **found)
        params.check()
        return params

    def check(self) -> None:
        """Raises InvalidRequest for what llama-server's sampler refuses."""
        reason = "Failed to initialize samplers: "
        inverse = f32(1.0 / self.repeat_penalty) if self.repeat_penalty > 0.0 else math.inf
        if not math.isfinite(self.repeat_penalty) or not math.isfinite(inverse):
            raise InvalidRequest(reason + "penalty_repeat must be finite and greater than 0")
        if not math.isfinite(self.frequency_penalty):
            raise InvalidRequest(reason + "penalty_freq must be finite")
        if not math.isfinite(self.presence_penalty):
            raise InvalidRequest(reason + "penalty_present must be finite")
        if self.mirostat not in (0, 1, 2):  # a model file may say so; the reference aborts
            raise InvalidRequest(reason + "mirostat must be 0, 1 or 2")


_METADATA_KEYS: Mapping[str, tuple[str, type]] = {
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "min_p": ("min_p", float),
    "xtc_probability": ("xtc_probability", float),
    "xtc_threshold": ("xtc_threshold", float),
    "temperature": ("temp", float),
    "repeat_last_n": ("penalty_last_n", int),
    "repeat_penalty": ("penalty_repeat", float),
    "mirostat": ("mirostat", int),
    "mirostat_tau": ("mirostat_tau", float),
    "mirostat_eta": ("mirostat_eta", float),
}


@dataclass(frozen=True, slots=True)
class _Limits:
    """What a number may be: clamped to [low, high], or refused outside of it when `hard`."""

    kind: type
    low: float = -FLOAT32_MAX
    high: float = FLOAT32_MAX
    hard: bool = False

    def apply(self, name: str, value: float) -> float:
        number: float = f32(value) if self.kind is float else int(value)
        if self.hard and not self.low <= number <= self.high:
            low, high, got = (f"{x:f}" if self.kind is float else f"{x}" for x in (self.low, self.high, number))
            raise InvalidRequest(f"Field '{name}': Value must be between {low} <= value <= {high}, but got {got}")
        return max(self.low, min(self.high, number))


_ANY = _Limits(float)
_SHARE = _Limits(float, 0.0, 1.0)
_COUNT = _Limits(int, 0, INT32_MAX, hard=True)
_LIMITS: Mapping[str, _Limits] = {
    "top_k": _Limits(int, 0, INT32_MAX),
    "top_p": _SHARE,
    "min_p": _SHARE,
    "top_n_sigma": _ANY,
    "xtc_probability": _SHARE,
    "xtc_threshold": _SHARE,
    "typical_p": _ANY,
    "temperature": _Limits(float, 0.0, math.inf),
    "dynatemp_range": _ANY,
    "dynatemp_exponent": _ANY,
    "repeat_last_n": _COUNT,
    "repeat_penalty": _ANY,
    "frequency_penalty": _ANY,
    "presence_penalty": _ANY,
    "dry_multiplier": _ANY,
    "dry_base": _Limits(float, -math.inf, math.inf),
    "dry_allowed_length": _COUNT,
    "dry_penalty_last_n": _COUNT,
    "mirostat": _Limits(int, 0, 2),
    "mirostat_tau": _ANY,
    "mirostat_eta": _ANY,
    "adaptive_target": _Limits(float, -FLOAT32_MAX, 1.0),
    "adaptive_decay": _Limits(float, 0.0, f32(0.99), hard=True),
    "n_probs": _Limits(int, -INT32_MAX - 1, INT32_MAX),
    "min_keep": _COUNT,
}
_NO_BREAKERS = "Field 'dry_sequence_breakers': Error: dry_sequence_breakers must be a non-empty array of strings"


class TokenProbabilities(NamedTuple):
    """How likely a sampled token was, and the most likely tokens in its place.

    Attributes:
        prob, logprob: 32-bit floats; the logarithm of 0 is the lowest float.
        best: (token, prob, logprob), the most likely first.
    """

    prob: float
    logprob: float
    best: list[tuple[int, float, float]]


def probabilities(logits: NDArray[np.float32], n_best: int, token: int) -> TokenProbabilities:
    """By the model's own logits, (n_vocab,), before any sampler. `n_best` (at least 1) can change a last bit."""
    return TokenProbabilities(*_kernels.probabilities(logits, n_best, token))


class Sampler:
    """The sampler chain of one answer, and its grammar.

    Args:
        params: the resolved parameters.
        vocabulary: gives the vocabulary's size and, for DRY, its text.
        keep_candidates: keep what each draw chose from, for `candidates()`.

    Raises:
        InvalidRequest: parameters that are refused.
    """

    def __init__(self, params: SamplingParams, vocabulary: Vocabulary, *, keep_candidates: bool = False) -> None:
        params.check()
        #: Tokens drawn again because the grammar did not take the first draw, and nanoseconds spent on the grammar.
        self.n_resampled = self.grammar_ns = 0
        #: The seed really used: the request's, or the one drawn.
        self.seed = secrets.randbelow(RANDOM_SEED) if params.seed == RANDOM_SEED else params.seed
        native = native_params(params, self.seed)
        # A flag may name any token; the reference, too, finds none for one that is not there.
        bias = [(token, amount) for token, amount in params.logit_bias if 0 <= token < vocabulary.n_vocab]
        bias += [(token, -math.inf) for token in params.suppress_tokens]
        breakers: list[tuple[int, list[int]]] = []
        if params.dry_multiplier != 0.0 and params.dry_base >= 1.0 and params.dry_penalty_last_n > 0:
            breakers = dry_breakers(vocabulary, params.dry_sequence_breakers)
        words = infill_vocabulary(vocabulary) if _kernels.Stage.INFILL in native.stages else None
        self._chain = _kernels.SamplerChain(native, vocabulary.n_vocab, bias, breakers, keep_candidates, words)
        self._grammar = grammar_matcher(params.grammar, vocabulary) if params.grammar.text else None
        self._is_lazy = params.grammar.lazy
        self._reasoning = _reasoning_budget(params, vocabulary)

    def accept_many(self, tokens: Sequence[int]) -> None:
        """Counts the prompt's tokens towards the penalties and DRY, as llama-server does before the first draw."""
        self._chain.accept_many(tokens)

    def accept(self, token: int) -> None:
        """Counts a token of the answer, and takes it in the grammar.

        Raises:
            InvalidRequest: the grammar cannot go on after it.
        """
        read = self._reads_in_grammar(token)
        if self._grammar is not None:
            started = time.perf_counter_ns()
            with _grammar_errors():
                for one in read:
                    accept(self._grammar, one)
            self.grammar_ns += time.perf_counter_ns() - started
        self._chain.accept(token)

    def sample(self, logits: NDArray[np.float32]) -> int:
        """Draws a token from float32 logits of shape (n_vocab,). It is not accepted: call `accept` with it.

        As in llama-server, a token that the grammar does not take is drawn again from those that it does; the chain's
        generators have moved on by then. What reasoning is forced to end with comes before all of that.

        Raises:
            InvalidRequest: the grammar is too ambiguous to go on.
        """
        if self._reasoning is not None:
            logits = self._reasoning.apply(logits)
        token: int = self._chain.sample(logits)
        if self._grammar is None or not self._grammar_holds:
            return token
        started = time.perf_counter_ns()
        masked = None
        with _grammar_errors():
            if not self._grammar.allows(token):
                masked = logits.copy()
                self._grammar.mask(masked)
        self.grammar_ns += time.perf_counter_ns() - started
        if masked is None:
            return token
        self.n_resampled += 1
        return self._chain.sample(masked)

    @property
    def _grammar_holds(self) -> bool:
        """A grammar that waits for its trigger does not look at reasoning."""
        return not (self._is_lazy and self._reasoning is not None and self._reasoning.running)

    def _reads_in_grammar(self, token: int) -> Sequence[int]:
        """What the grammar reads when the answer goes on with `token`: after reasoning, the marker that ended it."""
        held = self._grammar_holds
        if self._reasoning is not None:
            self._reasoning.accept(token)
            if not held:
                return (self._reasoning.ended_by or ()) if not self._reasoning.running else ()
        return (token,)

    def probabilities(self, n_best: int, token: int) -> TokenProbabilities:
        """By what the last draw chose from; only with `keep_candidates`."""
        return TokenProbabilities(*self._chain.probabilities(n_best, token))

    def candidates(self) -> list[tuple[int, float, float]]:
        """(token, logit, probability) of what the last draw chose from, in the chain's order."""
        found: list[tuple[int, float, float]] = self._chain.candidates()
        return found


def _reasoning_budget(params: SamplingParams, vocabulary: Vocabulary) -> ReasoningBudget | None:
    """Follows reasoning where that matters: it has a limit, or a grammar waits for its trigger."""
    reasoning = params.reasoning
    if not (reasoning.start and any(reasoning.ends) and (params.grammar.lazy or reasoning.limit >= 0)):
        return None
    budget = ReasoningBudget(reasoning, vocabulary)
    for token in prefill_tokens(params.grammar.generation_prompt, vocabulary):
        budget.accept(token)
    return budget


@contextmanager
def _grammar_errors() -> Iterator[None]:
    try:
        yield
    except GrammarError as error:
        raise InvalidRequest(str(error)) from None


_NATIVE_FIELDS = (
    "min_keep",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "repeat_last_n",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
)
_MIROSTATS = {1: _kernels.Ending.MIROSTAT, 2: _kernels.Ending.MIROSTAT_V2}


def native_params(params: SamplingParams, seed: int) -> _kernels.SamplerParams:
    """What the compiled chain takes, for parameters that `check` lets through."""
    native = _kernels.SamplerParams()
    for name in _NATIVE_FIELDS:
        setattr(native, name, getattr(params, name))
    native.seed = seed
    native.adaptive_decay = max(0.0, min(f32(0.99), params.adaptive_decay))  # a flag may say more or less
    native.stages, native.ending = _chain_of(params)
    if params.mirostat:
        native.dynatemp_range = 0.0  # the reference puts the plain temperature before Mirostat
    return native


def _chain_of(params: SamplingParams) -> tuple[list[_kernels.Stage], _kernels.Ending]:
    """The samplers in order and how the chain ends, as `common_sampler_init` builds it."""
    if params.mirostat:
        return [_kernels.Stage.TEMPERATURE], _MIROSTATS[params.mirostat]
    stages = [_kernels.Stage[name.upper()] for name in params.samplers if name != "adaptive_p"]
    return stages, _kernels.Ending.ADAPTIVE_P if "adaptive_p" in params.samplers else _kernels.Ending.PLAIN


def sampler_names(names: Iterable[str]) -> tuple[str, ...]:
    """Sampler names in any spelling llama-server takes, as it shows them; unknown ones are dropped, as it does."""
    lowered = (name.lower() for name in names)
    return tuple(_SAMPLER_ALIASES[name] for name in lowered if name in _SAMPLER_ALIASES)


def samplers_of_letters(letters: str) -> tuple[str, ...]:
    """The same by one letter each."""
    return tuple(SAMPLER_LETTERS[letter] for letter in letters if letter in SAMPLER_LETTERS)


def _samplers(value: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, str):
        return samplers_of_letters(value)
    if isinstance(value, Sequence):
        return sampler_names(value)
    return default  # llama-server takes no notice of another type


def _printed(value: Any) -> str:
    """A metadata value as llama.cpp prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return f"{value:f}"
    return str(value)
