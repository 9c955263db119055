"""What a template makes of reasoning and content: the markers that it puts around them.

llama-server b11192 finds out by rendering conversations that differ in one thing (`chat-diff-analyzer.cpp`). The
order of the questions matters: later ones look at what earlier ones found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engine.chat_formats.markers import segments, trim, visible
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.probing import (
    ANSWER,
    FIRST_ARGUMENT,
    FIRST_FUNCTION,
    SECOND_ARGUMENT,
    THOUGHT,
    USER,
    Comparison,
    Renderer,
    answer,
    call,
    compare,
    compared,
    marker,
    marker_and_space,
    tags_anywhere,
    tags_at_start,
)
from engine.chat_formats.template_corrections import CORRECTIONS
from engine.chat_formats.template_markers import Content, Reasoning, TemplateAnalysis
from engine.chat_formats.tool_analysis import find_tool_markers
from engine.chat_formats.tool_markers import ToolMarkers

_TAIL: Final = 64  # bytes of a prompt's end that are looked for in the other prompt


def analyze(template: Renderer, *, tool_calls: bool, parallel_calls: bool) -> TemplateAnalysis:
    """Probe a template.

    Args:
        tool_calls, parallel_calls: what the template can, by its capabilities.
    """
    reasoning = _reasoning_shown(template)
    reasoning = _reasoning_switched(template, reasoning)
    if tool_calls:
        reasoning = _reasoning_before_tools(template, reasoning)
    content = _content(template, reasoning)
    tools = ToolMarkers()
    if tool_calls:
        tools = find_tool_markers(template, (reasoning.start, reasoning.end), parallel=parallel_calls)
    found = [reasoning.start, reasoning.end, content.start, content.end, *tools.texts()]
    preserved = tuple(dict.fromkeys(filter(None, map(trim, found))))
    analysis = TemplateAnalysis(reasoning, content, tools, preserved)
    for applies, correct in CORRECTIONS:
        if applies(template.source, analysis):
            analysis = correct(analysis)
    return analysis


def _thought_between(builder: Builder) -> Parser:
    """A marker, the thought, a marker."""
    before = builder.tag("before", marker_and_space(builder))
    thought = builder.literal(THOUGHT)
    behind = builder.tag("behind", builder.sequence(builder.space(), marker_and_space(builder)))
    return builder.sequence(before, thought, behind)


def _thought_before(builder: Builder) -> Parser:
    """The thought, then a marker if there is one."""
    behind = builder.optional(builder.tag("behind", marker_and_space(builder)))
    return builder.sequence(builder.literal(THOUGHT), builder.space(), behind)


def _reasoning_shown(template: Renderer) -> Reasoning:
    """Markers around the reasoning of an answer that was given."""
    with_thought = [USER, answer(reasoning_content=THOUGHT)]
    shown = compare(template, [USER, answer()], with_thought)
    if shown is None or THOUGHT not in shown.difference.right:
        return Reasoning()
    tags = tags_anywhere(_thought_between, shown.right) or tags_anywhere(_thought_before, shown.right) or {}
    behind = tags.get("behind", "")
    return Reasoning("tags", tags.get("before", ""), behind) if behind else Reasoning()


def _reasoning_switched(template: Renderer, found: Reasoning) -> Reasoning:
    """Markers that the opening of an answer has with thinking switched on, or off."""
    openings = [template.render_probe([USER], enable_thinking=on, add_generation_prompt=True) for on in (False, True)]
    shown = compared(*openings)
    if shown is None:
        return found
    left, right = shown.difference.left, shown.difference.right
    if not trim(left) and right:
        if trim(right) and shown.right.endswith(trim(right)) and not found.start:
            found = replace(found, mode="tags", start=right)
    elif not trim(right) and left:
        if trim(left) and shown.left.endswith(trim(left)) and not found.end:
            pieces = visible(segments(shown.left))
            closed = len(pieces) >= 2 and pieces[-1].text == trim(left) and pieces[-2].is_marker
            found = Reasoning("tags", pieces[-2].text if closed else found.start, left)
    elif trim(left) and trim(right):
        found = _reasoning_at_tail(shown, found)
    if found.mode == "none" and not found.start and found.end:
        found = replace(found, mode="tags")
    return found


def _reasoning_at_tail(shown: Comparison, found: Reasoning) -> Reasoning:
    """The two markers that one prompt goes on with where the other ends, when they differ elsewhere too."""
    for short, long in ((shown.right, shown.left), (shown.left, shown.right)):
        tail, searched = short.encode()[-_TAIL:], long.encode()
        at = searched.rfind(tail)
        if at < 0:
            continue
        pieces = visible(segments(trim(searched[at + len(tail) :].decode())))
        if len(pieces) == 2 and pieces[0].is_marker and pieces[1].is_marker:
            return Reasoning("tags", found.start or pieces[0].text, found.end or pieces[1].text)
    return found


def _reasoning_before_tools(template: Renderer, found: Reasoning) -> Reasoning:
    """Whether reasoning is shown before tool calls alone, and its markers there."""
    calls = [call(FIRST_FUNCTION, {FIRST_ARGUMENT: "VVVV", SECOND_ARGUMENT: "XXXX"})]
    spoken = [USER, answer(reasoning_content=THOUGHT)]
    called = [USER, answer(None, reasoning_content=THOUGHT, tool_calls=calls)]
    shown = compare(template, spoken, called, tools=True)
    if shown is None or THOUGHT in shown.left or THOUGHT not in shown.right:
        return found

    def between(builder: Builder) -> Parser:
        before = builder.tag("before", marker_and_space(builder))
        behind = builder.tag("behind", marker_and_space(builder))
        return builder.sequence(before, builder.literal(THOUGHT), builder.space(), behind)

    tags = tags_anywhere(between, shown.right)
    if tags is not None:
        return Reasoning("tools", tags["before"], tags["behind"])
    tags = tags_anywhere(_thought_before, shown.right)
    if tags is not None:
        return Reasoning("tools", found.start, tags.get("behind", ""))
    return replace(found, mode="none")


def _content(template: Renderer, reasoning: Reasoning) -> Content:
    """Markers around the text of an answer."""
    spoken = [USER, answer()]
    called = [USER, answer("", tool_calls=[call("test_func", {"arg1": "value1"})])]
    beside_calls = compare(template, spoken, called, tools=True)
    beside_thought = compare(template, spoken, [USER, answer("", reasoning_content=THOUGHT)], tools=True)
    if beside_calls is None or beside_thought is None:
        return Content()
    text, thoughtful = beside_calls.difference.left, beside_thought.difference.left
    if trim(text) == ANSWER and _is_plain(thoughtful, reasoning):
        return Content()
    if reasoning.end and reasoning.end in thoughtful:
        thoughtful = thoughtful[thoughtful.find(reasoning.end) + len(reasoning.end) :]

    def wrapped(builder: Builder) -> Parser:
        before = builder.tag("before", marker_and_space(builder))
        behind = builder.tag("behind", marker_and_space(builder))
        return builder.sequence(before, builder.literal(ANSWER), builder.space(), behind)

    longer = thoughtful if _n_bytes(thoughtful) > _n_bytes(text) else text
    tags = tags_anywhere(wrapped, longer) or {"before": "", "behind": ""}
    start, end = tags["before"], tags["behind"]
    return Content(start, end, wrapped=bool(start and end))


def _n_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_plain(shown: str, reasoning: Reasoning) -> bool:
    """Whether a difference is no more than the text, be it behind the end of reasoning."""

    def itself(builder: Builder) -> Parser:
        end_marker = builder.optional(marker(builder))
        text = builder.literal(shown)
        return builder.sequence(builder.space(), text, builder.space(), end_marker, builder.space(), builder.end())

    if tags_at_start(itself, shown) is not None:
        return True
    if reasoning.mode == "none" or not reasoning.end:
        return False

    def behind_thought(builder: Builder) -> Parser:
        return builder.sequence(builder.literal(reasoning.end), builder.space(), builder.literal(ANSWER))

    return tags_anywhere(behind_thought, shown) is not None
