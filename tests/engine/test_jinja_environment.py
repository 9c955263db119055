"""Jinja2's sandbox prints what llama-server's own template engine prints."""

from __future__ import annotations

import re
from typing import Any

import jinja2
import pytest

from engine.jinja_environment import TemplateEnvironment, prepare_source

ENVIRONMENT = TemplateEnvironment()


def rendered(source: str, **variables: Any) -> str:
    return ENVIRONMENT.from_source(prepare_source(source)).render(variables)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[{{ none }}{{ missing }}{{ missing.deeper.still }}{{ {'a': 1} }}]", "[]"),
        ("{{ ['a', 1, ['b', none], true] }}", "a1bTrue"),
        ("{{ 1.0 }} {{ 0.1 }} {{ 1234567.25 }} {{ 1 / 3 }} {{ 10 }}", "1.0 0.1 1234567.25 0.333333 10"),
        ("{{ 'a' + none }}{{ 'b' + missing }}{{ 'c' + 1 }}{{ none ~ 'd' ~ 2.50 }}", "abc1d2.5"),
        ("{{ [1, none, 'a', \"'\"] ~ 'x' ~ {'a': true} ~ (1, 2.0) }}", "[1, None, 'a', \"'\"]x{'a': True}(1, 2.0)"),
        ("{{ [1] | string }}{{ none | string }}{{ none | trim }}{{ 5 | upper }}", "[1]NoneNone5"),
        ("{{ 1 + 2 }}{{ ([1] + [2]) | length }}", "32"),
        ("{{ none | default('a') }}{{ '' | default('b') }}{{ '' | default('c', true) }}", "ac"),
        ("[{{ '\u3000 a\u00a0\n' | trim }}]", "[\u3000 a\u00a0]"),
        ("[{{ ' \u3000 a '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}]", "[\u3000 a|a | a]"),
        ("{{ 'éa b' | upper }}{{ 'ÉA' | lower }}{{ 'ab éb' | title }}{{ 'ÉA'.capitalize() }}", "éA BÉaAb ébÉa"),
        ("{{ 'a  b'.split() | tojson }}", '["a", "", "b"]'),
        ("{{ 'x<y' | safe + '<' }}", "x<y<"),
        ("{% if ([{'a': 1}] | selectattr('a', 'equalto', 2)) %}yes{% else %}no{% endif %}", "no"),
        ("{{ true is number }}{{ {} is sequence }}{{ missing is iterable }}", "FalseFalseTrue"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("{% set ns = namespace(a=[]) %}{% set _ = ns.a.append(1) %}{{ ns.a }}", "1"),
        ("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"),
        ("a \n {%- if true -%} \n b {{- 'c' -}} \n d{% endif %}", "abcd"),
        ("ab{# note #}\nc", "abc"),
        ("a {% if true %}b{% endif %}", "b"),
        ("{{ [].__class__.__mro__ }}", ""),
        ("\n{% if true %}x{% endif %}", "x"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("{% generation %}a{% endgeneration %}", "a"),
        ("{{ '{{' }}{% raw %}{{ x }}{% endraw %}", "{{{{ x }}"),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_a_template_prints_what_llama_server_s_engine_prints(source: str, text: str) -> None:
    assert rendered(source) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ x | tojson }}", '{"a": [1, 2.5, true, null, "é\\n\\"<&\'"], "b": {}, "c": [], "d": 1e+06}'),
        ("{{ x.a | tojson(ensure_ascii=true) }}", '[1, 2.5, true, null, "\\u00e9\\n\\"<&\'"]'),
        ("{{ '😀' | tojson(true) }}", '"\\ud83d\\ude00"'),
        ("{{ {'a': [1, 2], 'b': {}} | tojson(indent=2) }}", '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}'),
        ("{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}", '[1,{"a":2}]'),
    ],
)
def test_tojson_writes_what_llama_server_s_engine_writes(source: str, text: str) -> None:
    value = {"a": [1, 2.5, True, None, "é\n\"<&'"], "b": {}, "c": [], "d": 1e6}
    assert rendered(source, x=value) == text


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ raise_exception('No.') }}", "Jinja Exception: No."),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ missing | tojson }}", "'tojson' for type Undefined"),
        ("{{ {} | tojson(sort_keys=true) }}", "sort_keys=true not implemented"),
        ("{{ ''.__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{{ range(1000000000) | length }}", "Range too big"),
        ("{{ [1].clear() }}", "unsafe"),
        ("{{ {'a': 1}.update(b=2) }}", "unsafe"),
    ],
)
def test_what_the_sandbox_refuses_raises(source: str, reason: str) -> None:
    with pytest.raises((jinja2.TemplateError, ArithmeticError, OverflowError), match=re.escape(reason)):
        rendered(source)
