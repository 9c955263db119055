"""What a stream sends when a message has grown."""

from __future__ import annotations

import pytest

from engine.chat_formats.messages import ChatMessage, MessageDelta, ToolCall, UnexpectedAnswer, deltas


def calls(*found: ToolCall) -> ChatMessage:
    return ChatMessage(tool_calls=found)


def test_the_first_delta_of_a_call_names_it_and_later_ones_only_add_arguments() -> None:
    first, grown = ToolCall("f", '{"a":', "1"), ToolCall("f", '{"a":5}', "1")
    assert deltas(ChatMessage(), calls(first)) == [MessageDelta(tool_call_index=0, tool_call=first)]
    assert deltas(calls(first), calls(grown)) == [MessageDelta(tool_call_index=0, tool_call=ToolCall(arguments="5}"))]
    assert deltas(calls(grown), calls(grown)) == []


def test_the_rest_of_a_call_comes_before_the_next_one() -> None:
    old, new = calls(ToolCall("f", "{")), calls(ToolCall("f", "{}"), ToolCall("g", "{"))
    assert [(delta.tool_call_index, delta.tool_call) for delta in deltas(old, new)] == [
        (0, ToolCall(arguments="}")),
        (1, ToolCall("g", "{")),
    ]


def test_a_late_id_and_a_longer_name_are_sent_again() -> None:
    assert deltas(calls(ToolCall("f")), calls(ToolCall("fg", "", "1"))) == [
        MessageDelta(tool_call_index=0, tool_call=ToolCall("fg", "", "1"))
    ]


def test_reasoning_and_content_come_before_calls() -> None:
    found = deltas(ChatMessage(), ChatMessage("c", "r", (ToolCall("f"),)))
    assert found == [
        MessageDelta(reasoning="r"),
        MessageDelta("c"),
        MessageDelta(tool_call_index=0, tool_call=ToolCall("f")),
    ]


def test_a_call_that_becomes_another_or_is_gone_is_an_error() -> None:
    with pytest.raises(UnexpectedAnswer, match="tool call mismatch"):
        deltas(calls(ToolCall("f")), calls(ToolCall("g")))
    with pytest.raises(UnexpectedAnswer, match=r"finding less tool calls(.|\n)*name: 'f', args: '\{'"):
        deltas(calls(ToolCall("f", "{")), ChatMessage())
