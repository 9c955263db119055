"""Tools as requests name them, and calls as answers show them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chat_formats.messages import MessageDelta, ToolCall
from engine.chat_formats.tools import Tool
from server.errors import BadRequest
from server.wire.chat_tools import parse_tools, shown_call_delta, shown_calls

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f"}}


def test_a_tool_has_a_name_and_may_have_more() -> None:
    full = {"name": "g", "description": "d", "parameters": {"type": "object"}, "strict": True}
    asked = parse_tools({"tools": [TOOL, {**TOOL, "function": full}]})
    assert asked.tools == (Tool("f", "", {}), Tool("g", "d", {"type": "object"}))
    assert (asked.choice, asked.may_call) == ("auto", True)


def test_no_tools_are_no_calls() -> None:
    assert not parse_tools({}).may_call
    assert not parse_tools({"tools": None}).may_call
    assert not parse_tools({"tools": [], "tool_choice": "required"}).may_call
    assert not parse_tools({"tools": [TOOL], "tool_choice": "none"}).may_call


def test_a_choice_of_one_function_counts_as_auto_and_is_named() -> None:
    asked = parse_tools({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}})
    assert (asked.choice, asked.ignored) == ("auto", ("tool_choice",))


def test_parallel_calls_are_the_templates_choice_unless_said() -> None:
    assert parse_tools({"tools": [TOOL]}).use(parallel=True).parallel
    assert not parse_tools({"tools": [TOOL], "parallel_tool_calls": False}).use(parallel=True).parallel
    assert parse_tools({"tools": [TOOL], "parallel_tool_calls": True}).use(parallel=False).parallel
    odd = parse_tools({"tools": [TOOL], "parallel_tool_calls": "yes"})
    assert (odd.use(parallel=True).parallel, odd.ignored) == (True, ("parallel_tool_calls",))
    assert parse_tools({"parallel_tool_calls": True}).ignored == ("parallel_tool_calls",)


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        (5, "Expected 'tools' to be an array, got 5"),
        ([5], "Missing tool type: 5"),
        ([{}], "Missing tool type: {}"),
        ([{"type": "web"}], 'Unsupported tool type: {"type":"web"}'),
        ([{"type": "function"}], 'Missing tool function: {"type":"function"}'),
        ([{**TOOL, "function": {}}], "[json.exception.out_of_range.403] key 'name' not found"),
        (
            [{**TOOL, "function": {"name": 5}}],
            "[json.exception.type_error.302] type must be string, but is number",
        ),
    ],
)
def test_what_is_no_tool_is_refused_in_the_references_words(tools: Any, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_tools({"tools": tools})
    assert caught.value.message.startswith(f"Failed to parse tools: {reason}; tools = ")


def test_a_whole_call_has_its_id_last() -> None:
    (shown,) = shown_calls([ToolCall("f", "{}", "1")])
    assert list(shown) == ["type", "function", "id"]


def test_a_stream_names_a_call_once() -> None:
    first = MessageDelta(tool_call_index=0, tool_call=ToolCall("f", "{", "1"))
    assert shown_call_delta(first) == {
        "tool_calls": [{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{"}}]
    }
    more = MessageDelta(tool_call_index=0, tool_call=ToolCall(arguments="}"))
    assert shown_call_delta(more) == {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}
    assert shown_call_delta(MessageDelta("text")) == {}
