"""Anthropic's Messages API as llama-server b11192 answers it, as pure functions: a body to the chat request that it
means, steps to named events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from engine import generation
from engine.chat_formats.messages import ChatMessage, MessageDelta, ToolCall
from engine.chat_formats.reader import AnswerReader
from engine.generation import Step
from engine.timings import Timings
from server.errors import BadRequest
from server.wire.fields import to_int
from server.wire.lenient import dumped, text_at, value_at
from server.wire.llama import Format
from server.wire.named_events import Event, StepReader, event
from server.wire.openai_parts import new_id

DEFAULT_MAX_TOKENS: Final = 4096
DEFAULT_BUDGET: Final = 10000
"""Tokens of an answer, and of its reasoning where that is on, for a request that does not say."""

_THINKING: Final = -2
_TEXT: Final = -1
"""What tells the blocks of a stream apart, beside the indices of its calls."""

_PASSED_ON: Final = ("temperature", "top_p", "top_k", "stream", "chat_template_kwargs")
_KNOWN: Final = frozenset(
    {*_PASSED_ON, "model", "system", "messages", "tools", "tool_choice", "stop_sequences", "max_tokens", "thinking"}
)

_BILLING: Final = "x-anthropic-billing-header:"
_STAMP: Final = "cch="
_STAMP_LENGTH: Final = 5


# -- request in ----------------------------------------------------------------------------------------------------


def chat_request(body: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The chat request that a messages request means, and the names of what is in it without effect.

    Raises:
        BadRequest: there are no messages (where llama-server gives 500 for the client's fault, we give 400).
    """
    if "messages" not in body:
        raise BadRequest("'messages' is required")
    ignored = [name for name in body if name not in _KNOWN and body[name] is not None]
    chat: dict[str, Any] = {"messages": [*_system(body.get("system")), *_messages(body["messages"], ignored)]}
    if isinstance(body.get("tools"), list):
        chat["tools"] = [_tool(tool) for tool in body["tools"]]
    kind = text_at(body.get("tool_choice"), "type")
    if kind in ("auto", "any", "tool"):
        chat["tool_choice"] = "auto" if kind == "auto" else "required"  # any tool will do, though one is named
    if "stop_sequences" in body:
        chat["stop"] = body["stop_sequences"]
    chat["max_tokens"] = body.get("max_tokens", DEFAULT_MAX_TOKENS)
    chat.update({name: body[name] for name in _PASSED_ON if name in body})
    if text_at(body.get("thinking"), "type") == "enabled":
        budget = value_at(body["thinking"], "budget_tokens")
        chat["thinking_budget_tokens"] = to_int(budget) if isinstance(budget, int | float) else DEFAULT_BUDGET
    return chat, (*ignored, *_without_effect(body))


def _without_effect(body: Mapping[str, Any]) -> Iterator[str]:
    """What llama-server does not look at inside fields that it knows."""
    choice, thinking = body.get("tool_choice"), body.get("thinking")
    if choice is not None and text_at(choice, "type") not in ("auto", "any", "tool"):
        yield "tool_choice"
    else:
        yield from (f"tool_choice.{name}" for name in choice or () if name != "type")
    if thinking is not None and text_at(thinking, "type") not in ("enabled", "disabled"):
        yield "thinking"


def _system(system: Any) -> list[dict[str, str]]:
    """The system prompt as the first message; its blocks stand one right behind the other."""
    if system is None:
        return []
    if isinstance(system, str):
        return [{"role": "system", "content": _unstamped(system)}]
    blocks = system if isinstance(system, list) else []
    texts = [_unstamped(text_at(block, "text")) for block in blocks if text_at(block, "type") == "text"]
    return [{"role": "system", "content": "".join(texts)}]


