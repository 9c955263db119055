"""OpenAI's Responses API as llama-server b11192 answers it, as pure functions: a body to the chat request that it
means, steps to named events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from engine import generation
from engine.chat_formats.messages import ChatMessage, MessageDelta, ToolCall
from engine.chat_formats.reader import AnswerReader
from engine.generation import Step
from engine.timings import Timings
from server.errors import BadRequest
from server.wire.lenient import has_texts, list_at, text_at
from server.wire.llama import Format, shows_timings
from server.wire.named_events import Event, StepReader, event
from server.wire.openai_parts import new_id

_CONVERTED: Final = ("input", "instructions", "tools", "max_output_tokens", "reasoning", "previous_response_id")

# -- request in ----------------------------------------------------------------------------------------------------


def chat_request(body: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The chat request that a Responses request means, and the names of what is in it without effect. Fields that the
    two have in common, and llama-server's own, stay as they are.

    Raises:
        BadRequest: something that llama-server refuses, with its message.
    """
    if "input" not in body:
        raise BadRequest("'input' is required")
    if text_at(body, "previous_response_id"):
        raise BadRequest("llama.cpp does not support 'previous_response_id'.")
    ignored: list[str] = []
    chat = {name: value for name, value in body.items() if name not in _CONVERTED}
    chat["messages"] = _messages(body)
    if "tools" in body:
        tools = _tools(body["tools"], ignored)
        chat |= {"tools": tools} if tools else {}
    if "max_output_tokens" in body:
        chat["max_tokens"] = body["max_output_tokens"]
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        ignored += [f"reasoning.{name}" for name in reasoning if name != "effort"]
        chat |= {"reasoning_effort": reasoning["effort"]} if "effort" in reasoning else {}
    elif reasoning is not None:
        ignored.append("reasoning")
    return chat, tuple(ignored)


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if "instructions" in body:
        messages.append({"role": "system", "content": text_at(body, "instructions")})
    given = body["input"]
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    elif isinstance(given, list):
        for item in given:
            _add_item(messages, item)
    else:
        raise BadRequest("'input' must be a string or array of objects")
    return messages


def _add_item(messages: list[dict[str, Any]], item: Any) -> None:
    """Add an item of the input as a message, or to the assistant's message before it.

    Raises:
        BadRequest: it is of no known kind.
    """
    if has_texts(item, "content"):
        item = {**item, "content": [{"text": item["content"], "type": "input_text"}]}
    role, kind = text_at(item, "role"), text_at(item, "type")
    content = list_at(item, "content")
    if content is not None and role in ("user", "system", "developer"):
        messages.append(_plain(item) | {"content": [_input_part(part) for part in content]})
    elif role == "assistant" and kind == "message":
        parts = [_output_part(part) for part in content or ()]
        previous = _answered(messages)
        if previous is None:
            messages.append(_plain(item) | {"content": parts})
        else:
            previous["content"] = [*(list_at(previous, "content") or ()), *parts]
    elif kind == "function_call" and has_texts(item, "arguments", "call_id", "name"):
        function = {"arguments": item["arguments"], "name": item["name"]}
        previous = _answered(messages) or _begun(messages)
        previous.setdefault("tool_calls", []).append({"function": function, "id": item["call_id"], "type": "function"})
    elif kind == "function_call_output" and has_texts(item, "call_id") and isinstance(item.get("output"), str | list):
        output = item["output"]
        shown = output if isinstance(output, str) else [_tool_part(part) for part in output]
        messages.append({"content": shown, "role": "tool", "tool_call_id": item["call_id"]})
    elif kind == "reasoning" and list_at(item, "summary") is not None:
        thought = _thought(content)
        previous = _answered(messages) or _begun(messages, content=[])
        previous["reasoning_content"] = thought
    else:
        raise BadRequest("Cannot determine type of 'item'")


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("type", "status")}


