"""The answer of a template that knows tool calls: reasoning, text, calls, in the form that its analysis found."""

from __future__ import annotations

from engine.chat_formats.json_calls import json_calls
from engine.chat_formats.parts import CONTENT
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.tagged_calls import TaggedCalls
from engine.chat_formats.template_markers import Content, TemplateAnalysis
from engine.chat_formats.tool_markers import ToolMarkers
from engine.chat_formats.tools import Schemas, ToolUse
from engine.grammar import GrammarTrigger, TriggerType


def calling_answer(
    builder: Builder, analysis: TemplateAnalysis, reasoning: Parser, use: ToolUse, schemas: Schemas
) -> Parser:
    """The answer behind its opening.

    Raises:
        InvalidRequest: a function's schema cannot be.
    """
    markers = analysis.tools
    if markers.mode == "none":
        return builder.empty()
    if markers.mode == "json":
        return _with_json(builder, markers, analysis.content, reasoning, use, schemas)
    calls = TaggedCalls(builder, markers, schemas)
    made = calls.with_json(use) if markers.mode == "tag_json" else calls.with_tags(use)
    start = trigger_of(markers)
    before = builder.until(start) if start else builder.empty()
    return builder.plus(reasoning, lambda: builder.optional(builder.tag(CONTENT, before)), made, builder.end)


def _with_json(
    builder: Builder, markers: ToolMarkers, content: Content, reasoning: Parser, use: ToolUse, schemas: Schemas
) -> Parser:
    """An answer whose calls are JSON objects."""
    builder.empty()
    if not markers.section_start and markers.call_start:
        one = json_calls(builder, markers, (markers.call_start, markers.call_end), use, schemas)
        several = builder.repeat(builder.plus(one, builder.space), 1, -1)
        calls = builder.rule("tool-calls", several, triggers=True)
    else:
        calls = json_calls(builder, markers, (markers.section_start, markers.section_end), use, schemas)
    if content.wrapped:
        text = builder.plus(content.start, lambda: builder.tag(CONTENT, builder.until(content.end)), content.end)
        return builder.plus(reasoning, builder.optional(text), calls, builder.end)
    start = trigger_of(markers) or "{"
    return builder.plus(
        reasoning, lambda: builder.optional(builder.tag(CONTENT, builder.until(start))), calls, builder.end
    )


def trigger_of(markers: ToolMarkers) -> str:
    """The text that begins calls, "" for none."""
    return markers.section_start or markers.call_start


def triggers_of(markers: ToolMarkers) -> tuple[GrammarTrigger, ...]:
    """What starts a lazy grammar."""
    words = [trigger_of(markers)]
    if markers.openai_wrapper:
        words.append('{"type": "function",')
    return tuple(GrammarTrigger(TriggerType.WORD, word) for word in words)
