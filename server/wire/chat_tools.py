"""The tools of a chat request, read as llama-server b11192 reads them, and the calls of an answer as OpenAI shows them.

What it cannot read it refuses in its own words, with the status that the client's fault has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import orjson

from engine.chat_formats.messages import MessageDelta, ToolCall
from engine.chat_formats.tools import Tool, ToolUse
from server.errors import BadRequest
from server.wire.fields import kind, wrong_type

_CHOICES: Final[Mapping[str, Literal["auto", "none", "required"]]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
}


@dataclass(frozen=True, slots=True)
class AskedTools:
    """What a request says of tools.

    Attributes:
        parallel: whether several calls may be made at once, None to leave it to the template.
        ignored: fields of a type that llama-server takes no notice of, or without effect.
    """

    tools: tuple[Tool, ...] = ()
    choice: Literal["auto", "none", "required"] = "auto"
    parallel: bool | None = None
    ignored: tuple[str, ...] = ()

    @property
    def may_call(self) -> bool:
        """Whether the answer may have calls."""
        return bool(self.tools) and self.choice != "none"

    def use(self, *, parallel: bool) -> ToolUse:
        """For a template that knows several calls in one answer, or does not."""
        return ToolUse(self.tools, self.choice, parallel if self.parallel is None else self.parallel)


def parse_tools(body: Mapping[str, Any]) -> AskedTools:
    """Read `tools`, `tool_choice` and `parallel_tool_calls`.

    A `tool_choice` that is an object, which names a function, counts as "auto".

    Raises:
        BadRequest: a tool that is none, a choice nobody knows.
    """
    tools = body.get("tools")
    found = () if tools is None else tuple(_tool(tool, tools) for tool in _listed(tools))
    choice = body.get("tool_choice")
    if isinstance(choice, str) and choice not in _CHOICES:
        raise BadRequest(f"Invalid tool_choice: {choice}")
    parallel = body.get("parallel_tool_calls")
    ignored = ["tool_choice"] if choice is not None and not isinstance(choice, str) else []
    if parallel is not None and not (found and isinstance(parallel, bool)):
        ignored.append("parallel_tool_calls")
    return AskedTools(
        found,
        _CHOICES[choice] if isinstance(choice, str) else "auto",
        parallel if isinstance(parallel, bool) else None,
        tuple(ignored),
    )


def _listed(tools: Any) -> list[Any]:
    if not isinstance(tools, list):
        _fail(f"Expected 'tools' to be an array, got {_dump(tools)}", tools)
    return tools


def _tool(tool: Any, tools: Any) -> Tool:
    if not isinstance(tool, dict) or "type" not in tool:
        _fail(f"Missing tool type: {_dump(tool)}", tools)
    if tool["type"] != "function":
        _fail(f"Unsupported tool type: {_dump(tool)}", tools)
    if "function" not in tool:
        _fail(f"Missing tool function: {_dump(tool)}", tools)
    function = tool["function"]
    if not isinstance(function, dict):
        _fail(f"[json.exception.type_error.304] cannot use at() with {kind(function)}", tools)
    if "name" not in function:
        _fail("[json.exception.out_of_range.403] key 'name' not found", tools)
    texts = (function["name"], function.get("description", ""))
    for text in texts:
        if not isinstance(text, str):
            _fail(str(wrong_type("string", text)), tools)
    return Tool(*texts, function.get("parameters", {}))


def _fail(reason: str, tools: Any) -> NoReturn:
    indented = orjson.dumps(tools, option=orjson.OPT_INDENT_2).decode()
    raise BadRequest(f"Failed to parse tools: {reason}; tools = {indented}")


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


# -- calls out -----------------------------------------------------------------------------------------------------


def shown_calls(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """The field `tool_calls` of a whole message."""
    return [
        {"type": "function", "function": {"name": call.name, "arguments": call.arguments}, "id": call.id}
        for call in calls
    ]


def shown_call_delta(delta: MessageDelta) -> dict[str, Any]:
    """What a stream shows of more of a call; nothing for a delta of another part."""
    if delta.tool_call_index is None or delta.tool_call is None:
        return {}
    call = delta.tool_call
    shown: dict[str, Any] = {"index": delta.tool_call_index}
    if call.id:
        shown |= {"id": call.id, "type": "function"}
    function = {name: text for name, text in (("name", call.name), ("arguments", call.arguments)) if text}
    if function:
        shown["function"] = function
    return {"tool_calls": [shown]}
