"""The sampling settings: what answers are drawn with unless the request says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from server import sampling_flags
from server.setting_types import Finite, Flag, Switch, Whole, reason

_DEFAULT_ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
_GRAMMAR_FIELDS = ("grammar", "grammar_file", "json_schema", "json_schema_file")


def _sampling(names: str, env: str = "", metavar: str = "N", *, off: str = "", many: bool = False) -> Flag:
    heading = "Sampling defaults (a request's own value wins)"
    return Flag(tuple(names.split()), tuple(env.split()), metavar, tuple(off.split()), heading, many)


class SamplingSettings(BaseModel):
    """The part of `server.settings.Settings` that decides the draws. None: the model file's value, else
    llama-server's.
    """

    samplers: Annotated[
        Annotated[tuple[str, ...], BeforeValidator(sampling_flags.named_samplers)] | None,
        _sampling("--samplers", metavar="NAMES"),
    ] = Field(None, description="the samplers in order, ';' between them (" + ";".join(_DEFAULT_ORDER) + ")")
    sampler_sequence: Annotated[
        Annotated[tuple[str, ...], BeforeValidator(sampling_flags.lettered_samplers)] | None,
        _sampling("--sampler-seq --sampling-seq", metavar="LETTERS"),
    ] = Field(None, description="the same by letters (edskypmxtia); a model file's own order wins over this one")
    seed: Annotated[int | None, _sampling("-s --seed")] = Field(
        None, ge=-1, le=2**32 - 1, description="seed of the random numbers (-1: a new one each time)"
    )
    temperature: Annotated[Finite | None, _sampling("--temp --temperature", "LLAMA_ARG_TEMPERATURE")] = Field(
        None, description="temperature (0.8; 0 or less: greedy)"
    )
    top_k: Annotated[Whole | None, _sampling("--top-k", "LLAMA_ARG_TOP_K")] = Field(
        None, description="keep the k likeliest tokens (40; 0: all)"
    )
    top_p: Annotated[Finite | None, _sampling("--top-p", "LLAMA_ARG_TOP_P")] = Field(
        None, description="keep the likeliest tokens up to this mass (0.95; 1: all)"
    )
    min_p: Annotated[Finite | None, _sampling("--min-p", "LLAMA_ARG_MIN_P")] = Field(
        None, description="drop tokens below this share of the likeliest (0.05; 0: none)"
    )
    top_n_sigma: Annotated[Finite | None, _sampling("--top-nsigma --top-n-sigma")] = Field(
        None, description="keep tokens within n standard deviations (-1: off)"
    )
    xtc_probability: Annotated[Finite | None, _sampling("--xtc-probability")] = Field(
        None, description="XTC probability (0: off)"
    )
    xtc_threshold: Annotated[Finite | None, _sampling("--xtc-threshold")] = Field(
        None, description="XTC threshold (0.1)"
    )
    typical_p: Annotated[Finite | None, _sampling("--typical --typical-p")] = Field(
        None, description="locally typical mass (1: off)"
    )
    repeat_last_n: Annotated[Whole | None, _sampling("--repeat-last-n")] = Field(
        None, ge=0, description="tokens the penalties look back (64; 0: off)"
    )
    repeat_penalty: Annotated[Finite | None, _sampling("--repeat-penalty", "LLAMA_ARG_REPEAT_PENALTY")] = Field(
        None, gt=0, description="penalty of a repeated token (1: off)"
    )
    presence_penalty: Annotated[Finite | None, _sampling("--presence-penalty", "LLAMA_ARG_PRESENCE_PENALTY")] = Field(
        None, description="penalty of a token that occurred (0: off)"
    )
    frequency_penalty: Annotated[Finite | None, _sampling("--frequency-penalty", "LLAMA_ARG_FREQUENCY_PENALTY")] = (
        Field(None, description="penalty for each occurrence of a token (0: off)")
    )
    dry_multiplier: Annotated[Finite | None, _sampling("--dry-multiplier")] = Field(
        None, description="DRY multiplier (0: off)"
    )
    dry_base: Annotated[Finite | None, _sampling("--dry-base")] = Field(None, ge=1, description="DRY base (1.75)")
    dry_allowed_length: Annotated[Whole | None, _sampling("--dry-allowed-length")] = Field(
        None, description="DRY: repeated length that is free (2)"
    )
    dry_penalty_last_n: Annotated[Whole | None, _sampling("--dry-penalty-last-n")] = Field(
        None, ge=0, description="DRY: tokens it looks back (64; 0: off)"
    )
    dynatemp_range: Annotated[Finite | None, _sampling("--dynatemp-range")] = Field(
        None, description="dynamic temperature range (0: off)"
    )
    dynatemp_exponent: Annotated[Finite | None, _sampling("--dynatemp-exp")] = Field(
        None, description="dynamic temperature exponent (1)"
    )
    escape: Annotated[Switch, _sampling("-e --escape", metavar="", off="--no-escape")] = Field(
        True, description="read \\n, \\t and the like in --dry-sequence-breaker"
    )
    dry_sequence_breakers: Annotated[
        Annotated[tuple[str, ...], BeforeValidator(sampling_flags.breakers)] | None,
        _sampling("--dry-sequence-breaker", metavar="TEXT", many=True),
    ] = Field(None, description="DRY: a text that repetitions do not reach over, instead of the usual ones; none: none")
    mirostat: Annotated[int | None, _sampling("--mirostat")] = Field(
        None, ge=0, le=2, description="Mirostat 1 or 2 instead of the samplers but for the temperature (0: off)"
    )
    mirostat_eta: Annotated[Finite | None, _sampling("--mirostat-lr")] = Field(
        None, description="Mirostat's learning rate (0.1)"
    )
    mirostat_tau: Annotated[Finite | None, _sampling("--mirostat-ent")] = Field(
        None, description="Mirostat's target entropy (5)"
    )
    adaptive_target: Annotated[Finite | None, _sampling("--adaptive-target")] = Field(
        None, description="adaptive-p: prefer tokens near this probability (-1: off)"
    )
    adaptive_decay: Annotated[Finite | None, _sampling("--adaptive-decay")] = Field(
        None, description="adaptive-p: how much the past counts, up to 0.99 (0.9)"
    )
    ignore_eos: Annotated[Switch, _sampling("--ignore-eos", metavar="")] = Field(
        False, description="never draw a token that ends the answer"
    )
    logit_bias: Annotated[
        Annotated[tuple[tuple[int, float], ...], BeforeValidator(sampling_flags.logit_biases)] | None,
        _sampling("-l --logit-bias", metavar="TOKEN+BIAS", many=True),
    ] = Field(None, description="make a token likelier (15043+1) or less likely (15043-1)")
    grammar: Annotated[str | None, _sampling("--grammar", metavar="GRAMMAR")] = Field(
        None, description="answers follow this grammar, in GBNF"
    )
    grammar_file: Annotated[str | None, _sampling("--grammar-file", metavar="FILE")] = Field(
        None, description="answers follow the grammar in this file"
    )
    json_schema: Annotated[str | None, _sampling("-j --json-schema", metavar="SCHEMA")] = Field(
        None, description="answers are JSON that follows this schema"
    )
    json_schema_file: Annotated[str | None, _sampling("-jf --json-schema-file", metavar="FILE")] = Field(
        None, description="answers are JSON that follows the schema in this file"
    )

    @field_validator("seed")
    @classmethod
    def _seed(cls, value: int | None) -> int | None:
        """-1 as the 32 bits it is in a request."""
        return None if value is None else value % 2**32

    @field_validator("temperature")
    @classmethod
    def _temperature(cls, value: float | None) -> float | None:
        """Below zero is zero, as in a request."""
        return None if value is None else max(0.0, value)

    @field_validator("repeat_penalty")
    @classmethod
    def _repeat_penalty(cls, value: float | None) -> float | None:
        if value is not None:
            sampling_flags.float32(1.0 / value)
        return value

    @field_validator("sampler_sequence")
    @classmethod
    def _one_order(cls, value: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        if value is not None and info.data.get("samplers") is not None:
            raise ValueError("give --samplers or --sampler-seq, not both")
        return value

    @field_validator("dry_sequence_breakers")
    @classmethod
    def _breakers(cls, value: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        if value is None or not info.data.get("escape"):
            return value
        return tuple(sampling_flags.unescaped(text) for text in value)

    @field_validator(*_GRAMMAR_FIELDS)
    @classmethod
    def _grammar(cls, value: str | None, info: ValidationInfo) -> str | None:
        """A file gives its text. What is no grammar is refused before a model is loaded."""
        if value is None:
            return None
        name = str(info.field_name)
        if any(info.data.get(other) is not None for other in _GRAMMAR_FIELDS):
            raise ValueError("only one grammar or schema may be given")
        if name.endswith("_file"):
            try:
                value = Path(value).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"failed to open file '{value}': {reason(error)}") from error
        sampling_flags.grammar(**{name.removesuffix("_file"): value})
        return value

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling defaults the user gave, by llama-server's request field names; they beat the model file's.
        `sampler_sequence` is `samplers` that do not.
        """
        given = ((name, getattr(self, name)) for name in _DRAW_FIELDS)
        found = {name: value for name, value in given if value is not None and value is not False}
        for name in _GRAMMAR_FIELDS:
            if (text := getattr(self, name)) is not None:
                found["grammar"] = sampling_flags.grammar(**{name.removesuffix("_file"): text})
        return found


_DRAW_FIELDS = tuple(name for name in SamplingSettings.model_fields if name not in ("escape", *_GRAMMAR_FIELDS))
