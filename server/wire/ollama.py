"""Ollama's `/api` as pure functions: a body in, a frozen request out; an answer's text and numbers in, its objects out.

Field names, their order, statuses and error texts are those of Ollama's `api/types.go` and `server/routes.go`. What the
options mean is llama-server's business: a request without options samples as the same request does on `/v1`, so the
same tokens come back, not those of Ollama's own defaults. What is not built is refused with its reason, never dropped.

Every function that reads a body raises `InvalidBody`, a 400, whose text is Go's or Ollama's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from engine.chat_formats.messages import ChatMessage
from server.wire.golang import InvalidBody, format_time, kind, loads, mismatch, quote
from server.wire.ollama_options import Options, parse_keep_alive, parse_options

Api = Literal["generate", "chat"]

GENERATE_FIELDS: Final = {
    "model": "string",
    "prompt": "string",
    "suffix": "string",
    "system": "string",
    "template": "string",
    "context": "[]int",
    "stream": "bool",
    "raw": "bool",
    "format": "json.RawMessage",
    "keep_alive": "api.Duration",
    "images": "[]api.ImageData",
    "options": "map[string]interface {}",
    "think": "api.ThinkValue",
    "truncate": "bool",
    "shift": "bool",
    "_debug_render_only": "bool",
    "logprobs": "bool",
    "top_logprobs": "int",
}
"""The fields of `POST /api/generate` and their Go types."""

CHAT_FIELDS: Final = {
    "model": "string",
    "messages": "[]api.Message",
    "tools": "api.Tools",
    **{name: GENERATE_FIELDS[name] for name in ("stream", "format", "keep_alive", "options", "think", "truncate")},
    **{name: GENERATE_FIELDS[name] for name in ("shift", "_debug_render_only", "logprobs", "top_logprobs")},
}
"""The fields of `POST /api/chat` and their Go types."""

SHOW_FIELDS: Final = {
    "model": "string",
    "name": "string",
    "system": "string",
    "template": "string",
    "verbose": "bool",
    "options": "map[string]interface {}",
}
"""The fields of `POST /api/show` and their Go types."""

_MESSAGE_FIELDS: Final = {
    "role": "string",
    "content": "string",
    "thinking": "string",
    "images": "[]api.ImageData",
    "tool_calls": "[]api.ToolCall",
    "tool_name": "string",
    "tool_call_id": "string",
}

_JSON_KINDS: Final = {"string": "string", "bool": "bool", "map[string]interface {}": "object"}

_NAME: Final = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}/)?(?:[A-Za-z0-9_][A-Za-z0-9_-]{0,79}/)?"
    r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,79})?"
)


@dataclass(frozen=True, slots=True)
class Request:
    """A `/api/generate` or `/api/chat` request that may run.

    Attributes:
        api: which of the two.
        model: the name as the client wrote it.
        messages: the conversation (`role` and `content` each); a prompt that is not raw is one of them.
        prompt: the text to continue as it is, with `raw`; else None.
        stream: NDJSON lines, or one object.
        keep_alive: seconds the model stays afterwards, `FOREVER`, 0 to unload it; None for the server's default.
        options: see `Options`.
        truncate: drop the oldest messages of a conversation that does not fit, instead of refusing it.
        top_logprobs: how many of the most likely tokens to show beside each token; None to show no probabilities.
        schema: a JSON schema that the answer follows (`format`); None for any text.
        ignored: names of fields and options that change nothing here.
    """

    api: Api
    model: str
    messages: tuple[dict[str, str], ...] = ()
    prompt: str | None = None
    stream: bool = True
    keep_alive: float | None = None
    options: Options = field(default_factory=Options)
    truncate: bool = True
    top_logprobs: int | None = None
    schema: Mapping[str, Any] | None = None
    ignored: tuple[str, ...] = ()

    @property
    def only_loads(self) -> bool:
        """Nothing to answer: the request loads the model, or with a `keep_alive` of 0 unloads it."""
        return not self.messages and not self.prompt


# -- request in --------------------------------------------------------------------------------------------------------


def parse_generate(body: bytes) -> Request:
    """The request in a `POST /api/generate` body.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, ignored = _fields(body, "GenerateRequest", GENERATE_FIELDS)
    model = _checked_model(given)
    raw, system, prompt = given.get("raw", False), given.get("system", ""), given.get("prompt", "")
    if raw and (system or given.get("template") or given.get("context")):
        raise InvalidBody("raw mode does not support template, system, or context")
    if given.get("suffix"):
        raise InvalidBody(f"{quote(model)} does not support insert")
    if given.get("template"):
        raise InvalidBody("template is not supported: the model's own chat template is used; send raw for none")
    if given.get("context"):
        raise InvalidBody("context is not supported: send the conversation's messages to /api/chat")
    _refuse_unbuilt(model, given)
    messages: list[dict[str, str]] = []
    if prompt and not raw:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
    return _request("generate", model, given, ignored, messages, prompt if raw else None)


