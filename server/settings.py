"""Every setting of the server in one place: its flag, its environment variables, its default.

`Settings` is the one class (its base has the defaults of the draws); `server.commands.flags` builds the flags from it.
A flag beats the environment, that beats the default. Flags and `LLAMA_ARG_*` names are llama-server b11192's;
`OLLAMA_HOST` and `OLLAMA_KEEP_ALIVE` are read as Ollama reads them; `BANKML_*` beats both. An empty variable counts as
unset.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
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

from registry.fork_file import default_folder
from server import sampling_flags
from server.durations import keep_alive_seconds
from server.host_variables import DEFAULT_HOST, DEFAULT_PORT, named_address
from server.sampling_settings import SamplingSettings
from server.setting_types import (
    Address,
    Flag,
    HostAndPort,
    Names,
    NameSet,
    Origins,
    Switch,
    as_switch,
    flag,
    optional,
    reason,
)


class SettingsError(Exception):
    """A flag or variable has a value that cannot be used; the text names it and is fit for one line on stderr."""


def _reasoning(value: object) -> object:
    """llama-server's words for thinking."""
    if value in ("auto", "-1"):
        return "auto"
    switched = as_switch(value)
    return ("on" if switched else "off") if isinstance(switched, bool) else value


def _text_of_file(value: object) -> object:
    """What is in the file of this name."""
    if not isinstance(value, str) or not value:
        return value
    try:
        return Path(value).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"failed to open file '{value}': {reason(error)}") from error


def _folder(value: object) -> object:
    """A folder of models; nothing means the usual one."""
    if not isinstance(value, str):
        return value
    return Path(value).expanduser() if value else default_folder()


def _json_object(value: object) -> object:
    """An object as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from error


def _sleep(seconds: int) -> int:
    """llama-server's range."""
    if seconds == 0 or not -1 <= seconds < 2**31:
        raise ValueError("cannot be 0 or less than -1")
    return seconds


# What the engine's cache can hold; llama-server's other types change numbers and are refused until it can.
CacheType = Literal["f16", "q8_0"]

_MODEL, _CONTEXT, _ANSWERS, _ACCESS = "Model", "Context and batches", "Chat answers", "Access"
_EMBEDDINGS = "Embeddings"


