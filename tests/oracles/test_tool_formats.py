"""The reference's answers about requests with tools, replayed: prompts, grammars, triggers, answers with calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.chat_template import ChatTemplate
from testing.oracles.chat_formats import BOS, EOS, ours
from testing.oracles.chat_templates import TEMPLATES
from testing.oracles.record_chat_formats import expected
from testing.oracles.record_tool_formats import ODD_TEMPLATE, RECORD
from testing.oracles.tool_cases import ANSWERS, ODD, REQUESTS, TEMPLATES_WITH_CALLS

RECORDED: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
NO_FORM = {"Kimi K2", "Kimi K3", "GigaChat 3"}
"""Kinds of templates for which a wanted form is dropped there and refused here."""


def test_the_record_has_every_template_and_request() -> None:
    assert tuple(RECORDED["templates"]) == TEMPLATES_WITH_CALLS
    assert {len(entry["requests"]) for entry in RECORDED["templates"].values()} == {len(REQUESTS)}
    assert len(RECORDED["odd"]) == len(ODD)


@pytest.mark.parametrize("name", TEMPLATES_WITH_CALLS)
def test_answers_with_calls_look_as_the_references(name: str) -> None:
    template = ChatTemplate(TEMPLATES[name], BOS, EOS)
    for request, answer in zip(REQUESTS, RECORDED["templates"][name]["requests"], strict=True):
        found = ours(template, request, ANSWERS)
        if name in NO_FORM and "response_format" in request:
            assert found == {"error": f"constrained answers are not supported for {name} templates"}
        else:
            assert found == expected(answer, RECORDED["lists"]), request


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_tools_and_calls_are_read_or_refused_as_the_reference_does(number: int) -> None:
    template = ChatTemplate(ODD_TEMPLATE, BOS, EOS)
    assert ours(template, ODD[number], ()) == expected(RECORDED["odd"][number], RECORDED["lists"])