def parse_chat(body: bytes) -> Request:
    """The request in a `POST /api/chat` body.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, ignored = _fields(body, "ChatRequest", CHAT_FIELDS)
    model = _checked_model(given)
    if given.get("tools"):
        raise InvalidBody(f"{quote(model)} does not support tools")
    _refuse_unbuilt(model, given)
    messages = [_message(model, message, ignored) for message in given.get("messages", ())]
    return _request("chat", model, given, ignored, messages, None)


def parse_show(body: bytes) -> tuple[str, bool]:
    """The model's name in a `POST /api/show` body, and whether it wants everything."""
    given, _ = _fields(body, "ShowRequest", SHOW_FIELDS)
    return _checked_name(given.get("model") or given.get("name", "")), given.get("verbose", False)


def is_model_name(name: str) -> bool:
    """Whether Ollama would take `name` as [host/][namespace/]model[:tag] at all."""
    return _NAME.fullmatch(name) is not None


def fit_messages(
    messages: Sequence[dict[str, str]], limit: int, count: Callable[[Sequence[dict[str, str]]], int]
) -> tuple[list[dict[str, str]], int]:
    """The messages that fit `limit` tokens, by Ollama's rule: the oldest go first, but system messages stay, and so
    does the last message even when it alone does not fit.

    Args:
        messages: the conversation, not empty.
        limit: tokens the rendered prompt may have.
        count: tokens in the prompt of some of the messages; it must not grow when a message is left out.

    Returns:
        what is left, and how many messages went.
    """

    def kept(first: int) -> list[dict[str, str]]:
        system = [message for message in messages[:first] if message["role"] == "system"]
        return system + list(messages[first:])

    low, high = 0, len(messages) - 1
    if count(messages) > limit:
        low = 1
        while low < high:  # the first message to keep: the smallest index that fits
            middle = (low + high) // 2
            if count(kept(middle)) <= limit:
                high = middle
            else:
                low = middle + 1
    fitted = kept(min(low, len(messages) - 1))
    return fitted, len(messages) - len(fitted)