class Settings(SamplingSettings):
    """Everything the server can be told. Frozen; unknown names are an error.

    Build it with `load_settings`, which reads the environment too and turns validation errors into one line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # -- model
    model: Annotated[Path | None, flag("-m --model", "BANKML_MODEL LLAMA_ARG_MODEL", "FILE", group=_MODEL)] = Field(
        None, description="GGUF file (default: SmolLM2-135M-Instruct, fetched once)"
    )
    alias: Annotated[NameSet, flag("-a --alias", "BANKML_ALIAS LLAMA_ARG_ALIAS", "NAMES", group=_MODEL)] = Field(
        (),
        description="names the API answers to, comma-separated; the first in order is shown (default: the file's path)",
    )
    tags: Annotated[NameSet, flag("--tags", "LLAMA_ARG_TAGS", "NAMES", group=_MODEL)] = Field(
        (), description="labels shown by /v1/models, comma-separated"
    )
    offline: Annotated[Switch, flag("--offline", "LLAMA_ARG_OFFLINE", group=_MODEL)] = Field(
        False,
        description="never use the network: the default model must be in the cache; nothing is pulled or pushed",
    )
    fork: Annotated[Path | None, flag("--fork", "BANKML_FORK", "FILE", group=_MODEL)] = Field(
        None,
        description="FORK.json that says which bytes the model file must have (default: the one named after it beside "
        "it; without any, the file is trusted on first use and refused when it changed)",
    )
    registry: Annotated[
        Annotated[Path | None, BeforeValidator(_folder)],
        optional("--registry", "[DIR]", group=_MODEL),
    ] = Field(
        None,
        description="serve the models of this folder too, by their names; without a model file it is served anyway "
        "[BANKML_FORKS] (default: ~/.local/share/bankml/forks)",
    )
    keep_alive: Annotated[
        Annotated[float, BeforeValidator(keep_alive_seconds)],
        flag("--keep-alive", "BANKML_KEEP_ALIVE OLLAMA_KEEP_ALIVE", "DURATION", group=_MODEL),
    ] = Field(
        300.0,
        description="unload the model this long after an Ollama request that names no time: 90 for seconds, 0 at "
        "once, -1 never (default: 5m)",
    )

    sleep_idle_seconds: Annotated[
        Annotated[int, AfterValidator(_sleep)],
        flag("--sleep-idle-seconds", "BANKML_SLEEP_IDLE_SECONDS", "SECONDS", group=_MODEL),
    ] = Field(-1, description="unload the model this long after the last request, until the next one (-1: never)")

    # -- context and batches
    n_ctx: Annotated[
        NonNegativeInt, flag("-c --ctx --ctx-size", "BANKML_CTX LLAMA_ARG_CTX_SIZE", "N", group=_CONTEXT)
    ] = Field(0, description="context size in tokens (0: what the model was trained with, which is also the most)")
    n_threads: Annotated[int, flag("-t --threads", "BANKML_THREADS LLAMA_ARG_THREADS", "N", group=_CONTEXT)] = Field(
        -1, le=512, description="CPU threads (-1: one a physical core, 0: one a logical core)", validate_default=True
    )
    n_batch: Annotated[int, flag("-b --batch-size", "BANKML_BATCH LLAMA_ARG_BATCH", "N", group=_CONTEXT)] = Field(
        2048, ge=1, description="logical batch in tokens"
    )
    n_ubatch: Annotated[int, flag("-ub --ubatch-size", "BANKML_UBATCH LLAMA_ARG_UBATCH", "N", group=_CONTEXT)] = Field(
        512, ge=1, description="micro-batch in tokens: what one evaluation takes"
    )
    n_predict: Annotated[
        int, flag("-n --predict --n-predict", "BANKML_N_PREDICT LLAMA_ARG_N_PREDICT", "N", group=_CONTEXT)
    ] = Field(-1, ge=-1, le=2**31 - 1, description="most tokens of an answer unless the request says (-1: no limit)")
    cache_type_k: Annotated[
        CacheType,
        flag("-ctk --cache-type-k", "BANKML_CACHE_TYPE LLAMA_ARG_CACHE_TYPE_K", "TYPE", group=_CONTEXT),
    ] = Field("f16", description="type of the cached keys: f16 or q8_0")
    cache_type_v: Annotated[
        CacheType,
        flag("-ctv --cache-type-v", "BANKML_CACHE_TYPE LLAMA_ARG_CACHE_TYPE_V", "TYPE", group=_CONTEXT),
    ] = Field("f16", description="type of the cached values: f16 or q8_0")
    cache_prompt: Annotated[
        Switch, flag("--cache-prompt", "LLAMA_ARG_CACHE_PROMPT", off="--no-cache-prompt", group=_CONTEXT)
    ] = Field(True, description="keep the prompt's computed prefix for the next request")

    cache_ram: Annotated[
        int, flag("-cram --cache-ram", "BANKML_CACHE_RAM LLAMA_ARG_CACHE_RAM", "MIB", group=_CONTEXT)
    ] = Field(
        8192,
        ge=-1,
        description="most memory for the states of other conversations, but no more than a quarter of what is free "
        "(-1: no limit, 0: none)",
    )
    slot_prompt_similarity: Annotated[float, flag("-sps --slot-prompt-similarity", "", "SHARE", group=_CONTEXT)] = (
        Field(
            0.1,
            allow_inf_nan=False,
            description="share of a prompt the slot must hold to be kept for it (0: no such rule)",
        )
    )
    slot_save_path: Annotated[
        Path | None, flag("--slot-save-path --slot-dir", "BANKML_SLOT_DIR", "DIR", group=_CONTEXT)
    ] = Field(None, description="folder for saved slots, made if it is not there; opens POST /slots/0")

    spm_infill: Annotated[Switch, flag("--spm-infill", group=_CONTEXT)] = Field(
        False, description="/infill: the suffix before the prefix, as some models want it"
    )

    # -- answers
    reasoning: Annotated[
        Annotated[Literal["auto", "on", "off"], BeforeValidator(_reasoning)],
        flag("-rea --reasoning", "LLAMA_ARG_REASONING", "on|off|auto", group=_ANSWERS),
    ] = Field("auto", description="whether models that can think do so unless the request says (auto: they do)")
    reasoning_format: Annotated[
        Literal["none", "auto", "deepseek", "deepseek-legacy"],
        flag("--reasoning-format", "LLAMA_ARG_THINK", "FORMAT", group=_ANSWERS),
    ] = Field("deepseek", description="where reasoning goes: none leaves it in the content, any other apart from it")

    chat_template: Annotated[str, flag("--chat-template", "LLAMA_ARG_CHAT_TEMPLATE", "TEMPLATE", group=_ANSWERS)] = (
        Field("", description="chat template in Jinja instead of the model file's; chatml: ChatML")
    )
    chat_template_file: Annotated[
        Annotated[str, BeforeValidator(_text_of_file)],
        flag("--chat-template-file", "LLAMA_ARG_CHAT_TEMPLATE_FILE", "FILE", group=_ANSWERS),
    ] = Field("", description="the same from a file")
    chat_template_kwargs: Annotated[
        Annotated[dict[str, Any], BeforeValidator(_json_object)],
        flag("--chat-template-kwargs", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", "JSON", group=_ANSWERS),
    ] = Field({}, description="variables of chat templates, an object; a request's own win")

    # -- embeddings
    embeddings: Annotated[
        Switch, flag("--embedding --embeddings", "BANKML_EMBEDDINGS LLAMA_ARG_EMBEDDINGS", group=_EMBEDDINGS)
    ] = Field(False, description="answer /v1/embeddings; a batch is then no larger than a micro-batch")
    reranking: Annotated[Switch, flag("--rerank --reranking", "LLAMA_ARG_RERANKING", group=_EMBEDDINGS)] = Field(
        False, description="answer /v1/rerank; the same as --embeddings --pooling rank"
    )
    pooling: Annotated[
        Literal["none", "mean", "cls", "last", "rank"] | None,
        flag("--pooling", "LLAMA_ARG_POOLING", "none|mean|cls|last|rank", group=_EMBEDDINGS),
    ] = Field(None, description="which tokens make a text's embedding (default: what the model file says, else none)")
    embd_normalize: Annotated[int, flag("--embd-normalize", metavar="N", group=_EMBEDDINGS)] = Field(
        2,
        ge=-(2**31),
        le=2**31 - 1,
        description="length of an embedding unless the request says: -1 as it is, 0 at most 32760, 1 taxicab, "
        "2 Euclidean, p the p-norm",
    )

    reasoning_budget: Annotated[int, flag("--reasoning-budget", "LLAMA_ARG_THINK_BUDGET", "N", group=_ANSWERS)] = Field(
        -1, ge=-1, le=2**31 - 1, description="most tokens of reasoning unless the request says (-1: no limit)"
    )
    reasoning_budget_message: Annotated[
        str, flag("--reasoning-budget-message", "LLAMA_ARG_THINK_BUDGET_MESSAGE", "TEXT", group=_ANSWERS)
    ] = Field("", description="what is said before reasoning that has reached its limit is ended")

    sse_ping_interval: Annotated[
        int, flag("--sse-ping-interval", "LLAMA_ARG_SSE_PING_INTERVAL", "SECONDS", group=_ANSWERS)
    ] = Field(30, ge=-1, le=2**31 - 1, description="a stream that is silent so long gets a comment (-1: never)")

    # -- server
    host: Annotated[str, flag("--host", "BANKML_HOST LLAMA_ARG_HOST OLLAMA_HOST", "HOST")] = Field(
        DEFAULT_HOST, min_length=1, description="address to listen on"
    )
    port: Annotated[int, flag("--port", "BANKML_PORT BANKML_HOST LLAMA_ARG_PORT OLLAMA_HOST", "PORT")] = Field(
        DEFAULT_PORT, ge=0, le=65535, description="port to listen on (0: any free one)"
    )
    listen: Annotated[HostAndPort | None, flag("--listen", metavar="HOST:PORT")] = Field(
        None, description="address to listen on, instead of --host and --port"
    )
    upstream: Annotated[HostAndPort | None, flag("--upstream", metavar="HOST:PORT")] = Field(
        None, description="second address to listen on: where a client of --listen looks for the engine"
    )
    reuse_port: Annotated[Switch, flag("--reuse-port", "LLAMA_ARG_REUSE_PORT")] = Field(
        False, description="let several processes listen on the port"
    )
    timeout: Annotated[int, flag("-to --timeout", "LLAMA_ARG_TIMEOUT", "SECONDS")] = Field(
        3600, ge=1, description="longest wait for a client that reads nothing, or sends nothing (then 30 at most)"
    )
    shutdown_timeout: Annotated[float, flag("--shutdown-timeout", "BANKML_SHUTDOWN_TIMEOUT", "SECONDS")] = Field(
        5.0, ge=0, le=86400, description="how long running answers have to end once the server is told to stop"
    )
    slots: Annotated[Switch, flag("--slots", "LLAMA_ARG_ENDPOINT_SLOTS", off="--no-slots")] = Field(
        True, description="answer GET /slots"
    )
    metrics: Annotated[Switch, flag("--metrics", "LLAMA_ARG_ENDPOINT_METRICS")] = Field(
        False, description="answer GET /metrics"
    )
    props: Annotated[Switch, flag("--props", "LLAMA_ARG_ENDPOINT_PROPS")] = Field(
        False, description="allow POST /props"
    )
    verbose: Annotated[Switch, flag("-v --verbose --log-verbose", "BANKML_VERBOSE")] = Field(
        False, description="log every request"
    )

    # -- access
    api_keys: Annotated[Names, flag("--api-key", "BANKML_API_KEY LLAMA_API_KEY", "KEYS", group=_ACCESS)] = Field(
        (), description="keys a client must send, comma-separated", repr=False
    )
    api_key_file: Annotated[
        Path | None, flag("--api-key-file", "BANKML_API_KEY_FILE LLAMA_ARG_API_KEY_FILE", "FILE", group=_ACCESS)
    ] = Field(None, description="file of keys, one a line; lines that begin with # are comments")
    allow_origin: Annotated[
        Origins,
        flag("--cors-origins --allow-origin", "BANKML_ALLOW_ORIGIN LLAMA_ARG_CORS_ORIGINS", "LIST", group=_ACCESS),
    ] = Field((), description="origins whose web pages may call the server, comma-separated (default: none)")

    @field_validator("n_threads")
    @classmethod
    def _threads(cls, value: int) -> int:
        """As llama-server: a given 0 or less is every logical core. Not given: physical cores, within our CPU set."""
        allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        if value > 0:
            return value
        return allowed if value == 0 else max(1, min(allowed, physical_cores()))

    @field_validator("pooling")
    @classmethod
    def _one_pooling(cls, value: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("reranking") and value not in (None, "rank"):
            raise ValueError("--reranking is --pooling rank")
        return value

    @model_validator(mode="after")
    def _read_key_file(self) -> Settings:
        if self.api_key_file is not None:
            try:
                lines = self.api_key_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"failed to open file '{self.api_key_file}': {reason(error)}") from error
            keys = tuple(line for line in lines if line and not line.startswith("#"))
            object.__setattr__(self, "api_keys", self.api_keys + keys)
        return self

    @property
    def folder(self) -> Path | None:
        """The folder of models that is served; None where one model file answers whatever it is called."""
        return default_folder() if self.registry is None and self.model is None else self.registry

    @property
    def embeds(self) -> bool:
        """Whether texts can be embedded."""
        return self.embeddings or self.reranking

    @property
    def pooling_type(self) -> str | None:
        """How rows become a vector, None where the model file decides."""
        return "rank" if self.reranking else self.pooling

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where to listen."""
        named = tuple(address for address in (self.listen, self.upstream) if address is not None)
        hosts = (part.strip() for part in self.host.split(","))
        return named or tuple(Address(host, self.port) for host in hosts if host)

    @property
    def sampling(self) -> dict[str, Any]:
        """As in `SamplingSettings`, and the limit of reasoning."""
        found = super().sampling
        if self.reasoning_budget >= 0:
            found["reasoning"] = sampling_flags.reasoning(self.reasoning_budget)
        return found

    @property
    def template_variables(self) -> dict[str, Any]:
        """What chat templates get unless the request says."""
        thinking = {} if self.reasoning == "auto" else {"enable_thinking": self.reasoning == "on"}
        return {**self.chat_template_kwargs, **thinking}


def _flag_of(field: FieldInfo) -> Flag:
    return next(item for item in field.metadata if isinstance(item, Flag))


# Sampling comes last in the help, though a base class's fields come first.
FLAGS: Mapping[str, Flag] = {
    name: _flag_of(Settings.model_fields[name])
    for name in sorted(Settings.model_fields, key=SamplingSettings.model_fields.__contains__)
}


def environment() -> dict[str, Any]:
    """The fields that a variable sets, by field name."""
    found = ((name, _from_environment(name, flag)) for name, flag in FLAGS.items())
    return {name: value for name, value in found if value is not None}


def _from_environment(name: str, flag: Flag) -> Any:
    """The value of a field's first variable that is set, or None."""
    if name in ("host", "port"):
        return getattr(named_address(), name)
    if flag.off and any(os.environ.get(variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1)) for variable in flag.env):
        return False
    for variable in flag.env:
        if value := os.environ.get(variable, ""):
            return value
    return None


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
    if not flags.keys().isdisjoint({"listen", "upstream"}) and not flags.keys().isdisjoint({"host", "port"}):
        raise SettingsError("--listen and --upstream name the addresses: neither --host nor --port goes with them")
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