def _unstamped(text: str) -> str:
    """A system prompt whose billing header has no stamp of its own, which would hide the rest from the slot.

    The stamp is five bytes, here as there: nothing changes where that many do not end in a semicolon.
    """
    if not text.startswith(_BILLING):
        return text
    data = text.encode("utf-8", "surrogatepass")
    start = data.find(_STAMP.encode(), len(_BILLING))
    end = start + len(_STAMP) + _STAMP_LENGTH
    if start < 0 or data[end : end + 1] != b";":
        return text
    return (data[: end - _STAMP_LENGTH] + b"f" * _STAMP_LENGTH + data[end:]).decode("utf-8", "replace")


def _messages(messages: Any, ignored: list[str]) -> Iterator[Any]:
    """The messages of a chat; what is no list is none."""
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        blocks = value_at(message, "content")
        if isinstance(blocks, list):
            yield from _blocks(text_at(message, "role"), blocks, f"messages[{index}].content", ignored)
        elif text_at(message, "role") != "assistant" or "content" in message:
            yield message


def _blocks(role: str, blocks: list[Any], where: str, ignored: list[str]) -> Iterator[dict[str, Any]]:
    """A message of blocks as the chat's messages: the message itself, then one for each result of a tool."""
    content: list[Any] = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    reasoning = ""
    for index, block in enumerate(blocks):
        match text_at(block, "type"):
            case "text":
                content.append(block)
            case "thinking":
                reasoning += text_at(block, "thinking")
            case "image":
                content += _image(block)
            case "tool_use":
                calls.append(_call(block))
            case "tool_result":
                results.append(_result(block))
            case _:
                ignored.append(f"{where}[{index}]")
    if content or calls or reasoning:
        message: dict[str, Any] = {"role": role, "content": content or ""}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"reasoning_content": reasoning} if reasoning else {}
        yield message
    yield from results


def _image(block: Any) -> list[dict[str, Any]]:
    """An image as a part of a chat message, in a list; an empty one for a source of another kind."""
    source = value_at(block, "source")
    kind = text_at(source, "type")
    if kind == "base64":
        url = f"data:{text_at(source, 'media_type', 'image/jpeg')};base64,{text_at(source, 'data')}"
    elif kind == "url":
        url = text_at(source, "url")
    else:
        return []
    return [{"type": "image_url", "image_url": {"url": url}}]


def _call(block: Any) -> dict[str, Any]:
    """A tool call of a chat message; its input is the text that llama-server writes for it."""
    given = value_at(block, "input")
    arguments = dumped({} if given is None else given)
    return {
        "id": text_at(block, "id"),
        "type": "function",
        "function": {"name": text_at(block, "name"), "arguments": arguments},
    }


def _result(block: Any) -> dict[str, Any]:
    """The message of a tool's result; its texts are one text unless there is an image too."""
    content = value_at(block, "content")
    if isinstance(content, list):
        parts: list[dict[str, Any]] = []
        for part in content:
            if text_at(part, "type") == "text":
                parts.append({"type": "text", "text": text_at(part, "text")})
            elif text_at(part, "type") == "image":
                parts += _image(part)
        has_images = any(text_at(part, "type") == "image" for part in content)
        content = parts if has_images else "".join(part["text"] for part in parts)
    elif not isinstance(content, str):
        content = ""
    return {"role": "tool", "tool_call_id": text_at(block, "tool_use_id"), "content": content}


def _tool(tool: Any) -> dict[str, Any]:
    schema = tool["input_schema"] if isinstance(tool, dict) and "input_schema" in tool else {}
    function = {"name": text_at(tool, "name"), "description": text_at(tool, "description"), "parameters": schema}
    return {"type": "function", "function": function}


# -- steps out -----------------------------------------------------------------------------------------------------


def message_body(message: ChatMessage, final: generation.Final, timings: Timings, form: Format) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    blocks: list[dict[str, Any]] = []
    if message.reasoning:
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)} for call in message.tool_calls
    ]
    return {
        "id": new_id(),
        "type": "message",
        "role": "assistant",
        "content": blocks,
        "model": form.model,
        **_stop(message, final),
        "usage": _usage(timings, timings.predicted_n),
    }


