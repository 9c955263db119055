"""The reference's answers about chat templates, replayed: prompts, grammars, stop strings, answers cut in two."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.chat_formats.specialized import specialized
from engine.chat_template import ChatTemplate
from server.wire.chat_output import parse_output
from testing.oracles.chat_format_cases import ANSWERS, FORMS, REFUSED, REQUESTS
from testing.oracles.chat_formats import BOS, EOS, ours
from testing.oracles.chat_templates import TEMPLATES
from testing.oracles.record_chat_formats import RECORD, SWITCHED, expected

RECORDED: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))


def test_the_record_has_every_template_and_request() -> None:
    assert list(RECORDED["templates"]) == list(TEMPLATES)
    assert {len(entry["requests"]) for entry in RECORDED["templates"].values()} == {len(REQUESTS)}
    assert (len(RECORDED["forms"]), len(RECORDED["refused"])) == (len(FORMS), len(REFUSED))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_templates_answers_look_as_the_references(name: str) -> None:
    template = ChatTemplate(TEMPLATES[name], BOS, EOS)
    recorded = RECORDED["templates"][name]
    assert template.thinks == recorded["thinks"]
    kind = specialized(TEMPLATES[name])
    for request, answer in zip(REQUESTS, recorded["requests"], strict=True):
        found = ours(template, request, ANSWERS)
        if kind and kind.parser and not kind.parser.takes_schema and parse_output(request).schema:
            assert found == {"error": f"constrained answers are not supported for {kind.name} templates"}
        else:
            assert found == expected(answer, RECORDED["lists"]), request


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_the_wanted_form_is_read_as_the_reference_reads_it(number: int) -> None:
    template = ChatTemplate(SWITCHED, BOS, EOS)
    assert ours(template, FORMS[number], ()) == expected(RECORDED["forms"][number], RECORDED["lists"])


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_the_reference_refuses_is_refused_with_its_message(number: int) -> None:
    template = ChatTemplate(SWITCHED, BOS, EOS)
    assert ours(template, REFUSED[number], ()) == RECORDED["refused"][number]
