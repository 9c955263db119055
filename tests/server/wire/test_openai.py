"""OpenAI's endpoints as pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chat_formats.formats import Continuation
from engine.chat_formats.messages import ChatMessage
from engine.chat_formats.reader import AnswerReader
from engine.chat_template import CHATML, ChatTemplate
from engine.errors import InvalidRequest
from engine.generation import Final, Step
from engine.timings import Timings
from server.errors import BadRequest
from server.wire import openai, openai_completions, openai_parts
from server.wire.llama import Format

USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "Hello, I"}
TEMPLATE = ChatTemplate(CHATML)
OPENING = "<|im_start|>assistant\n"


def chat(*messages: Any, **fields: Any) -> openai.ChatRequest:
    return openai.parse_chat({"messages": list(messages), **fields})


def final(**fields: Any) -> Final:
    return Final(**{"stop_type": "limit", "text": "abc", "tokens_evaluated": 2, **fields})


def step(text: str, n: int = 1, *, send: bool = True, last: Final | None = None) -> Step:
    return Step(text, 5, send, n, Timings(predicted_n=n), last)


def prompt_of(request: openai.ChatRequest, template: ChatTemplate = TEMPLATE) -> str:
    return openai.chat_form(request, template).prompt


def chunks_of(request: openai.ChatRequest, template: ChatTemplate = TEMPLATE) -> openai.ChatChunks:
    begun = request.continuation is not None and not request.echo_prefill
    reader = AnswerReader(openai.chat_form(request, template), begun=begun)
    return openai.ChatChunks(reader, Format("m", request.fields))


def deltas(request: openai.ChatRequest, *steps: Step) -> list[Any]:
    chunks = chunks_of(request)
    found = [chunk for one in steps for chunk in chunks.of_step(one, chunks.text_of(one))]
    return [chunk["choices"][0]["delta"] if chunk["choices"] else "usage" for chunk in found]


# -- requests ------------------------------------------------------------------------------------------------------


def test_the_template_opens_the_assistants_message() -> None:
    assert prompt_of(chat(USER)) == f"<|im_start|>user\nhi<|im_end|>\n{OPENING}"


def test_a_final_assistant_message_is_continued() -> None:
    request = chat(USER, ASSISTANT)
    assert request.continuation == Continuation(ChatMessage("Hello, I"), "content")
    assert request.echo_prefill
    assert prompt_of(request) == f"<|im_start|>user\nhi<|im_end|>\n{OPENING}Hello, I"


def test_an_explicit_continuation_is_not_echoed_unless_asked() -> None:
    asked = {"continue_final_message": True, "add_generation_prompt": False}
    assert not chat(USER, ASSISTANT, **asked).echo_prefill
    assert chat(USER, ASSISTANT, **asked, echo=True).echo_prefill


def test_an_empty_prefill_has_no_opening() -> None:
    assert prompt_of(chat(USER, {"role": "assistant", "content": ""})).endswith("hi<|im_end|>\n")


def test_the_parts_of_a_prefill_are_paragraphs() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert chat(USER, {"role": "assistant", "content": parts}).continuation == Continuation(
        ChatMessage("a\n\nb"), "content"
    )


def test_a_lone_system_message_and_late_ones_are_taken() -> None:
    system = {"role": "system", "content": "s"}
    assert prompt_of(chat(system)) == f"<|im_start|>system\ns<|im_end|>\n{OPENING}"
    assert prompt_of(chat(USER, system, USER)).count("system") == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "'messages' is required"),
        ({"messages": "x"}, "Expected 'messages' to be an array"),
        ({"messages": [5]}, "All non-assistant messages must contain 'content'"),
        (
            {"messages": [{"role": "assistant"}]},
            "Assistant message must contain either 'content' or 'tool_calls'!",
        ),
        ({"messages": [{"role": "user", "content": 5}]}, "Expected 'content' to be a string or an array"),
        ({"messages": [{"role": "user", "content": [5]}]}, "unsupported content[].type"),
        ({"messages": [ASSISTANT, ASSISTANT]}, "Cannot have 2 or more assistant messages at the end of the list."),
        (
            {"messages": [USER], "continue_final_message": True},
            "Cannot set both add_generation_prompt and continue_final_message to true.",
        ),
        ({"messages": [USER], "tool_choice": "zzz"}, "Invalid tool_choice: zzz"),
        ({"messages": [USER], "top_logprobs": 3}, "top_logprobs requires logprobs to be set to true"),
        (
            {"messages": [USER], "response_format": {"type": "x"}},
            'response_format type must be one of "text" or "json_object", but got: x',
        ),
    ],
)
def test_what_llama_server_refuses_has_its_message(body: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        openai.parse_chat(body)
    assert caught.value.message == message


@pytest.mark.parametrize("key", ["role", "name", "reasoning_content"])
def test_a_message_key_of_a_wrong_type_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Failed to parse messages: .* type must be string, but is number"):
        chat({**USER, key: 5})


def test_a_message_with_calls_is_not_continued() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    with pytest.raises(BadRequest, match=r"Cannot continue an assistant message that contains tool calls\."):
        chat(USER, {"role": "assistant", "tool_calls": [call]})
    assert chat(USER, {"role": "assistant", "tool_calls": [call]}, USER).messages[1]["tool_calls"] == [call]


def test_tools_bar_a_grammar_and_probabilities_in_a_stream() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    with pytest.raises(BadRequest, match=r"Cannot use custom grammar constraints with tools\."):
        chat(USER, tools=tools, grammar=None)
    chat(USER, tools=tools, tool_choice="none", grammar='root ::= "a"')
    with pytest.raises(BadRequest, match=r"logprobs is not supported with tools \+ stream"):
        chat(USER, tools=tools, tool_choice="none", logprobs=True, stream=True)
    chat(USER, tools=tools, logprobs=True)


def test_tools_and_calls_reach_the_template() -> None:
    source = "{{ tools[0].function.name }} {{ messages[1].tool_calls[0].function.name }} {{ messages[2].tool_call_id }}"
    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": "{}"}}
    messages = [USER, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "", "tool_call_id": "1"}]
    tools = [{"type": "function", "function": {"name": "g"}}]
    assert prompt_of(chat(*messages, tools=tools), ChatTemplate(source)) == "g f 1"
    shown = [{"function": {"name": "h"}}]
    assert (
        prompt_of(chat(*messages, tools=tools, chat_template_kwargs={"tools": shown}), ChatTemplate(source))[0] == "h"
    )


def test_the_tool_template_is_for_requests_with_tools() -> None:
    template = ChatTemplate("plain", tool_use="{{ tools | length }} tools")
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert prompt_of(chat(USER), template) == "plain"
    assert prompt_of(chat(USER, tools=tools), template) == "1 tools"
    assert prompt_of(chat(USER, chat_template_kwargs={"tools": tools}), template) == "plain"


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "input_video", "video_url"])
def test_media_are_refused(kind: str) -> None:
    with pytest.raises(BadRequest, match="input is not supported"):
        chat({"role": "user", "content": [{"type": kind}]})


def test_template_variables_reach_the_template() -> None:
    template = ChatTemplate("{{ messages[0].content }} {{ mood }} {{ reasoning_effort }}")
    request = chat(USER, chat_template_kwargs={"mood": "good"}, reasoning_effort="high")
    assert prompt_of(request, template) == "hi good high"


def test_no_reasoning_effort_switches_thinking_off() -> None:
    template = ChatTemplate("{{ enable_thinking }} {{ reasoning_effort }}")
    request = chat(USER, chat_template_kwargs={"reasoning_effort": "low"}, reasoning_effort="none")
    assert prompt_of(request, template) == "False "


def test_a_variable_of_the_request_beats_the_servers_and_both_beat_no_effort() -> None:
    template = ChatTemplate("{{ enable_thinking }}")
    on = {"chat_template_kwargs": {"enable_thinking": True}}
    assert prompt_of(chat(USER, **on, reasoning_effort="none"), template) == "True"
    for request, prompt in ((chat(USER), "False"), (chat(USER, **on), "True")):
        assert openai.chat_form(request, template, "none", {"enable_thinking": False}).prompt == prompt
    form = openai.chat_form(chat(USER, reasoning_effort="none"), template, "none", {"enable_thinking": True})
    assert form.prompt == "True"


def test_openais_fields_without_effect_are_named() -> None:
    assert chat(USER, user="a", store=True, model="m", tools=[], tool_choice="none").ignored == ("user", "store")


def test_fields_of_a_type_nobody_reads_are_named() -> None:
    odd: dict[str, Any] = {"chat_template_kwargs": "x", "response_format": 5, "reasoning_effort": 5, "tool_choice": 5}
    assert chat(USER, **odd).ignored == tuple(odd)


# -- answers -------------------------------------------------------------------------------------------------------


def test_an_answers_id_is_new_each_time() -> None:
    first, second = openai_parts.new_id(), openai_parts.new_id()
    assert first != second
    assert len(first) == len("chatcmpl-") + 32


@pytest.mark.parametrize(
    ("how", "reason"), [("eos", "stop"), ("word", "stop"), ("limit", "length"), ("none", "length")]
)
def test_finish_reasons(how: Any, reason: str) -> None:
    assert openai_parts.finish_reason(final(stop_type=how)) == reason


def test_a_chat_stream_begins_with_the_role_and_ends_with_an_empty_delta() -> None:
    found = deltas(chat(USER), step("a"), step("b", 2, last=final()))
    assert found == [{"role": "assistant", "content": None}, {"content": "a"}, {"content": "b"}, {}]


def test_no_role_is_sent_when_the_first_token_is_held_back() -> None:
    found = deltas(chat(USER), step("", send=False), step("é", 2, last=final()))
    assert found == [{"content": "é"}, {}]


def test_a_step_without_text_makes_no_chunk_but_the_first_one_has_the_role() -> None:
    assert deltas(chat(USER), step(""), step("", 2)) == [{"role": "assistant", "content": None}]


def test_a_prefill_goes_before_the_first_text() -> None:
    found = deltas(chat(USER, ASSISTANT), step("'m"), step(" x", 2, last=final()))
    assert found == [{"role": "assistant", "content": None}, {"content": "Hello, I'm"}, {"content": " x"}, {}]


def test_a_prefill_is_sent_even_when_nothing_is_generated() -> None:
    found = deltas(chat(USER, ASSISTANT), step("", send=False, last=final()))
    assert found == [{"content": "Hello, I"}, {}]


def test_usage_is_a_chunk_of_its_own_and_has_the_timings() -> None:
    request = chat(USER, stream_options={"include_usage": True})
    chunks = chunks_of(request)
    last = step("a", last=final())
    found = list(chunks.of_step(last, chunks.text_of(last)))
    assert [bool(chunk["choices"]) for chunk in found] == [True, True, True, False]
    assert [name for chunk in found for name in ("timings", "usage") if name in chunk] == ["timings", "usage"]
    assert found[-1]["usage"]["completion_tokens"] == 1


def test_the_receipts_event_has_a_choice_that_adds_nothing() -> None:
    chunks = chunks_of(chat(USER))
    event = chunks.receipt({"a": 1})
    assert event["bankml_receipt"] == {"a": 1}
    assert event["choices"] == [{"finish_reason": None, "index": 0, "delta": {}}]


def test_a_whole_answer_repeats_the_prefill_and_drops_a_cut_character() -> None:
    form = openai.chat_form(chat(USER, ASSISTANT), TEMPLATE)
    assert openai.chat_message(form, final(cut=b"\xf0")) == ChatMessage("Hello, Iabc")


def test_the_usage_of_several_prompts_is_their_sum() -> None:
    answers = [(final(), Timings(predicted_n=3, cache_n=1)), (final(tokens_evaluated=5), Timings(predicted_n=4))]
    request = chat(USER)
    body = openai_completions.completion_body(answers, Format("m", request.fields))
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"] == {
        "completion_tokens": 7,
        "prompt_tokens": 7,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


@pytest.mark.parametrize(
    ("asked", "n_probs"), [(3, 3), (2.9, 2), (None, 20), ("x", 20), (1e30, -(2**31)), (float("inf"), -(2**31))]
)
def test_top_logprobs_of_any_kind_becomes_a_number(asked: Any, n_probs: int) -> None:
    chat = openai.parse_chat({"messages": [USER], "logprobs": True, "top_logprobs": asked})
    assert chat.fields.n_probs == n_probs
