"""What templates show of reasoning, content and tool calls, found by rendering them."""

from __future__ import annotations

import pytest

from engine.chat_formats.specialized import specialized
from engine.chat_formats.template_markers import Content, Reasoning
from engine.chat_template import CHATML, ChatTemplate
from testing.oracles.chat_templates import TEMPLATES


@pytest.mark.parametrize(
    ("name", "reasoning"),
    [
        ("plain", Reasoning()),
        ("reasoning in tags, switched by an empty one", Reasoning("tags", "<think>\n", "\n</think>\n\n")),
        ("reasoning with an end alone", Reasoning("tags", "", "[BEGIN FINAL RESPONSE]\n")),
        ("reasoning in square brackets", Reasoning("tags", "[THINK]", "[/THINK]")),
        ("reasoning before tools alone", Reasoning("tools", "<think>", "</think>\n")),
        ("reasoning taken off and not shown", Reasoning("tags", "<think>", "</think>")),
        ("Laguna", Reasoning("tags", "<think>", "</think>")),
    ],
)
def test_the_markers_of_reasoning(name: str, reasoning: Reasoning) -> None:
    assert ChatTemplate(TEMPLATES[name]).analysis.reasoning == reasoning


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain", Content()),
        ("content in tags", Content("<response>", "</response>", wrapped=True)),
        ("Granite", Content("<response>", "</response>")),
        ("Command R", Content("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>", wrapped=True)),
    ],
)
def test_the_markers_of_content(name: str, content: Content) -> None:
    assert ChatTemplate(TEMPLATES[name]).analysis.content == content


def test_the_markers_of_tool_calls_in_their_modes() -> None:
    tools = {name: ChatTemplate(source).analysis.tools for name, source in TEMPLATES.items()}
    assert tools["plain"].mode == "none"
    hermes = tools["calls as JSON in tags"]
    assert (hermes.mode, hermes.call_start, hermes.call_end) == ("json", "<tool_call>\n", "</tool_call>")
    mistral = tools["calls as an array of JSON"]
    assert (mistral.in_array, mistral.section_start, mistral.id_field) == (True, "[TOOL_CALLS]", "id")
    assert tools["calls with JSON arguments"].mode == "tag_json"
    tagged = tools["calls with arguments in tags"]
    assert (tagged.mode, tagged.argument_prefix, tagged.value_suffix) == ("tags", "<arg_key>", "</arg_value>\n")
    assert tools["calls with an id"].id_prefix == "[CALL_ID]"


def test_a_template_that_refuses_every_conversation_shows_nothing() -> None:
    template = ChatTemplate("{{ raise_exception('no') }}")
    assert not template.thinks
    assert template.analysis.preserved == ()


@pytest.mark.parametrize(
    ("source", "kind", "thinks"),
    [
        (CHATML, None, False),
        ("<|channel|>", "gpt-oss", True),
        (">>>all >>>${recipient}", "Functionary v3.2", False),
        ("<tool_call><function=<parameter=", "Qwen3-Coder", False),
        ("<tool_call><function=<parameter=<think>", "Qwen3-Coder", True),
        ("[SYSTEM_PROMPT][TOOL_CALLS][ARGS]", "Ministral", True),
        ("[SYSTEM_PROMPT][TOOL_CALLS][ARGS][CALL_ID]", None, False),
    ],
)
def test_templates_with_code_of_their_own_are_known_by_their_source(
    source: str, kind: str | None, thinks: bool
) -> None:
    found = specialized(source)
    assert (found.name if found else None) == kind
    assert ChatTemplate(source).thinks == thinks
