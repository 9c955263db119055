"""Templates that mislead the analysis, known by a piece of their source, and what llama-server b11192 makes of them."""

# ruff: noqa: RUF001 - the bars are theirs

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from engine.chat_formats.markers import trim
from engine.chat_formats.template_markers import Content, Reasoning, TemplateAnalysis

Applies = Callable[[str, TemplateAnalysis], bool]
Correct = Callable[[TemplateAnalysis], TemplateAnalysis]


def _has(*pieces: str) -> Applies:
    return lambda source, _: all(piece in source for piece in pieces)


def _old_qwen(source: str, found: TemplateAnalysis) -> bool:
    """Templates that take reasoning off earlier answers and do not show it."""
    return (
        "content.split('</think>')" in source
        and "reasoning_content" not in source
        and "<SPECIAL_12>" not in source
        and found.reasoning.mode == "none"
    )


def _command_r(source: str, found: TemplateAnalysis) -> bool:
    return "<|CHATBOT_TOKEN|>" in source and "<|END_OF_TURN_TOKEN|>" in source and not found.content.start


def _thinking_in_tags(found: TemplateAnalysis) -> TemplateAnalysis:
    reasoning = Reasoning("tags", "<think>", "</think>")
    return replace(found, reasoning=reasoning, preserved=(*found.preserved, "<think>", "</think>"))


def _granite(found: TemplateAnalysis) -> TemplateAnalysis:
    found = _thinking_in_tags(found)
    content = Content("<response>", "</response>")
    return replace(found, content=content, preserved=(*found.preserved, content.start, content.end))


def _wrapped_by_command_r(found: TemplateAnalysis) -> TemplateAnalysis:
    content = Content("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>", wrapped=True)
    return replace(found, content=content, preserved=(*found.preserved, content.start, content.end))


def _functionary(found: TemplateAnalysis) -> TemplateAnalysis:
    tools = replace(
        found.tools,
        name_prefix="",
        section_start="",
        section_end="",
        call_start="<function=",
        call_end="</function>",
        function_end="",
    )
    preserved = ("<|eot_id|>", "<|eom_id|>", "<function=", ">", "</function>")
    content = Content(found.content.start)
    return replace(found, content=content, tools=tools, preserved=preserved)


def _deepseek_r1(found: TemplateAnalysis) -> TemplateAnalysis:
    tools = replace(
        found.tools,
        section_start="<｜tool▁calls▁begin｜>",
        section_end="<｜tool▁calls▁end｜>",
        call_start="<｜tool▁call▁begin｜>function",
        name_prefix="<｜tool▁sep｜>",
        call_end="<｜tool▁call▁end｜>",
        function_end="```",
    )
    return replace(found, tools=tools)


def _nemotron(found: TemplateAnalysis) -> TemplateAnalysis:
    tools = replace(
        found.tools,
        mode="json",
        section_start="",
        section_end="",
        call_start="<TOOLCALL>",
        call_end="</TOOLCALL>",
        in_array=True,
    )
    preserved = ("<SPECIAL_11>", "</think>", "<TOOLCALL>", "</TOOLCALL>")
    return TemplateAnalysis(Reasoning("tags", "<think>\n", "</think>"), Content(), tools, preserved)


def _openai_calls(found: TemplateAnalysis) -> TemplateAnalysis:
    return replace(found, tools=replace(found.tools, openai_wrapper=True))


def _laguna(found: TemplateAnalysis) -> TemplateAnalysis:
    reasoning = replace(found.reasoning, start=trim(found.reasoning.start), end=trim(found.reasoning.end))
    tools = found.tools
    tools = replace(
        tools,
        value_prefix=trim(tools.value_prefix),
        value_suffix=trim(tools.value_suffix),
        argument_separator=trim(tools.argument_separator),
        space_between_arguments=True,
    )
    return replace(found, reasoning=reasoning, tools=tools, stops=(*found.stops, "</assistant>"))


def _bailing(found: TemplateAnalysis) -> TemplateAnalysis:
    tools = replace(found.tools, value_suffix=trim(found.tools.value_suffix), space_between_arguments=True)
    return replace(found, tools=tools)


# In the reference's order: one may build on another.
CORRECTIONS: Final[tuple[tuple[Applies, Correct], ...]] = (
    (_old_qwen, _thinking_in_tags),
    (
        _has("Write your thoughts between <think></think> and write your response between <response></response>"),
        _granite,
    ),
    (_command_r, _wrapped_by_command_r),
    (
        _has(
            'set has_code_interpreter = tools | selectattr("type", "equalto", "code_interpreter") | list | length > 0'
        ),
        _functionary,
    ),
    (
        _has("{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>'"),
        _deepseek_r1,
    ),
    (_has("<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<TOOL_RESPONSE>"), _nemotron),
    (_has('Respond in the format {"name": function name', "Do not use variables."), _openai_calls),
    (_has("laguna_glm_thinking"), _laguna),
    (_has("Bailing V3 chat template"), _bailing),
)