def _input(call: ToolCall) -> Any:
    """A call's arguments, parsed; an empty object if they are cut short."""
    try:
        return orjson.loads(call.arguments)
    except orjson.JSONDecodeError:
        return {}


def _stop(message: ChatMessage, final: generation.Final) -> dict[str, Any]:
    reason = "max_tokens"
    if final.stop_type in ("eos", "word"):
        reason = "tool_use" if message.tool_calls else "end_turn"
    return {"stop_reason": reason, "stop_sequence": final.stopping_word or None}


def _usage(timings: Timings, n_output: int) -> dict[str, int]:
    return {"cache_read_input_tokens": timings.cache_n, "input_tokens": timings.prompt_n, "output_tokens": n_output}


class MessageEvents:
    """The events of one stream.

    A block opens when its first piece comes and is numbered in that order; all of them close when the answer ends.

    Args:
        reader: reads the answer.
        form: what the events show.
    """

    def __init__(self, reader: AnswerReader, form: Format) -> None:
        self._reader = StepReader(reader)
        self._form = form
        self._started = False
        self._blocks: dict[int, int] = {}  # the number of each open block, by `_THINKING`, `_TEXT` or the call's index

    def text_of(self, step: Step) -> str:
        """The text this step puts on the wire, reasoning and content."""
        return self._reader.read(step)

    def of_step(self, step: Step) -> Iterator[Event]:
        """The events of one step that `text_of` has read, but for the stream's last."""
        if not self._started and (step.send or step.final is not None):
            self._started = True
            yield self._start(step.timings)
        for delta in self._reader.deltas:
            yield from self._delta(delta)
        if step.final is not None:
            yield from self._closing()
            usage = {"output_tokens": step.timings.predicted_n}
            stop = _stop(self._reader.message, step.final)
            yield event("message_delta", delta=stop, usage=usage)

    def last(self, receipt: Mapping[str, Any] | None = None) -> Event:
        """The answer's last event, with the receipt."""
        return event("message_stop", **({} if receipt is None else {"bankml_receipt": receipt}))

    def _start(self, timings: Timings) -> Event:
        message: dict[str, Any] = {
            "id": new_id(),
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self._form.model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(timings, 0),
        }
        return event("message_start", message=message)

    def _delta(self, delta: MessageDelta) -> Iterator[Event]:
        if delta.reasoning:
            if _THINKING not in self._blocks:
                yield self._opened(_THINKING, {"type": "thinking", "thinking": ""})
            yield self._piece(_THINKING, {"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.content:
            if _TEXT not in self._blocks:
                yield self._opened(_TEXT, {"type": "text", "text": ""})
            yield self._piece(_TEXT, {"type": "text_delta", "text": delta.content})
        call, index = delta.tool_call, delta.tool_call_index
        if call is not None and index is not None:
            if call.name:
                yield self._opened(index, {"type": "tool_use", "id": call.id, "name": call.name})
            if call.arguments:
                yield self._piece(index, {"type": "input_json_delta", "partial_json": call.arguments})

    def _opened(self, key: int, block: dict[str, Any]) -> Event:
        number = self._blocks.setdefault(key, len(self._blocks))
        return event("content_block_start", index=number, content_block=block)

    def _piece(self, key: int, delta: dict[str, Any]) -> Event:
        return event("content_block_delta", index=self._blocks[key], delta=delta)

    def _closing(self) -> Iterator[Event]:
        """The ends of the blocks: the reasoning's, whose signature is empty, then the text's, then the calls'."""
        if _THINKING in self._blocks:
            yield self._piece(_THINKING, {"type": "signature_delta", "signature": ""})
        for key in sorted(self._blocks):
            yield event("content_block_stop", index=self._blocks[key])
