"""llama-server's completion fields: their names, limits, conversions and messages, for every API that takes them.

One pydantic model, validated once at the door. Numbers are read as llama-server's JSON library reads them: a boolean
counts as 0 or 1, a float loses its fraction where an integer is wanted, an integer past its width wraps. A null counts
as absent. What we do not do yet is refused by name unless it asks for nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo

from engine.errors import InvalidRequest
from engine.grammar import GrammarTrigger, TriggerType
from engine.json_schema import SchemaGrammar, json_schema_to_grammar
from engine.logit_bias import bias_of
from engine.sampling import SAMPLER_LETTERS, sampler_names
from server.errors import BadRequest

INT32_MAX = 2**31 - 1
FLOAT_MAX = 3.4028234663852886e38

MAX_CHOICES = 16
"""Answers to one prompt at most (`n`); llama-server's limit is the number of its slots."""

_MAX_TRIGGERS = 1000
MAX_WORDS = 1024
"""Texts of a list that is gone through at every token, and fields of a body."""

REASONING_FORMATS = {"none": "none", "auto": "auto", "deepseek": "deepseek", "deepseek-legacy": "deepseek-legacy"}

ALIASES: Mapping[str, tuple[str, ...]] = {
    "n_predict": ("n_predict", "max_completion_tokens", "max_tokens"),
    "n_cmpl": ("n_cmpl", "n"),
    "n_probs": ("n_probs", "logprobs"),
    "reasoning_budget_end_tags": ("reasoning_budget_end_tags", "reasoning_budget_end_tag"),
}
"""Fields with several names; the first one that is there and not null counts, the others are not looked at."""


def kind(value: object) -> str:
    """What llama-server's JSON library calls the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def wrong_type(wanted: str, value: object) -> ValueError:
    """llama-server's complaint about a value of the wrong type."""
    return ValueError(f"[json.exception.type_error.302] type must be {wanted}, but is {kind(value)}")


def _limits(low: str, high: str, value: str) -> ValueError:
    return ValueError(f"Value must be between {low} <= value <= {high}, but got {value}")


def to_int(value: object, bits: int = 32, *, signed: bool = True) -> int:
    """A JSON number or boolean as a C integer of `bits` bits: the fraction goes, what is too long wraps."""
    if not isinstance(value, int | float):
        raise wrong_type("number", value)
    half = 1 << (bits - 1)
    if isinstance(value, float) and not -(2.0**63) <= value < 2.0**64:
        return -half if signed else 0  # what the conversion instruction gives on x86
    number = int(value) % (1 << bits)
    return number - (1 << bits) if signed and number >= half else number


def to_float32(value: object) -> float:
    """A JSON number or boolean rounded to 32 bits; what is too large becomes infinity."""
    if not isinstance(value, int | float):
        raise wrong_type("number", value)
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _integer(
    low: int = -INT32_MAX - 1, high: int = INT32_MAX, *, hard: bool = False, bits: int = 32, signed: bool = True
) -> BeforeValidator:
    def convert(value: object) -> int:
        number = to_int(value, bits, signed=signed)
        if hard and not low <= number <= high:
            raise _limits(str(low), str(high), str(number))
        return max(low, min(high, number))

    return BeforeValidator(convert)


def _float(low: float = -FLOAT_MAX, high: float = FLOAT_MAX, *, hard: bool = False) -> BeforeValidator:
    low, high = to_float32(low), to_float32(high)

    def convert(value: object) -> float:
        number = to_float32(value)
        if hard and not low <= number <= high:
            raise _limits(f"{low:f}", f"{high:f}", f"{number:f}")
        return max(low, min(high, number))

    return BeforeValidator(convert)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong_type("boolean", value)
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise wrong_type("string", value)
    return value


def _ignore(info: ValidationInfo) -> None:
    """Note a field that llama-server accepts with a wrong type and does not use."""
    if info.context is not None and info.field_name is not None:
        info.context["ignored"].append(info.field_name)


def refuse_when(asks: Callable[[Any], bool]) -> BeforeValidator:
    """Refuses a value that asks for something not supported yet."""

    def check(value: Any) -> Any:
        if asks(value):
            raise ValueError("not supported")
        return value

    return BeforeValidator(check)


def few(items: Sized) -> None:
    """Refuses a list with too many items."""
    if len(items) > MAX_WORDS:
        raise ValueError(f"there are more than {MAX_WORDS} items")


def _stop(value: object, info: ValidationInfo) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        _ignore(info)
        return ()
    few(value)
    # llama-server skips what its JSON library calls empty (null, [], {}); an empty string is none of these
    return tuple(_string(word) for word in value if word is not None and word not in ([], {}))


