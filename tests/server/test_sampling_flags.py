"""server/sampling_flags.py: llama-server's sampling flags that are more than a number."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from engine.grammar import GrammarParams
from server import sampling_flags
from server.settings import Settings


@pytest.mark.parametrize(
    ("given", "pair"),
    [
        ("15043+1", (15043, 1.0)),
        ("15043-1.5", (15043, -1.5)),
        ("7-inf", (7, -math.inf)),
        ("7+-2", (7, -2.0)),
        (" 7 - 2 ", (7, -2.0)),
        ("-7+2", (-7, 2.0)),
        ("7+1e-3", (7, 0.0010000000474974513)),
    ],
)
def test_a_logit_bias_is_a_token_a_sign_and_a_number(given: str, pair: tuple[int, float]) -> None:
    assert sampling_flags.logit_biases((given,)) == (pair,)


@pytest.mark.parametrize("given", ["", "7", "+1", "x+1", "7*1", "7+", "7+x", "7+nan", "7+1e39", "2147483648+1", "7+1x"])
def test_another_logit_bias_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="TOKEN"):
        sampling_flags.logit_biases((given,))


def test_none_drops_the_breakers_before_it() -> None:
    assert sampling_flags.breakers(("a", "none", "b")) == ("b",)
    assert sampling_flags.breakers(("a", "none")) == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\n\r\t", "\n\r\t"),
        (r"\'\"", "'\""),
        (r"\\n", r"\n"),
        (r"\x41\xc3\xa9", "Aé"),
        (r"\x4", r"\x4"),
        ("\\q\\", "\\q\\"),
        ("é\\é", "é\\é"),
    ],
)
def test_escapes_are_those_of_llama_server(written: str, meant: str) -> None:
    assert sampling_flags.unescaped(written) == meant


def test_escapes_that_make_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        sampling_flags.unescaped(r"\xff")


@pytest.mark.parametrize("value", [None, 5, ("top_k",)])
def test_what_is_read_already_is_passed_on(value: Any) -> None:
    for read in (sampling_flags.named_samplers, sampling_flags.lettered_samplers):
        assert read(value) is value


def test_a_grammar_flag_is_the_default_of_every_request(tmp_path: Path) -> None:
    file = tmp_path / "yes.gbnf"
    file.write_text('root ::= "yes"')
    for settings in (Settings(grammar='root ::= "yes"'), Settings(grammar_file=str(file))):
        assert settings.sampling["grammar"] == GrammarParams('root ::= "yes"')
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "null"}')
    for settings in (Settings(json_schema='{"type": "null"}'), Settings(json_schema_file=str(schema))):
        assert settings.sampling["grammar"].type == "user"  # a chat's opening is no part of it
        assert 'root ::= "null"' in settings.sampling["grammar"].text
    assert "grammar" not in Settings().sampling


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grammar": "x"}, "expected ::=, at the end of the text"),
        ({"grammar_file": "/no/such.gbnf"}, "failed to open file '/no/such.gbnf': No such file or directory"),
        ({"json_schema": "{"}, "Expecting property name"),
        ({"json_schema": '{"type": "wat"}'}, "unrecognized type wat"),
        ({"grammar": 'root ::= "a"', "json_schema": "{}"}, "only one grammar or schema may be given"),
    ],
)
def test_what_is_no_grammar_is_refused_at_the_start(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**given)
