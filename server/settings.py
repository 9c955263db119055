"""Every setting of the server in one place: its flag, its environment variables, its default.

`Settings` is the one class; `server.cli` builds its flags from it. A flag beats the environment, the environment beats
the default. Flags and `LLAMA_ARG_*` names are llama-server b11192's; `OLLAMA_HOST` and `OLLAMA_KEEP_ALIVE` are read as
Ollama reads them; `BANKML_*` beats both. An empty variable counts as unset.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from server import sampling_flags
from server.durations import keep_alive_seconds

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11434


class SettingsError(Exception):
    """A flag or variable has a value that cannot be used; the text names it and is fit for one line on stderr."""


@dataclass(frozen=True, slots=True)
class Flag:
    """How a setting is spelled outside: command-line names, names that switch it off, environment variables.

    Args:
        names: llama-server's spellings, or ours where it has none.
        env: variables in order of precedence, the first one set wins.
        metavar: what `--help` calls the value; empty for a switch.
        off: spellings that turn a switch off. Its variable then has a `LLAMA_ARG_NO_` twin, as llama-server's have.
        group: the heading in `--help`.
        many: it may be given several times, and all of them count.
    """

    names: tuple[str, ...]
    env: tuple[str, ...] = ()
    metavar: str = ""
    off: tuple[str, ...] = ()
    group: str = "Server"
    many: bool = False


def _flag(names: str, env: str = "", metavar: str = "", off: str = "", group: str = "Server") -> Flag:
    return Flag(tuple(names.split()), tuple(env.split()), metavar, tuple(off.split()), group)


def _sampling(names: str, env: str = "", metavar: str = "N", *, off: str = "", many: bool = False) -> Flag:
    heading = "Sampling defaults (a request's own value wins)"
    return Flag(tuple(names.split()), tuple(env.split()), metavar, tuple(off.split()), heading, many)


def _switch(value: object) -> object:
    """llama-server's words for true and false; anything else is left for pydantic to refuse."""
    words = {"on": True, "enabled": True, "true": True, "1": True}
    words |= {"off": False, "disabled": False, "false": False, "0": False}
    return words.get(value, value) if isinstance(value, str) else value


def _commas(value: object) -> object:
    """A comma-separated row, quotes as in CSV, as llama-server's `--api-key` and `--alias` read it."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in next(csv.reader([value]), []) if part.strip())


def _sorted_commas(value: object) -> object:
    """The same as a set in order: of several aliases llama-server shows the first in alphabetical order."""
    parts = _commas(value)
    return tuple(sorted(set(parts))) if isinstance(parts, tuple) else parts


def _reasoning(value: object) -> object:
    """llama-server's words for thinking."""
    if value in ("auto", "-1"):
        return "auto"
    switched = _switch(value)
    return ("on" if switched else "off") if isinstance(switched, bool) else value


Switch = Annotated[bool, BeforeValidator(_switch)]
NameSet = Annotated[tuple[str, ...], BeforeValidator(_sorted_commas)]
Names = Annotated[tuple[str, ...], BeforeValidator(_commas)]
Finite = Annotated[float, AfterValidator(sampling_flags.float32)]
Whole = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
# What the engine's cache can hold; llama-server's other types change numbers and are refused until it can.
CacheType = Literal["f16", "q8_0"]

_DEFAULT_ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")

_MODEL, _CONTEXT, _ANSWERS, _ACCESS = "Model", "Context and batches", "Chat answers", "Access"
_LATER = "Taken, without effect yet"


_GRAMMAR_FIELDS = ("grammar", "grammar_file", "json_schema", "json_schema_file")