def _response_fields(value: object, info: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        _ignore(info)
        return ()
    few(value)
    return tuple(value)


def _breakers(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise ValueError("Error: dry_sequence_breakers must be a non-empty array of strings")
    few(value)
    return tuple(value)


def reasoning_format_of(value: object) -> str:
    """llama-server's name of what becomes of reasoning.

    Raises:
        ValueError: it knows none of the name, with its message.
    """
    name = _string(value)
    if name not in REASONING_FORMATS:
        raise ValueError(f"Unknown reasoning format: {name}")
    return name


def _lora(value: object) -> tuple[()]:
    if not isinstance(value, list):
        raise ValueError("Error: 'lora' must be an array of objects with 'id' and 'scale' fields")
    if value:
        raise ValueError("not supported")
    return ()


def _grammar(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str):
        _ignore(info)
        return ""
    return value


def _json_schema(value: object) -> SchemaGrammar:
    schema = {"type": "object"} if value == {} and isinstance(value, dict) else value  # an empty one is any object
    try:
        return json_schema_to_grammar(schema)
    except InvalidRequest as error:
        raise ValueError(f'"json_schema": {error}') from None


def _grammar_type(value: object) -> str:
    return "tool_calls" if value == "tool_calls" else "user"


def _triggers(value: object) -> tuple[GrammarTrigger, ...]:
    items = tuple(_items(value))
    if len(items) > _MAX_TRIGGERS:
        raise ValueError(f"there are more than {_MAX_TRIGGERS} triggers")
    return tuple(_trigger(item) for item in items)


def _trigger(value: object) -> GrammarTrigger:
    number = to_int(_at(value, "type"))
    text = _string(_at(value, "value"))
    if number not in tuple(TriggerType):
        raise ValueError(f"there is no trigger of type {number}")
    token = to_int(_at(value, "token")) if number == TriggerType.TOKEN else -1
    return GrammarTrigger(TriggerType(number), text, token)


def _at(value: object, key: str) -> object:
    if not isinstance(value, dict):
        raise ValueError(f"[json.exception.type_error.304] cannot use at() with {kind(value)}")
    if key not in value:
        raise ValueError(f"[json.exception.out_of_range.403] key '{key}' not found")
    return value[key]


def _samplers(value: object, info: ValidationInfo) -> tuple[str, ...] | str | None:
    if isinstance(value, str):
        if not set(value) <= SAMPLER_LETTERS.keys():
            _ignore(info)
        return value
    if not isinstance(value, list):
        _ignore(info)
        return None
    few(value)
    names = tuple(_string(name) for name in value)
    if len(sampler_names(names)) < len(names):
        _ignore(info)  # the names that are none
    return names


def _logit_bias(value: object, info: ValidationInfo) -> object:
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, list) else None
    if pairs is None or not all(_is_bias(pair) for pair in pairs):
        _ignore(info)  # what is no pair of a token and an amount
    return value


def _is_bias(pair: object) -> bool:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    token, amount = pair
    return isinstance(token, int | str) and not isinstance(token, bool) and bias_of(amount) is not None


def _items(value: object) -> Iterable[object]:
    """What llama-server's JSON library finds in a value that it goes through like a list."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else (value,)


def _strings(value: object) -> tuple[str, ...]:
    items = tuple(_items(value))
    few(items)
    return tuple(_string(item) for item in items)


def _id_slot(value: object, info: ValidationInfo) -> int:
    if not isinstance(value, int | float):
        _ignore(info)
        return -1
    return to_int(value)


def _dry_base(value: object) -> float | None:
    """None stands for the default, which replaces a base below 1."""
    number = to_float32(value)
    return None if number < 1 else number


Bool = Annotated[bool, BeforeValidator(_boolean)]
Str = Annotated[str, BeforeValidator(_string)]
Unit = Annotated[float | None, _float(0, 1)]
AnyFloat = Annotated[float | None, _float()]
Count = Annotated[int, _integer(0, hard=True)]
CountOrAll = Annotated[int, _integer(-1, hard=True)]
CountOrNone = Annotated[int | None, _integer(0, hard=True)]
Off = Annotated[Any, refuse_when(bool)]


class StreamOptions(BaseModel):
    """The object `stream_options`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    include_usage: Bool = False


class CompletionFields(BaseModel):
    """Every field llama-server's completion endpoints know, in its order; `None` stands for the model's default.

    Names llama-server does not know are in `model_extra`.
    """

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    # the answer's form
    verbose: Bool | None = None
    timings_per_token: Bool = False
    stream: Bool = False
    stream_options: StreamOptions = StreamOptions()
    cache_prompt: Bool | None = None
    return_tokens: Bool = False
    return_progress: Bool = False
    sse_ping_interval: CountOrAll | None = None
    # its length
    n_predict: CountOrAll | None = None
    n_indent: Count = 0
    n_keep: CountOrAll = 0
    n_discard: Count = 0
    n_cmpl: Annotated[int, _integer(1, MAX_CHOICES, hard=True)] = 1
    n_cache_reuse: Annotated[Count, refuse_when(lambda value: isinstance(value, int | float) and value >= 1)] = 0
    t_max_predict_ms: Annotated[int, _integer(-1, 2**63 - 1, hard=True, bits=64)] = -1
    response_fields: Annotated[tuple[str, ...], BeforeValidator(_response_fields)] = ()
    # sampling
    top_k: Annotated[int | None, _integer(0)] = None
    top_p: Unit = None
    min_p: Unit = None
    top_n_sigma: AnyFloat = None
    xtc_probability: Unit = None
    xtc_threshold: Unit = None
    typical_p: AnyFloat = None
    temperature: Annotated[float | None, _float(0, float("inf"))] = None
    dynatemp_range: AnyFloat = None
    dynatemp_exponent: AnyFloat = None
    repeat_last_n: CountOrNone = None
    repeat_penalty: AnyFloat = None
    frequency_penalty: AnyFloat = None
    presence_penalty: AnyFloat = None
    dry_multiplier: AnyFloat = None
    dry_base: Annotated[float | None, BeforeValidator(_dry_base)] = None
    dry_allowed_length: CountOrNone = None
    dry_penalty_last_n: CountOrNone = None
    mirostat: Annotated[int | None, _integer(0, 2)] = None
    mirostat_tau: AnyFloat = None
    mirostat_eta: AnyFloat = None
    adaptive_target: Annotated[float | None, _float(high=1)] = None
    adaptive_decay: Annotated[float | None, _float(0, 0.99, hard=True)] = None
    seed: Annotated[int | None, _integer(0, 2**32 - 1, signed=False)] = None
    n_probs: Annotated[int, _integer()] = 0
    min_keep: CountOrNone = None
    backend_sampling: Annotated[Bool, refuse_when(lambda value: value is True)] = False
    post_sampling_probs: Bool = False
    lora: Annotated[tuple[()], BeforeValidator(_lora)] = ()
    dry_sequence_breakers: Annotated[tuple[str, ...] | None, BeforeValidator(_breakers)] = None
    json_schema: Annotated[SchemaGrammar | None, BeforeValidator(_json_schema)] = None
    grammar: Annotated[str, BeforeValidator(_grammar)] = ""
    grammar_type: Annotated[str, BeforeValidator(_grammar_type)] = "user"
    grammar_lazy: Bool = False
    # what llama-server's own chat code passes to itself
    chat_format: Off = None
    reasoning_format: Annotated[str, BeforeValidator(reasoning_format_of)] = "deepseek"
    generation_prompt: Str = ""
    parse_tool_calls: Bool = False
    chat_parser: Annotated[Str, refuse_when(lambda value: isinstance(value, str) and value != "")] = ""
    continue_final_message: Any = None
    echo: Bool = False
    preserved_tokens: Annotated[tuple[str, ...], BeforeValidator(_strings)] = ()
    grammar_triggers: Annotated[tuple[GrammarTrigger, ...] | None, BeforeValidator(_triggers)] = None
    reasoning_control: Annotated[Bool, refuse_when(lambda value: value is True)] = False
    reasoning_budget_tokens: CountOrAll | None = None
    reasoning_budget_start_tag: Str = ""
    reasoning_budget_end_tags: Annotated[tuple[str, ...], BeforeValidator(_strings)] = ()
    reasoning_budget_message: Str | None = None
    logit_bias: Annotated[Any, BeforeValidator(_logit_bias)] = None
    ignore_eos: Bool | None = None
    stop: Annotated[tuple[str, ...], BeforeValidator(_stop)] = ()
    samplers: Annotated[tuple[str, ...] | str | None, BeforeValidator(_samplers)] = None
    # outside llama-server's table of fields
    id_slot: Annotated[int, BeforeValidator(_id_slot)] = -1
    ignored: tuple[str, ...] = ()


def parse_fields(body: Mapping[str, Any], known: frozenset[str] = frozenset()) -> CompletionFields:
    """The completion fields of a request's body, validated.

    Args:
        body: the JSON object.
        known: names the caller deals with itself (`prompt`, `messages`, ...).

    Returns:
        the fields, with `ignored` naming what was accepted and is not used.

    Raises:
        BadRequest: a value llama-server refuses, with its message, or one we do not support yet.
    """
    given = {name: value for name, value in body.items() if name not in known and value is not None}
    spelled: dict[str, str] = {}
    for name, aliases in ALIASES.items():
        present = [alias for alias in aliases if alias in given]
        values = [given.pop(alias) for alias in present]
        if present:
            given[name], spelled[name] = values[0], present[0]
    if not isinstance(given.get("stream_options"), dict):
        given.pop("stream_options", None)
    elif "include_usage" in given["stream_options"] and given["stream_options"]["include_usage"] is None:
        given["stream_options"] = {}
    given.pop("ignored", None)
    context: dict[str, list[str]] = {"ignored": []}
    if "grammar" in body and given.pop("json_schema", None) is not None:
        context["ignored"].append("json_schema")  # so does the reference, be the grammar null
    try:
        fields = CompletionFields.model_validate(given, context=context)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][-1])
        raise BadRequest(f"Field '{spelled.get(name, name)}': {_message(first)}") from None
    unknown = tuple(fields.model_extra or ())
    return fields.model_copy(update={"ignored": (*context["ignored"], *unknown)})


def _message(error: Mapping[str, Any]) -> str:
    reason = error.get("ctx", {}).get("error")
    return str(reason) if reason is not None else str(error["msg"])
