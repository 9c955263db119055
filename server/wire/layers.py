"""What a derived model adds to a request, for every API. Pure functions.

The rules are those of Ollama's `server/routes.go`. Parameters are defaults under the request's own, one by one; `stop`
is one list, the model's or the request's. A conversation begins with the model's system message, unless it begins with
one of its own, and with the model's messages. A prompt that no template wraps gets neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from registry.derived import Layer
from server.errors import BadRequest
from server.wire.golang import InvalidBody
from server.wire.ollama_options import Options, parse_options

Message = Mapping[str, Any]

MIN_CTX: Final = 4
"""Tokens of the smallest context Ollama runs with; a `num_ctx` below counts as this."""

_LIMITS: Final = ("max_tokens", "n_predict", "max_completion_tokens")
"""A request's names for its most tokens."""

_OPTIONS: Final[WeakKeyDictionary[Layer, Options]] = WeakKeyDictionary()
"""What the parameters of each layer ask for."""


def options_under(layer: Layer | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Ollama's options of a request over those of the model.

    Args:
        layer: what the model adds; None for nothing.
        given: the request's `options`; a null leaves an option as it is in the model.
    """
    if layer is None:
        return dict(given)
    stop = {"stop": list(layer.stop)} if layer.stop else {}
    return {**layer.parameters, **stop, **{name: value for name, value in given.items() if value is not None}}


def chat_messages(layer: Layer | None, messages: Sequence[Message]) -> list[Message]:
    """A chat's messages with the model's before them; a chat without any stays so."""
    if layer is None or not messages:
        return list(messages)
    first = messages[0].get("role") if isinstance(messages[0], Mapping) else None
    return [*(_system(layer) if first != "system" else ()), *_turns(layer), *messages]


def prompt_messages(layer: Layer | None, messages: Sequence[Message], *, goes_on: bool = False) -> list[Message]:
    """The messages that a prompt became: its system message, or else the model's, then the model's messages.

    Args:
        messages: a system message or none, and the prompt.
        goes_on: the prompt follows a conversation whose tokens were given: the model's messages are in it.
    """
    if layer is None or not messages:
        return list(messages)
    own = [message for message in messages if message["role"] == "system"]
    rest = messages[len(own) :]
    return [*(own or _system(layer)), *(() if goes_on else _turns(layer)), *rest]


def body_under(layer: Layer | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of llama-server's or OpenAI's, with the model's parameters for what it does not say, and the model's
    messages before its own, if it has any.

    `num_ctx` is no field of theirs: see `context_of`.

    Raises:
        BadRequest: a parameter of the model is none that can be played.
    """
    if layer is None:
        return dict(body)
    options = options_of(layer)
    fields: dict[str, Any] = dict(options.sampling)
    if options.stop:
        fields["stop"] = list(options.stop)
    if fields.get("repeat_last_n") == -1 and options.num_ctx is not None:
        fields["repeat_last_n"] = options.num_ctx
    if options.num_predict > 0 and all(body.get(name) is None for name in _LIMITS):
        fields["n_predict"] = options.num_predict
    fields |= {name: value for name, value in body.items() if value is not None or name not in fields}
    if isinstance(messages := body.get("messages"), list):
        fields["messages"] = chat_messages(layer, messages)
    return fields


def options_of(layer: Layer) -> Options:
    """What the parameters of a layer ask for, parsed once; errors as `parsed_options`."""
    options = _OPTIONS.get(layer)
    if options is None:
        options = _OPTIONS[layer] = parsed_options(layer, {})
    return options


def context_of(layer: Layer | None) -> int | None:
    """The tokens of context that the model asks for; None for all that is served."""
    return None if layer is None else options_of(layer).num_ctx


def served_context(num_ctx: int | None, n_ctx: int) -> int:
    """The tokens of context that a request has.

    Args:
        num_ctx: what it asks for; None for all there are.
        n_ctx: what there are.

    Raises:
        BadRequest: it wants more than there are.
    """
    wanted = n_ctx if num_ctx is None else max(num_ctx, MIN_CTX)
    if wanted > n_ctx:
        raise BadRequest(f"num_ctx {wanted} is more than the context of {n_ctx} tokens that is served")
    return wanted


def parsed_options(layer: Layer | None, given: Mapping[str, Any]) -> Options:
    """What Ollama's options of a request ask for, over those of the model.

    Args:
        given: the request's, which can be played.

    Raises:
        BadRequest: a parameter of the model is none that can be played.
    """
    try:
        return parse_options(options_under(layer, given))
    except InvalidBody as error:
        raise BadRequest(f"a parameter of this model cannot be played: {error}") from None


def _system(layer: Layer) -> list[Message]:
    return [{"role": "system", "content": layer.system}] if layer.system else []


def _turns(layer: Layer) -> list[Message]:
    return [{"role": message.role, "content": message.content} for message in layer.messages]
