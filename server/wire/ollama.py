"""Ollama's requests for answers as pure functions: a body of `/api/generate` or `/api/chat` in, a frozen request out.

Fields, statuses and error texts are those of Ollama's `api/types.go` and `server/routes.go`. A conversation becomes
what Ollama makes of it for the llama-server that it runs: a chat request. What the options mean is llama-server's
business: a request without options samples as the same request does on `/v1`, so the same tokens come back, not those
of Ollama's own defaults. What is not played is refused with its reason, never dropped.

A body is read in two steps, for Ollama looks for the model in between: what it would not read at all, and a name that
is none, are told first; then that there is no such model; then what the request asks in vain.

Every function that reads a body raises `InvalidBody`, a 400, whose text is Go's or Ollama's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from registry.derived import Layer
from server.wire import layers
from server.wire.golang import InvalidBody, quote
from server.wire.ollama_answers import Api
from server.wire.ollama_fields import MESSAGE_FIELDS, Fields, checked_name, fields_of, found_name
from server.wire.ollama_options import Options, parse_options

GENERATE_FIELDS: Final[Fields] = {
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

CHAT_FIELDS: Final[Fields] = {
    "model": "string",
    "messages": "[]api.Message",
    "tools": "api.Tools",
    **{name: GENERATE_FIELDS[name] for name in ("stream", "format", "keep_alive", "options", "think", "truncate")},
    **{name: GENERATE_FIELDS[name] for name in ("shift", "_debug_render_only", "logprobs", "top_logprobs")},
}
"""The fields of `POST /api/chat` and their Go types."""

Message = Mapping[str, Any]
"""A message as llama-server's chat requests have it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A `/api/generate` or `/api/chat` request that may run.

    Attributes:
        api: which of the two.
        model: the name as the client wrote it.
        messages: the conversation; a prompt that is not raw is its one user's message.
        prompt: with `raw` the text to continue as it is; with a `suffix` what stands before the gap; else None.
        suffix: what stands behind a gap to be filled, "" for none.
        context: tokens of what was said before, to stand before the prompt (deprecated in Ollama).
        tools: what may be called, as it was given.
        think: whether to reason, or how hard; None for as the model does.
        stream: NDJSON lines, or one object.
        keep_alive: seconds the model stays afterwards, `FOREVER`, 0 to unload it; None for the server's default.
        options: what is asked of the sampler and the context; see `Options`.
        given_options: the same, as they were given.
        truncate: drop the oldest messages of a conversation that does not fit, instead of refusing it.
        top_logprobs: how many of the most likely tokens to show beside each token; None to show no probabilities.
        schema: a JSON schema that the answer follows (`format`); None for any text.
        renders: only show the prompt (`_debug_render_only`).
        ignored: names of fields and options that change nothing here.
    """

    api: Api
    model: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    suffix: str = ""
    context: tuple[int, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    think: bool | str | None = None
    stream: bool = True
    keep_alive: float | None = None
    options: Options = field(default_factory=Options)
    given_options: Mapping[str, Any] = field(default_factory=dict)
    truncate: bool = True
    top_logprobs: int | None = None
    schema: Mapping[str, Any] | None = None
    renders: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def only_loads(self) -> bool:
        """Nothing to answer: the request loads the model."""
        return not self.messages and not self.prompt

    @property
    def raw(self) -> bool:
        """The prompt is continued as it is."""
        return self.prompt is not None and not self.suffix

    def under(self, layer: Layer | None) -> Request:
        """The request with what its model adds.

        Raises:
            BadRequest: a parameter of the model is none that can be played.
        """
        if layer is None:
            return self
        if self.api == "chat":
            messages = layers.chat_messages(layer, self.messages)
        else:
            messages = layers.prompt_messages(layer, self.messages, goes_on=bool(self.context))
        options = layers.parsed_options(layer, self.given_options)
        return replace(self, messages=tuple(messages), options=options)

    def chat_body(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The chat request of llama-server that asks for an answer to `messages`, without what samples it."""
        body: dict[str, Any] = {"messages": list(messages), "json_schema": self.schema}
        if self.tools:
            body["tools"] = list(self.tools)
            if self.top_logprobs is not None:  # Ollama streams from llama-server, whether its client does or not
                body |= {"logprobs": True, "stream": True}
        if self.think is not None:
            body["chat_template_kwargs"] = {"enable_thinking": bool(self.think)}
            if isinstance(self.think, str):
                body["chat_template_kwargs"]["reasoning_effort"] = self.think
        return body