class Settings(BaseModel):
    """Everything the server can be told. Frozen; unknown names are an error.

    Build it with `load_settings`, which reads the environment too and turns validation errors into one line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # -- model
    model: Annotated[Path | None, _flag("-m --model", "BANKML_MODEL LLAMA_ARG_MODEL", "FILE", group=_MODEL)] = Field(
        None, description="GGUF file (default: SmolLM2-135M-Instruct, fetched once)"
    )
    alias: Annotated[NameSet, _flag("-a --alias", "BANKML_ALIAS LLAMA_ARG_ALIAS", "NAMES", group=_MODEL)] = Field(
        (),
        description="names the API answers to, comma-separated; the first in order is shown (default: the file's path)",
    )
    tags: Annotated[NameSet, _flag("--tags", "LLAMA_ARG_TAGS", "NAMES", group=_MODEL)] = Field(
        (), description="labels shown by /v1/models, comma-separated"
    )
    offline: Annotated[Switch, _flag("--offline", "LLAMA_ARG_OFFLINE", group=_MODEL)] = Field(
        False, description="never use the network: the default model must be in the cache already"
    )
    keep_alive: Annotated[
        Annotated[float, BeforeValidator(keep_alive_seconds)],
        _flag("--keep-alive", "BANKML_KEEP_ALIVE OLLAMA_KEEP_ALIVE", "DURATION", group=_MODEL),
    ] = Field(
        300.0,
        description="unload the model this long after an Ollama request that names no time: 5m, 90, 0, -1 never",
    )

    # -- context and batches
    n_ctx: Annotated[NonNegativeInt, _flag("-c --ctx-size", "BANKML_CTX LLAMA_ARG_CTX_SIZE", "N", group=_CONTEXT)] = (
        Field(0, description="context size in tokens (0: what the model was trained with, which is also the most)")
    )
    n_threads: Annotated[int, _flag("-t --threads", "BANKML_THREADS LLAMA_ARG_THREADS", "N", group=_CONTEXT)] = Field(
        -1, le=512, description="CPU threads (-1: one a physical core, 0: one a logical core)", validate_default=True
    )
    n_batch: Annotated[int, _flag("-b --batch-size", "BANKML_BATCH LLAMA_ARG_BATCH", "N", group=_CONTEXT)] = Field(
        2048, ge=1, description="logical batch in tokens"
    )
    n_ubatch: Annotated[int, _flag("-ub --ubatch-size", "BANKML_UBATCH LLAMA_ARG_UBATCH", "N", group=_CONTEXT)] = Field(
        512, ge=1, description="micro-batch in tokens: what one evaluation takes"
    )
    n_predict: Annotated[
        int, _flag("-n --predict --n-predict", "BANKML_N_PREDICT LLAMA_ARG_N_PREDICT", "N", group=_CONTEXT)
    ] = Field(-1, ge=-1, le=2**31 - 1, description="most tokens of an answer unless the request says (-1: no limit)")
    cache_type_k: Annotated[
        CacheType,
        _flag("-ctk --cache-type-k", "BANKML_CACHE_TYPE LLAMA_ARG_CACHE_TYPE_K", "TYPE", group=_CONTEXT),
    ] = Field("f16", description="type of the cached keys: f16 or q8_0")
    cache_type_v: Annotated[
        CacheType,
        _flag("-ctv --cache-type-v", "BANKML_CACHE_TYPE LLAMA_ARG_CACHE_TYPE_V", "TYPE", group=_CONTEXT),
    ] = Field("f16", description="type of the cached values: f16 or q8_0")
    cache_prompt: Annotated[
        Switch, _flag("--cache-prompt", "LLAMA_ARG_CACHE_PROMPT", off="--no-cache-prompt", group=_CONTEXT)
    ] = Field(True, description="keep the prompt's computed prefix for the next request")

    # -- answers
    reasoning: Annotated[
        Annotated[Literal["auto", "on", "off"], BeforeValidator(_reasoning)],
        _flag("-rea --reasoning", "LLAMA_ARG_REASONING", "on|off|auto", group=_ANSWERS),
    ] = Field("auto", description="whether models that can think do so unless the request says (auto: they do)")
    reasoning_format: Annotated[
        Literal["none", "auto", "deepseek", "deepseek-legacy"],
        _flag("--reasoning-format", "LLAMA_ARG_THINK", "FORMAT", group=_ANSWERS),
    ] = Field("deepseek", description="where reasoning goes: none leaves it in the content, any other apart from it")

    # -- server
    host: Annotated[str, _flag("--host", "BANKML_HOST LLAMA_ARG_HOST OLLAMA_HOST", "HOST")] = Field(
        DEFAULT_HOST, min_length=1, description="address to listen on"
    )
    port: Annotated[int, _flag("--port", "BANKML_PORT LLAMA_ARG_PORT OLLAMA_HOST", "PORT")] = Field(
        DEFAULT_PORT, ge=0, le=65535, description="port to listen on (0: any free one)"
    )
    reuse_port: Annotated[Switch, _flag("--reuse-port", "LLAMA_ARG_REUSE_PORT")] = Field(
        False, description="let several processes listen on the port"
    )
    timeout: Annotated[int, _flag("-to --timeout", "LLAMA_ARG_TIMEOUT", "SECONDS", group=_LATER)] = Field(
        3600, ge=1, description="longest wait for a client that reads or writes nothing"
    )
    slots: Annotated[Switch, _flag("--slots", "LLAMA_ARG_ENDPOINT_SLOTS", off="--no-slots", group=_LATER)] = Field(
        True, description="answer GET /slots"
    )
    metrics: Annotated[Switch, _flag("--metrics", "LLAMA_ARG_ENDPOINT_METRICS", group=_LATER)] = Field(
        False, description="answer GET /metrics"
    )
    props: Annotated[Switch, _flag("--props", "LLAMA_ARG_ENDPOINT_PROPS", group=_LATER)] = Field(
        False, description="allow POST /props"
    )
    slot_save_path: Annotated[Path | None, _flag("--slot-save-path", "BANKML_SLOT_DIR", "DIR", group=_LATER)] = Field(
        None, description="folder for saved slots"
    )
    cache_ram: Annotated[
        int, _flag("-cram --cache-ram", "BANKML_CACHE_RAM LLAMA_ARG_CACHE_RAM", "MIB", group=_LATER)
    ] = Field(8192, ge=-1, description="most memory for parked prompts (-1: no limit, 0: none)")
    verbose: Annotated[Switch, _flag("-v --verbose --log-verbose", "BANKML_VERBOSE")] = Field(
        False, description="log every request"
    )

    # -- access
    api_keys: Annotated[Names, _flag("--api-key", "BANKML_API_KEY LLAMA_API_KEY", "KEYS", group=_ACCESS)] = Field(
        (), description="keys a client must send, comma-separated", repr=False
    )
    api_key_file: Annotated[
        Path | None, _flag("--api-key-file", "BANKML_API_KEY_FILE LLAMA_ARG_API_KEY_FILE", "FILE", group=_ACCESS)
    ] = Field(None, description="file of keys, one a line; lines that begin with # are comments")

    # -- sampling defaults: None means "the model file's, else llama-server's"
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

    @field_validator("n_threads")
    @classmethod
    def _threads(cls, value: int) -> int:
        """As llama-server: a given 0 or less is every logical core. Not given: physical cores, within our CPU set."""
        allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        if value > 0:
            return value
        return allowed if value == 0 else max(1, min(allowed, physical_cores()))

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
                raise ValueError(f"failed to open file '{value}': {_reason(error)}") from error
        sampling_flags.grammar(**{name.removesuffix("_file"): value})
        return value

    @model_validator(mode="after")
    def _read_key_file(self) -> Settings:
        if self.api_key_file is not None:
            try:
                lines = self.api_key_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"failed to open file '{self.api_key_file}': {_reason(error)}") from error
            keys = tuple(line for line in lines if line and not line.startswith("#"))
            object.__setattr__(self, "api_keys", self.api_keys + keys)
        return self

    @property
    def template_variables(self) -> dict[str, Any]:
        """What chat templates get unless the request says."""
        return {} if self.reasoning == "auto" else {"enable_thinking": self.reasoning == "on"}

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling defaults the user gave, by llama-server's request field names; they beat the model file's.
        `sampler_sequence` is `samplers` that do not.
        """
        given = ((name, getattr(self, name)) for name in SAMPLING_FIELDS)
        found = {name: value for name, value in given if value is not None and value is not False}
        for name in _GRAMMAR_FIELDS:
            if (text := getattr(self, name)) is not None:
                found["grammar"] = sampling_flags.grammar(**{name.removesuffix("_file"): text})
        return found


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _flag_of(field: FieldInfo) -> Flag:
    return next(item for item in field.metadata if isinstance(item, Flag))