def _answered(messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last message, if it is the assistant's."""
    return messages[-1] if messages and messages[-1].get("role") == "assistant" else None


def _begun(messages: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """A new message of the assistant's."""
    messages.append({"role": "assistant", **parts})
    return messages[-1]


def _input_part(part: Any) -> dict[str, Any]:
    match text_at(part, "type"):
        case "input_text":
            if "text" not in part:
                raise BadRequest("'Input text' requires 'text'")
            return {"text": part["text"], "type": "text"}
        case "input_image":
            return _image(part)
        case "input_file":
            raise BadRequest("'input_file' is not supported by llamacpp at this moment")
    raise BadRequest("'type' must be one of 'input_text', 'input_image', or 'input_file'")


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    if "image_url" not in part:
        raise BadRequest("'image_url' is required")
    return {"image_url": {"url": part["image_url"]}, "type": "image_url"}


def _output_part(part: Any) -> dict[str, Any]:
    match text_at(part, "type"):
        case "output_text" | "input_text":
            if not has_texts(part, "text"):
                raise BadRequest("'Output text' requires 'text'")
            return {"text": part["text"], "type": "text"}
        case "refusal":
            if not has_texts(part, "refusal"):
                raise BadRequest("'Refusal' requires 'refusal'")
            return {"refusal": part["refusal"], "type": "refusal"}
    raise BadRequest("'type' must be one of 'output_text' or 'refusal'")


def _tool_part(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict) or "type" not in part:
        raise BadRequest("Output of tool call missing 'type' field")
    match part["type"]:
        case "input_text":
            return part | {"type": "text"}
        case "input_image":
            return part | _image(part)
    raise BadRequest("Output of tool call should be 'Input text' or 'Input image'")


def _thought(content: Sequence[Any] | None) -> str:
    if content is None:
        raise BadRequest("item['content'] is not an array")
    if not content:
        raise BadRequest("item['content'] is empty")
    if not has_texts(content[0], "text"):
        raise BadRequest("item['content']['text'] is not a string")
    return text_at(content[0], "text")


def _tools(tools: Any, ignored: list[str]) -> list[dict[str, Any]]:
    """The tools that are functions; the chat endpoint knows no others."""
    if not isinstance(tools, list):
        raise BadRequest("'tools' must be an array of objects")
    ignored += [f"tools[{index}]" for index, tool in enumerate(tools) if text_at(tool, "type") != "function"]
    functions = [tool for tool in tools if text_at(tool, "type") == "function"]
    return [
        {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
        for tool in functions
    ]


# -- steps out -----------------------------------------------------------------------------------------------------


def response_body(message: ChatMessage, final: generation.Final, timings: Timings, form: Format) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    now = int(time.time())
    output: list[dict[str, Any]] = []
    if message.reasoning:
        output.append(_reasoning_item(new_id("rs_"), message.reasoning) | {"status": "completed"})
    if message.content:
        shape = {"content": [_text_part(message.content)], "id": new_id("msg_"), "role": "assistant"}
        output.append(shape | {"status": "completed", "type": "message"})
    output += map(_call_item, message.tool_calls)
    return {
        "completed_at": now,
        "created_at": now,
        "id": new_id("resp_"),
        "model": form.model,
        "object": "response",
        "output": output,
        "status": "completed",
        "usage": _usage(final, timings),
    }


def _reasoning_item(item_id: str, text: str) -> dict[str, Any]:
    content = [{"text": text, "type": "reasoning_text"}]
    return {"id": item_id, "summary": [], "type": "reasoning", "content": content, "encrypted_content": ""}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": f"call_{call.id}",
        "name": call.name,
    }


def _usage(final: generation.Final, timings: Timings) -> dict[str, Any]:
    return {
        "input_tokens": final.tokens_evaluated,
        "output_tokens": timings.predicted_n,
        "total_tokens": timings.predicted_n + final.tokens_evaluated,
        "input_tokens_details": {"cached_tokens": timings.cache_n},
    }


class ResponseEvents:
    """The events of one stream.

    Args:
        reader: reads the answer.
        form: what the events show.
    """

    def __init__(self, reader: AnswerReader, form: Format) -> None:
        self._reader = StepReader(reader)
        self._form = form
        self._id, self._reasoning_id, self._message_id = new_id("resp_"), new_id("rs_"), new_id("msg_")
        self._call_id = ""  # of the call whose arguments come
        self._begun: set[str] = set()  # what has been announced
        self._last: Event | None = None

    def text_of(self, step: Step) -> str:
        """The text this step puts on the wire, reasoning and content."""
        return self._reader.read(step)

    def of_step(self, step: Step) -> Iterator[Event]:
        """The events of one step that `text_of` has read, but for the stream's last."""
        response = {"id": self._id, "object": "response", "status": "in_progress"}
        events = [event("response.created", response=response)] if self._first("response") else []
        if events or step.progress is not None:
            events.append(event("response.in_progress", response=response))
        for delta in self._reader.deltas:
            events += self._delta(delta)
        if events and (step.send or step.progress is not None) and shows_timings(step, self._form):
            events[-1][1]["timings"] = step.timings.as_dict()
        if step.progress is not None:
            events[-1][1]["prompt_progress"] = asdict(step.progress)
        yield from events
        if step.final is not None:
            *done, self._last = self._done(step.final, step.timings)
            yield from done

    def last(self, receipt: Mapping[str, Any] | None = None) -> Event:
        """The answer's last event; its response has the receipt."""
        assert self._last is not None, "the answer has not ended"
        if receipt is not None:
            self._last[1]["response"]["bankml_receipt"] = receipt
        return self._last

    def _first(self, what: str) -> bool:
        is_first = what not in self._begun
        self._begun.add(what)
        return is_first

    def _delta(self, delta: MessageDelta) -> Iterator[Event]:
        if delta.reasoning:
            if self._first("reasoning"):
                item = {"id": self._reasoning_id, "summary": [], "type": "reasoning", "content": []}
                yield event(
                    "response.output_item.added", item=item | {"encrypted_content": "", "status": "in_progress"}
                )
            yield event("response.reasoning_text.delta", delta=delta.reasoning, item_id=self._reasoning_id)
        if delta.content:
            if self._first("message"):
                item = {"content": [], "id": self._message_id, "role": "assistant"}
                yield event("response.output_item.added", item=item | {"status": "in_progress", "type": "message"})
                part = {"type": "output_text", "text": ""}
                yield event("response.content_part.added", item_id=self._message_id, part=part)
            yield event("response.output_text.delta", item_id=self._message_id, delta=delta.content)
        if delta.tool_call is not None:
            yield from self._call_delta(delta.tool_call)

    def _call_delta(self, call: ToolCall) -> Iterator[Event]:
        if call.name:
            self._call_id = call.id
            item = {"id": f"fc_{call.id}", "arguments": "", "call_id": f"call_{call.id}", "name": call.name}
            yield event("response.output_item.added", item=item | {"type": "function_call", "status": "in_progress"})
        if call.arguments:
            item_id = f"fc_{self._call_id}"
            yield event("response.function_call_arguments.delta", delta=call.arguments, item_id=item_id)

    def _done(self, final: generation.Final, timings: Timings) -> Iterator[Event]:
        message = self._reader.message
        output: list[dict[str, Any]] = []
        if message.reasoning:
            output.append(_reasoning_item(self._reasoning_id, message.reasoning))
            yield event("response.output_item.done", item=output[-1])
        if message.content:
            part = _text_part(message.content)
            yield event("response.output_text.done", item_id=self._message_id, text=message.content)
            yield event("response.content_part.done", item_id=self._message_id, part=part)
            shape = {"type": "message", "status": "completed", "id": self._message_id}
            output.append(shape | {"content": [part], "role": "assistant"})
            yield event("response.output_item.done", item=output[-1])
        for call in message.tool_calls:
            output.append(_call_item(call))
            yield event("response.output_item.done", item=output[-1])
        response = {
            "id": self._id,
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "model": self._form.model,
            "output": output,
            "usage": _usage(final, timings),
        }
        name, data = event("response.completed", response=response)
        yield name, data | {"timings": timings.as_dict()}
