"""What `/api/generate` and `/api/chat` answer: a message and numbers in, Ollama's objects out. Pure functions.

Field names and their order are those of `GenerateResponse` and `ChatResponse` in Ollama's `api/types.go`; what only
this server says comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from engine.chat_formats.messages import ChatMessage, ToolCall, UnexpectedAnswer
from server.wire.golang import format_time, quote

Api = Literal["generate", "chat"]

Tokens = Sequence[Mapping[str, Any]]
"""Tokens with their probabilities, from `ollama_logprobs`."""


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
        context: of an answer to `/api/generate`, the conversation's tokens, for the next request's `context`.
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
    context: Sequence[int] = ()
    dropped: int = 0
    receipt: Mapping[str, Any] | None = None


def part(api: Api, model: str, said: ChatMessage, logprobs: Tokens = ()) -> dict[str, Any]:
    """One streamed piece of the answer."""
    return _answer(api, model, said, done=False) | _shown(logprobs)


def final(api: Api, model: str, said: ChatMessage, measured: Measured, logprobs: Tokens = ()) -> dict[str, Any]:
    """The last object of an answer, or the only one.

    Args:
        said, logprobs: what was not streamed yet: the whole answer, or its calls, which go out when they are whole.

    Raises:
        UnexpectedAnswer: the arguments of a call are no JSON object.
    """
    answer = _answer(api, model, said, done=True) | {"done_reason": measured.done_reason}
    if api == "chat":
        answer |= _shown(logprobs)
    elif measured.context:
        answer["context"] = list(measured.context)
    answer |= {
        "total_duration": measured.total_ns,
        "load_duration": measured.load_ns,
        "prompt_eval_count": measured.prompt_n,
        "prompt_eval_duration": measured.prompt_ns,
        "eval_count": measured.predicted_n,
        "eval_duration": measured.predicted_ns,
    }
    if api == "generate":
        answer |= _shown(logprobs)
    answer["bankml_cache_n"] = measured.cache_n
    if measured.dropped:
        answer["bankml_truncated"] = measured.dropped
    if measured.receipt is not None:
        answer["bankml_receipt"] = measured.receipt
    return answer


def nothing_done(api: Api, model: str, done_reason: Literal["load", "unload"]) -> dict[str, Any]:
    """The answer to a request without a prompt."""
    return _answer(api, model, ChatMessage(), done=True) | {"done_reason": done_reason}


def rendered(api: Api, model: str, prompt: str) -> dict[str, Any]:
    """The answer to `_debug_render_only`: the prompt, and nothing done."""
    answer = _answer(api, model, ChatMessage(), done=False)
    if api == "chat":
        answer["message"]["role"] = ""
    return answer | {"_debug_info": {"rendered_template": prompt}}


def error(message: str) -> dict[str, str]:
    """Ollama's error body, and the line that ends a stream that failed."""
    return {"error": message}


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, as the object that Ollama shows them as; `{}` for none.

    Raises:
        UnexpectedAnswer: they are no JSON object.
    """
    if not call.arguments.strip():
        return {}
    try:
        arguments = orjson.loads(call.arguments)
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise UnexpectedAnswer(f"the arguments of the model's call of {quote(call.name)} are no JSON object")
    return arguments


def arguments_text(calls: Sequence[ToolCall]) -> str:
    """The arguments of calls, one behind the other, as they stand in the answer."""
    return "".join(orjson.dumps(arguments_of(call)).decode() for call in calls)


def _shown(logprobs: Tokens) -> dict[str, Any]:
    return {"logprobs": list(logprobs)} if logprobs else {}


def _shown_call(index: int, call: ToolCall) -> dict[str, Any]:
    call_id = {"id": call.id} if call.id else {}
    return {**call_id, "function": {"index": index, "name": call.name, "arguments": arguments_of(call)}}


def _answer(api: Api, model: str, said: ChatMessage, *, done: bool) -> dict[str, Any]:
    thinking = {"thinking": said.reasoning} if said.reasoning else {}
    message: dict[str, Any] = {"response": said.content, **thinking}
    if api == "chat":
        calls = [_shown_call(index, call) for index, call in enumerate(said.tool_calls)]
        shown = {"tool_calls": calls} if calls else {}
        message = {"message": {"role": "assistant", "content": said.content, **thinking, **shown}}
    return {"model": model, "created_at": format_time(), **message, "done": done}