def _fields(body: bytes, struct: str, types: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The known fields of a body, checked in the order they stand, nulls left out; and the names of the unknown."""
    try:
        value = loads(body)
        if value is None:
            return {}, []
        if not isinstance(value, dict):
            raise mismatch(value, f"api.{struct}")
        given: dict[str, Any] = {}
        ignored: list[str] = []
        for name, item in value.items():
            if name not in types:
                ignored.append(name)
            elif item is not None:
                given[name] = _typed(item, types[name], f"{struct}.{name}")
    except InvalidBody as error:
        raise InvalidBody(str(error)) from None
    return given, ignored


def _typed(value: Any, target: str, place: str) -> Any:
    """`value` as the Go type `target`, or Go's error."""
    if target == "json.RawMessage":
        return value
    if target == "api.Duration":
        return parse_keep_alive(value)
    if target == "api.ThinkValue":
        return _think(value)
    if target == "int":
        if kind(value) != "number" or not isinstance(value, int):
            raise mismatch(value, target, place)
        return value
    if target == "[]api.ImageData" and isinstance(value, list):
        for item in value:
            if not isinstance(item, str):
                raise mismatch(item, "api.ImageData", place)
    elif target == "[]int" and isinstance(value, list):
        for item in value:
            _typed(item, "int", place)
    elif target == "[]api.Message" and isinstance(value, list):
        return [_typed_message(item) for item in value]
    elif kind(value) != _JSON_KINDS.get(target, "array"):
        raise mismatch(value, target, place)
    return value


def _typed_message(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise mismatch(value, "api.Alias")
    return {
        name: item if name not in _MESSAGE_FIELDS else _typed(item, _MESSAGE_FIELDS[name], f"Alias.{name}")
        for name, item in value.items()
        if item is not None
    }


def _think(value: Any) -> bool | str:
    words = '"high", "medium", "low", "max", true, or false'
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise InvalidBody(f"think must be a boolean or string ({words})")
    if value not in ("high", "medium", "low", "max"):
        raise InvalidBody(f"invalid think value: {quote(value)} (must be {words})")
    return value


def _checked_model(given: Mapping[str, Any]) -> str:
    if not 0 <= given.get("top_logprobs", 0) <= 20:
        raise InvalidBody("top_logprobs must be between 0 and 20")
    return _checked_name(given.get("model", ""))


def _checked_name(name: str) -> str:
    if not name.strip():
        raise InvalidBody("model is required")
    if not is_model_name(name):
        raise InvalidBody("invalid model name")
    return name


def _refuse_unbuilt(model: str, given: Mapping[str, Any]) -> None:
    """Refuse what would change the answer and is not built."""
    if given.get("think"):
        raise InvalidBody(f"{quote(model)} does not support thinking")
    if given.get("images"):
        raise InvalidBody(f"{quote(model)} does not support images")
    if given.get("_debug_render_only"):
        raise InvalidBody("_debug_render_only is not supported: POST /apply-template shows the rendered prompt")


def _schema(value: Any) -> Mapping[str, Any] | None:
    """The schema that `format` means; "json" is any object, as llama-server's `json_object` is."""
    if value in (None, ""):
        return None
    if value == "json":
        return {"type": "object"}
    if not isinstance(value, dict):
        raise InvalidBody(
            f'invalid format: {quote(orjson.dumps(value).decode())}; expected "json" or a valid JSON Schema object'
        )
    return value or {"type": "object"}


def _message(model: str, message: Mapping[str, Any], ignored: list[str]) -> dict[str, str]:
    if message.get("images"):
        raise InvalidBody(f"{quote(model)} does not support images")
    if message.get("tool_calls"):
        raise InvalidBody(f"{quote(model)} does not support tools")
    if not message.get("role"):
        raise InvalidBody("message role is required")
    for name, value in message.items():
        if name not in ("role", "content", "images", "tool_calls") and value and f"messages.{name}" not in ignored:
            ignored.append(f"messages.{name}")
    return {"role": message["role"].lower(), "content": message.get("content", "")}


def _request(
    api: Api,
    model: str,
    given: Mapping[str, Any],
    ignored: Sequence[str],
    messages: Sequence[dict[str, str]],
    prompt: str | None,
) -> Request:
    options = parse_options(given.get("options", {}))
    top_logprobs = given.get("top_logprobs", 0) if given.get("logprobs") else None
    unused = ["top_logprobs"] if given.get("top_logprobs") and top_logprobs is None else []
    return Request(
        api=api,
        model=model,
        messages=tuple(messages),
        prompt=prompt,
        stream=given.get("stream", True),
        keep_alive=given.get("keep_alive"),
        options=options,
        truncate=given.get("truncate", True),
        top_logprobs=top_logprobs,
        schema=_schema(given.get("format")),
        ignored=(*ignored, *unused, *(f"options.{name}" for name in options.ignored)),
    )


# -- steps out ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """What an answer measured; durations in nanoseconds.

    Attributes:
        done_reason: `stop` or `length`.
        total_ns: from the request's arrival to its end.
        load_ns: from its arrival until the model was there and the engine free.
        prompt_n: tokens of the whole prompt, reused ones included.
        cache_n: prompt tokens that needed no evaluation.
        prompt_ns, predicted_ns: evaluating the rest; drawing the answer.
        predicted_n: tokens drawn, the end token included.
        dropped: messages left out so that the prompt fits.
        receipt: the `bankml_receipt`.
    """

    done_reason: str
    total_ns: int
    load_ns: int
    prompt_n: int
    cache_n: int
    prompt_ns: int
    predicted_n: int
    predicted_ns: int
    dropped: int = 0
    receipt: Mapping[str, Any] | None = None


Tokens = Sequence[Mapping[str, Any]]
"""Tokens with their probabilities, from `ollama_logprobs`."""


def part(api: Api, model: str, said: ChatMessage, logprobs: Tokens = ()) -> dict[str, Any]:
    """One streamed piece of the answer."""
    return _answer(api, model, said, done=False) | _shown(logprobs)


def final(api: Api, model: str, said: ChatMessage, measured: Measured, logprobs: Tokens = ()) -> dict[str, Any]:
    """The last object of an answer, or the only one.

    Args:
        said, logprobs: what was not streamed yet: the whole answer, or nothing.
    """
    answer = _answer(api, model, said, done=True) | _shown(logprobs)
    answer |= {
        "done_reason": measured.done_reason,
        "total_duration": measured.total_ns,
        "load_duration": measured.load_ns,
        "prompt_eval_count": measured.prompt_n,
        "prompt_eval_duration": measured.prompt_ns,
        "eval_count": measured.predicted_n,
        "eval_duration": measured.predicted_ns,
        "bankml_cache_n": measured.cache_n,
    }
    if measured.dropped:
        answer["bankml_truncated"] = measured.dropped
    if measured.receipt is not None:
        answer["bankml_receipt"] = measured.receipt
    return answer


def nothing_done(api: Api, model: str, done_reason: Literal["load", "unload"]) -> dict[str, Any]:
    """The answer to a request without a prompt."""
    return _answer(api, model, ChatMessage(), done=True) | {"done_reason": done_reason}


def error(message: str) -> dict[str, str]:
    """Ollama's error body, and the line that ends a stream that failed."""
    return {"error": message}


def _shown(logprobs: Tokens) -> dict[str, Any]:
    return {"logprobs": list(logprobs)} if logprobs else {}


def _answer(api: Api, model: str, said: ChatMessage, *, done: bool) -> dict[str, Any]:
    thinking = {"thinking": said.reasoning} if said.reasoning else {}
    message: dict[str, Any] = {"response": said.content, **thinking}
    if api == "chat":
        message = {"message": {"role": "assistant", "content": said.content, **thinking}}
    return {"model": model, "created_at": format_time(), **message, "done": done}
