"""Values as models write them, as JSON."""

from __future__ import annotations

import json

import pytest

from engine.chat_formats.call_values import json_of, open_braces


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{'a': 'b'}", {"a": "b"}),
        (r"""'it\'s'""", "it's"),
        ("""'say "hi"'""", 'say "hi"'),
        ('''"it's"''', "it's"),
        (r"""'a\nb'""", "a\nb"),
        ("[True, False, None]", [True, False, None]),
        ('["True", 1.5e3]', ["True", 1500.0]),
    ],
)
def test_python_becomes_json(written: str, meant: object) -> None:
    assert json.loads(json_of(written)) == meant


def test_any_beginning_of_a_value_becomes_a_beginning_of_its_json() -> None:
    written = """{'a': [True, 'x\\'y "z"', None], "b": False}"""
    whole = json_of(written)
    assert all(whole.startswith(json_of(written[:end])) for end in range(len(written)) if written[end - 1] != "\\")


def test_other_words_stay() -> None:
    assert json_of("Truly") == "Truly"
    assert json_of("xNone") == "xNone"


def test_braces_in_strings_do_not_count() -> None:
    assert open_braces('{"a": {"b": "}\\"}"') == 2
    assert open_braces('{"a": {}}') == 0
