"""Chat templates give llama-server's prompts; a template's or a client's mistake is a refusal with its reason."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.chat_template import CHATML, ChatTemplate, normalize_messages
from engine.errors import InvalidModelFile, InvalidRequest, UnplayableModel
from engine.gguf import GGUFFile
from engine.tokenizer import Tokenizer

RECORD = json.loads(
    (Path(__file__).parents[2] / "testing/oracles/records/templates_smollm2.json").read_text(encoding="utf-8")
)
USER = {"role": "user", "content": "Hello"}


@pytest.fixture(scope="module")
def template(model_path: Path) -> ChatTemplate:
    with GGUFFile.open(model_path) as file:
        return ChatTemplate.from_gguf(file.metadata, Tokenizer.from_gguf(file.metadata))


def prompt_of(template: ChatTemplate, body: Mapping[str, Any]) -> str:
    """The prompt of a request: a final assistant message is not rendered but continued."""
    messages = list(body["messages"])
    variables = dict(body.get("chat_template_kwargs", {}))
    opening = body.get("add_generation_prompt", True)
    if not (messages and messages[-1]["role"] == "assistant"):
        return template.render(messages, add_generation_prompt=opening, tools=body.get("tools"), **variables)
    content = messages.pop()["content"]
    prefill = content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)
    prompt = template.render(messages, add_generation_prompt=False, **variables)
    return prompt + template.generation_prompt(messages, **variables) + prefill if prefill else prompt


# --- the record ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORD["prompts"])
def test_smollm2_s_template_gives_the_recorded_prompt(template: ChatTemplate, name: str) -> None:
    entry = RECORD["prompts"][name]
    assert prompt_of(template, entry["request"]) == entry["prompt"]


def test_the_template_and_what_it_can_do_are_the_recorded_ones(template: ChatTemplate) -> None:
    assert template.source == RECORD["chat_template"]
    assert dataclasses.asdict(template.capabilities) == RECORD["chat_template_caps"]


# --- llama-server's own ways --------------------------------------------------------------------------------------


def rendered(source: str, *messages: Mapping[str, Any], **variables: Any) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(messages or [USER], **variables)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{{ eos_token }}{{ enable_thinking }}", "<s></s>False"),
        ("{{ date_string | length }} {{ datetime | length }}", "11 11"),
    ],
)
def test_a_template_finds_the_variables_of_llama_server(source: str, text: str) -> None:
    assert rendered(source) == text


def test_the_developer_is_the_system_unless_the_template_knows_channels() -> None:
    source = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    messages = [{"role": "developer", "content": "a"}, USER]
    assert rendered(source, *messages) == "system:a;user:Hello;"
    assert rendered(source + "{# <|channel|> #}", *messages) == "developer:a;user:Hello;"


def test_text_parts_are_joined_for_a_template_of_texts_and_kept_for_one_of_parts() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert rendered("{{ messages[0].content }}", parts) == "a\nb"
    typed = "{% for part in messages[0].content %}[{{ part.text }}]{% endfor %}"
    assert rendered(typed, parts) == "[a][b]"
    assert rendered(typed, USER) == "[Hello]"
    both = f"{{% if messages[0].content is string %}}{{{{ messages[0].content }}}}{{% else %}}{typed}{{% endif %}}"
    assert rendered(both, parts) == "[a][b]"
    assert rendered(both, USER) == "Hello"


def test_a_system_message_goes_into_the_next_one_where_the_template_knows_none() -> None:
    source = "{% for m in messages %}{% if m.role != 'system' %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}"
    assert rendered(source, {"role": "system", "content": "a"}, USER) == "user:a\nHello;"
    assert rendered(source, {"role": "system", "content": "a"}) == ""


def test_arguments_of_calls_are_objects_for_a_template_that_reads_them() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": {"b": 1}}'}}
    messages = [USER, {"role": "assistant", "tool_calls": [call]}]
    loop = "{% for m in messages %}{% for c in m.tool_calls %}{{ %s }}{% endfor %}{% endfor %}"
    objects = loop.replace("%s", "c.function.arguments | tojson")
    assert rendered(objects, *messages) == '{"a": {"b": 1}}'
    assert ChatTemplate(objects).capabilities.supports_object_arguments
    texts = loop.replace("%s", "'<' + c.function.arguments + '>'")
    assert rendered(texts, *messages) == '<{"a": {"b": 1}}>'
    broken = [USER, {"role": "assistant", "tool_calls": [{**call, "function": {"name": "f", "arguments": "{"}}]}]
    with pytest.raises(InvalidRequest, match="Failed to parse tool call arguments as JSON"):
        rendered(objects, *broken)


def test_the_tool_template_stands_beside_the_other_one() -> None:
    template = ChatTemplate("plain", tool_use="{{ tools | length }} tools")
    assert template.render([USER], tools=[{}, {}]) == "plain"
    assert template.with_tools.render([USER], tools=[{}, {}]) == "2 tools"
    assert ChatTemplate("plain").with_tools.render([USER]) == "plain"


def test_a_bos_or_eos_that_tokenizing_adds_is_left_out_of_the_prompt() -> None:
    source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    assert ChatTemplate(source, "<s>", "</s>", add_bos=True).render([USER]) == "Hello</s>"
    assert ChatTemplate(source, "<s>", "</s>", add_eos=True).render([USER]) == "<s>Hello"


def test_thinking_is_on_where_the_template_knows_it_and_nobody_says_otherwise() -> None:
    opening = "{% if add_generation_prompt %}<a>{% if not enable_thinking %}<think></think>{% endif %}{% endif %}"
    assert rendered(opening) == "<a>"
    assert rendered(opening, enable_thinking=False) == "<a><think></think>"


def test_variables_of_the_request_win_over_the_conversation_s() -> None:
    assert rendered("{{ messages[0].content }}{{ x }}", messages=[{"content": "b"}], x="c") == "bc"


def test_reasoning_switches_have_the_names_that_templates_use() -> None:
    source = "{{ preserve_thinking }}{{ clear_thinking }}{{ reasoning_strength }}"
    assert rendered(source, reasoning_effort="low") == "TrueFalselow"
    assert rendered(source, preserve_reasoning=False) == "FalseTrue"


def test_the_opening_is_what_the_template_adds_for_it(template: ChatTemplate) -> None:
    assert template.generation_prompt([USER]) == "<|im_start|>assistant\n"


def test_a_model_without_a_template_is_asked_in_chatml() -> None:
    assert rendered("") == rendered(CHATML) == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


# --- messages -----------------------------------------------------------------------------------------------------


def test_messages_are_reduced_to_the_keys_that_templates_may_see() -> None:
    call = {"function": {"arguments": {"b": [1]}, "name": "f"}, "id": "1", "type": "function", "x": 1}
    given = {"tool_calls": [call], "images": [], "role": "assistant", "name": "", "reasoning_content": "r"}
    expected = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "r",
        "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": '{"b":[1]}'}, "id": "1"}],
    }
    assert normalize_messages([given]) == [expected]
    assert json.dumps(normalize_messages([given])) == json.dumps([expected])  # their order too


def test_normalizing_twice_changes_nothing() -> None:
    messages = normalize_messages([{"role": "user", "content": [{"type": "text", "text": "a"}]}, USER])
    assert normalize_messages(messages) == messages


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("text", "Expected 'message' to be an object"),
        ({"content": "a"}, "Missing 'role' in message"),
        ({"role": "user"}, "Expected 'content' or 'tool_calls'"),
        ({"role": 5, "content": "a"}, "type must be string, but is number"),
        ({"role": "user", "content": 5}, "Invalid 'content' type: expected string or array, got 5"),
        ({"role": "user", "content": [{"text": "a"}]}, "Missing content part type"),
        ({"role": "user", "content": ["a"]}, "Missing content part type"),
        ({"role": "user", "content": [{"type": "image_url"}]}, 'Unsupported content part type: "image_url"'),
        ({"role": "user", "content": [{"type": "text"}]}, "key 'text' not found"),
        ({"role": "assistant", "tool_calls": [{}]}, "Missing tool call type"),
        ({"role": "assistant", "tool_calls": [{"type": "x"}]}, "Unsupported tool call type"),
        ({"role": "assistant", "tool_calls": [{"type": "function"}]}, "Missing tool call function"),
        ({"role": "assistant", "tool_calls": [{"type": "function", "function": {}}]}, "Missing tool call name"),
        ({"role": "assistant", "tool_calls": "f()"}, 'Missing tool call type: "f()"'),
    ],
)
def test_a_malformed_message_is_refused_with_its_reason(message: Any, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(reason)):
        normalize_messages([message])


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ raise_exception('No system role.') }}", "Jinja Exception: No system role."),
        ("{{ missing() }}", "'missing' is undefined"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ messages.clear() }}", "unsafe"),
    ],
)
def test_what_a_template_refuses_or_must_not_do_is_an_invalid_request(source: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the chat template refuses this conversation: .*{re.escape(reason)}"):
        rendered(source)


def test_a_template_that_does_not_compile_is_refused_when_the_model_is_loaded() -> None:
    with pytest.raises(UnplayableModel, match=r"tokenizer\.chat_template, line 2: "):
        ChatTemplate("a\n{% if %}")
    with pytest.raises(UnplayableModel, match=r"does not compile|line 1"):
        ChatTemplate("{{ " + "(" * 5000 + ")" * 5000 + " }}")


def test_a_template_that_would_take_long_to_compile_is_refused() -> None:
    for metadata, given in ({"tokenizer.chat_template": "x" * 200_000}, ""), ({}, "x" * 200_000):
        with pytest.raises(
            UnplayableModel, match=r"^tokenizer\.chat_template has 200000 characters, more than 131072$"
        ):
            ChatTemplate.check(metadata, given)


def test_a_template_that_is_no_text_is_refused(model_path: Path) -> None:
    with GGUFFile.open(model_path) as file:
        metadata = {**file.metadata, "tokenizer.chat_template": 5}
        with pytest.raises(InvalidModelFile, match="is no text"):
            ChatTemplate.from_gguf(metadata, Tokenizer.from_gguf(metadata))
