"""The form of an answer, and an answer read piece by piece."""

from __future__ import annotations

import pytest

from engine.chat_formats.formats import ChatFormat, chat_format
from engine.chat_formats.messages import ChatMessage, MessageDelta, UnexpectedAnswer, deltas
from engine.chat_formats.reader import AnswerReader
from engine.chat_template import CHATML, ChatTemplate
from engine.errors import InvalidRequest
from testing.oracles.chat_templates import TEMPLATES

USER = [{"role": "user", "content": "Hi"}]
THINKING = TEMPLATES["reasoning in tags, switched by an empty one"]


def form(source: str, *, schema: object = None, keep_reasoning: bool = False) -> ChatFormat:
    return chat_format(ChatTemplate(source), USER, variables={}, schema=schema, keep_reasoning=keep_reasoning)


def test_reasoning_goes_apart_or_stays() -> None:
    text = "<think>\nwhy\n</think>\n\nso"
    assert form(THINKING).parse(text, partial=False) == ChatMessage("so", "why\n")
    assert form(THINKING, keep_reasoning=True).parse(text, partial=False) == ChatMessage(text)
    assert form(CHATML).parse(text, partial=False) == ChatMessage(text)


def test_a_fence_around_json_is_cut_off() -> None:
    wanted = form(CHATML, schema={"type": "object"})
    assert wanted.parse('```json\n{"a": 1}\n```', partial=False) == ChatMessage('{"a": 1}')
    assert wanted.parse('\n {"a"', partial=True) == ChatMessage('{"a"')


def test_an_answer_of_another_form_is_an_error_once_it_is_whole() -> None:
    wanted = form(CHATML, schema={"type": "object"})
    assert wanted.parse("no", partial=True) == ChatMessage()
    with pytest.raises(UnexpectedAnswer, match="does not match the expected peg-native format"):
        wanted.parse("no", partial=False)


def test_a_schema_that_is_no_object_asks_for_nothing() -> None:
    assert form(CHATML, schema=True).grammar == ""
    assert form(CHATML, schema={}).grammar == ""


def test_a_template_with_code_of_its_own_answers_but_not_in_a_wanted_form() -> None:
    source = CHATML + "{# <|channel|> #}"
    assert form(source).parse("<|channel|>x", partial=False) == ChatMessage("<|channel|>x")
    with pytest.raises(InvalidRequest, match="constrained answers are not supported for gpt-oss templates"):
        form(source, schema={"type": "object"})


def test_a_stream_adds_up_to_the_message_piece_by_piece() -> None:
    text = "<think>\nwhy é\n</think>\n\nso it is </"
    reader = AnswerReader(form(THINKING))
    found = [delta for char in text for delta in reader.add(char)] + reader.end()
    assert "".join(delta.reasoning for delta in found) == "why é\n"
    assert "".join(delta.content for delta in found) == "so it is </"
    assert reader.message == ChatMessage("so it is </", "why é\n")


def test_nothing_is_sent_while_a_marker_may_have_begun() -> None:
    reader = AnswerReader(form(THINKING))
    assert reader.add("<think>a") == [MessageDelta(reasoning="a")]
    assert reader.add("</thi") == []
    assert reader.add("s") == [MessageDelta(reasoning="</this")]


def test_a_part_that_becomes_another_text_is_an_error_and_one_that_loses_its_end_adds_nothing() -> None:
    assert deltas(ChatMessage("abc"), ChatMessage("ab")) == [MessageDelta()]
    with pytest.raises(UnexpectedAnswer, match="Invalid diff: 'abc' not found at start of 'abd'"):
        deltas(ChatMessage("abc"), ChatMessage("abd"))


def test_an_answer_nested_without_end_is_read() -> None:
    reader = AnswerReader(form(CHATML, schema={"type": "object"}))
    assert reader.add('{"a":' * 50_000) == [MessageDelta(content='{"a":' * 50_000)]