FLAGS: Mapping[str, Flag] = {name: _flag_of(field) for name, field in Settings.model_fields.items()}
SAMPLING_FIELDS = tuple(
    name
    for name, flag in FLAGS.items()
    if flag.group.startswith("Sampling") and name not in ("escape", *_GRAMMAR_FIELDS)
)


def environment() -> dict[str, Any]:
    """The fields that a variable sets, by field name."""
    found = ((name, _from_environment(name, flag)) for name, flag in FLAGS.items())
    return {name: value for name, value in found if value is not None}


def _from_environment(name: str, flag: Flag) -> Any:
    """The value of a field's first variable that is set, or None."""
    if flag.off and any(os.environ.get(variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1)) for variable in flag.env):
        return False
    for variable in flag.env:
        if value := os.environ.get(variable, ""):
            return ollama_host(value)[name] if variable == "OLLAMA_HOST" else value
    return None


def ollama_host(value: str) -> dict[str, Any]:
    """`OLLAMA_HOST` as Ollama reads it: [scheme://]host[:port][/path]; a bad port falls back to the default.

    Returns:
        the fields `host` and `port`.
    """
    text = value.strip().strip("\"'")
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    default = {"http": 80, "https": 443}.get(scheme, DEFAULT_PORT)
    address = rest.partition("/")[0]
    host, port = address, ""
    if address.startswith("["):
        host, _, tail = address[1:].partition("]")
        port = tail.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    number = int(port) if port.isascii() and port.isdigit() else default
    return {"host": host or DEFAULT_HOST, "port": number if number <= 65535 else default}