@dataclass(frozen=True, slots=True)
class Given:
    """A body of `/api/generate` or `/api/chat` as far as Ollama reads it before it looks for the model.

    Attributes:
        api, model: as of `Request`.
        fields: what was given, by the names and of the types of the API.
        unknown: names of fields that the API does not have.
    """

    api: Api
    model: str
    fields: Mapping[str, Any]
    unknown: tuple[str, ...] = ()

    @property
    def unloads(self) -> bool:
        """There is nothing to answer, and the model is to go: whatever else is said, it goes."""
        asks = self.fields.get("messages" if self.api == "chat" else "prompt")
        return not asks and self.fields.get("keep_alive") == 0

    @property
    def think(self) -> bool | str | None:
        """As of `Request`."""
        return self.fields.get("think")

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """As of `Request`."""
        tools: Sequence[Mapping[str, Any]] = self.fields.get("tools", ())
        return tools

    @property
    def suffix(self) -> str:
        """As of `Request`."""
        return str(self.fields.get("suffix", ""))

    def check(self) -> None:
        """What Ollama refuses before it asks what the model can do.

        Raises:
            InvalidBody: the body contradicts itself.
        """
        given = self.fields
        if given.get("raw") and (given.get("system") or given.get("template") or given.get("context")):
            raise InvalidBody("raw mode does not support template, system, or context")

    def request(self) -> Request:
        """The request that the body is.

        Raises:
            InvalidBody: with Ollama's text for what is wrong with it.
        """
        return _generate_request(self) if self.api == "generate" else _chat_request(self)


def parse_generate(body: bytes) -> Given:
    """A `POST /api/generate` body.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
        ModelNotFound: it names no model.
    """
    given, unknown = fields_of(body, "GenerateRequest", GENERATE_FIELDS)
    _check_top_logprobs(given)
    return Given("generate", found_name(given.get("model", "")), given, tuple(unknown))


def parse_chat(body: bytes) -> Given:
    """A `POST /api/chat` body.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, unknown = fields_of(body, "ChatRequest", CHAT_FIELDS)
    _check_top_logprobs(given)
    return Given("chat", checked_name(given.get("model", "")), given, tuple(unknown))


def _generate_request(asked: Given) -> Request:
    given, ignored = asked.fields, list(asked.unknown)
    options = parse_options(given.get("options", {}))
    raw, system, prompt = given.get("raw", False), given.get("system", ""), given.get("prompt", "")
    suffix, context = given.get("suffix", ""), given.get("context", [])
    if raw and suffix:
        raise InvalidBody("raw mode does not support suffix")
    if given.get("template"):
        raise InvalidBody("template is not supported: the model's own chat template is used; send raw for none")
    if raw or suffix:
        ignored += [name for name in ("system", "think") if given.get(name)]
    messages: list[Message] = []
    if prompt and not raw and not suffix:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
    return _request(
        asked,
        options,
        ignored,
        messages=tuple(messages),
        prompt=prompt if raw or suffix else None,
        suffix=suffix,
        context=tuple(context),
    )


def _chat_request(asked: Given) -> Request:
    given, ignored = asked.fields, list(asked.unknown)
    options = parse_options(given.get("options", {}))
    messages = [_message(asked.model, message, ignored) for message in given.get("messages", ())]
    return _request(asked, options, ignored, messages=tuple(messages), tools=tuple(asked.tools))


def _check_top_logprobs(given: Mapping[str, Any]) -> None:
    if not 0 <= given.get("top_logprobs", 0) <= 20:
        raise InvalidBody("top_logprobs must be between 0 and 20")


def _refuse_unplayed(model: str, given: Mapping[str, Any]) -> None:
    """Refuse what would change the answer and cannot be played."""
    if given.get("images"):
        raise InvalidBody(f"{quote(model)} does not support images")
    if given.get("shift"):
        raise InvalidBody("shift is not supported: an answer ends where the context is full")


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


def _message(model: str, given: Mapping[str, Any], ignored: list[str]) -> Message:
    """A message for llama-server; a tool's name and a call's id are there only where they are not empty."""
    if given.get("images"):
        raise InvalidBody(f"{quote(model)} does not support images")
    if not given.get("role"):
        raise InvalidBody("message role is required")
    ignored += [
        f"messages.{name}"
        for name, value in given.items()
        if name not in MESSAGE_FIELDS and value and f"messages.{name}" not in ignored
    ]
    message: dict[str, Any] = {"role": given["role"].lower(), "content": given.get("content", "")}
    names = {"reasoning_content": "thinking", "tool_call_id": "tool_call_id", "name": "tool_name"}
    message |= {name: given[source] for name, source in names.items() if given.get(source)}
    if given.get("tool_calls"):
        message["tool_calls"] = [_call(call) for call in given["tool_calls"]]
    return message


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    """A call that was made, with its arguments as the JSON text that OpenAI's shape has."""
    function = given.get("function", {})
    arguments = orjson.dumps(function.get("arguments", {})).decode()
    call = {"type": "function", "function": {"name": function.get("name", ""), "arguments": arguments}}
    return {"id": given["id"], **call} if given.get("id") else call


def _request(asked: Given, options: Options, ignored: Sequence[str], **said: Any) -> Request:
    model, given = asked.model, asked.fields
    _refuse_unplayed(model, given)
    top_logprobs = given.get("top_logprobs", 0) if given.get("logprobs") else None
    unused = ["top_logprobs"] if given.get("top_logprobs") and top_logprobs is None else []
    return Request(
        api=asked.api,
        model=model,
        think=asked.think,
        stream=given.get("stream", True),
        keep_alive=given.get("keep_alive"),
        options=options,
        given_options=given.get("options", {}),
        truncate=given.get("truncate", True),
        top_logprobs=top_logprobs,
        schema=_schema(given.get("format")),
        renders=given.get("_debug_render_only", False),
        ignored=(*ignored, *unused, *(f"options.{name}" for name in options.ignored)),
        **said,
    )