def physical_cores() -> int:
    """Cores of this machine, hyper-threads counted once, as llama-server counts them for its default."""
    siblings = set()
    for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings"):
        try:
            siblings.add(path.read_text())
        except OSError:
            continue
    logical = os.cpu_count() or 1
    return len(siblings) or (logical if logical <= 4 else logical // 2)


def load_settings(flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings these flags and this environment give.

    Args:
        flags: field name -> value as given on the command line (text, or a bool for a switch).

    Raises:
        SettingsError: a value cannot be used; the text names the flag or the variable.
    """
    flags = flags or {}
    try:
        return Settings(**{**environment(), **flags})
    except ValidationError as error:
        raise SettingsError(_explain(error, flags)) from None


def _explain(error: ValidationError, flags: Mapping[str, Any]) -> str:
    """One line for the first error: who said it, what is wrong."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    name = str(first["loc"][0]) if first["loc"] else "api_key_file"
    if name not in FLAGS:
        return f"{name}: {message}"
    flag = FLAGS[name]
    if name in flags:
        spelled = flag.names[-1]
    else:
        spelled = next((variable for variable in flag.env if os.environ.get(variable)), flag.names[-1])
    given = first.get("input")
    shown = f" '{given}'" if isinstance(given, str | int | float) and name != "api_keys" else ""
    return f"{spelled}{shown}: {message}"


def is_forever(seconds: float) -> bool:
    """Whether a keep-alive never ends."""
    return math.isinf(seconds)
