"""llama-server's completion fields: conversions, limits, aliases, refusals, each with its message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.grammar import GrammarTrigger, TriggerType
from server.errors import BadRequest
from server.wire.fields import CompletionFields, kind, parse_fields, to_float32, to_int

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted({*CompletionFields.model_fields, "max_tokens", "max_completion_tokens", "n", "logprobs", "other"})


def complaint(**body: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        parse_fields(body)
    return caught.value.message


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), (5.9, 5), (-5.9, -5), (True, 1), (2**31, -(2**31)), (2**32 + 7, 7), (-1, -1), (1e30, -(2**31))],
)
def test_integers_lose_their_fraction_and_wrap(value: float, number: int) -> None:
    assert to_int(value) == number


def test_a_seed_is_unsigned() -> None:
    assert parse_fields({"seed": -1}).seed == 2**32 - 1
    assert parse_fields({"seed": 2**40}).seed == 0


def test_floats_are_rounded_to_32_bits() -> None:
    assert to_float32(0.95) == 0.949999988079071
    assert to_float32(1e39) == float("inf")
    assert to_float32(True) == 1.0


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, "null"), (True, "boolean"), (1, "number"), (1.5, "number"), ("", "string"), ([], "array"), ({}, "object")],
)
def test_types_have_the_names_of_llama_servers_json_library(value: object, name: str) -> None:
    assert kind(value) == name


def test_a_null_counts_as_absent() -> None:
    fields = parse_fields({"temperature": None, "n_predict": None, "max_tokens": 3, "stream": None})
    assert (fields.temperature, fields.n_predict, fields.stream) == (None, 3, False)


@pytest.mark.parametrize(
    ("body", "n_predict"),
    [
        ({"max_tokens": 1}, 1),
        ({"max_tokens": 1, "max_completion_tokens": 2}, 2),
        ({"max_tokens": 1, "max_completion_tokens": 2, "n_predict": 3}, 3),
        ({"max_tokens": "not looked at", "n_predict": 3}, 3),
        ({}, None),
    ],
)
def test_the_first_of_several_names_counts(body: dict[str, Any], n_predict: int | None) -> None:
    assert parse_fields(body).n_predict == n_predict


def test_soft_limits_clamp() -> None:
    fields = parse_fields({"temperature": -1, "top_k": -5, "top_p": 3, "min_p": -0.5, "adaptive_target": 7})
    assert (fields.temperature, fields.top_k, fields.top_p, fields.min_p) == (0, 0, 1, 0)
    assert fields.adaptive_target == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"n_predict": -2}, "Field 'n_predict': Value must be between -1 <= value <= 2147483647, but got -2"),
        ({"n": 17}, "Field 'n': Value must be between 1 <= value <= 16, but got 17"),
        ({"repeat_last_n": -1}, "Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647, but got -1"),
        (
            {"adaptive_decay": 2},
            "Field 'adaptive_decay': Value must be between 0.000000 <= value <= 0.990000, but got 2.000000",
        ),
        ({"max_tokens": "a"}, "Field 'max_tokens': [json.exception.type_error.302] type must be number, but is string"),
        ({"stream": 1}, "Field 'stream': [json.exception.type_error.302] type must be boolean, but is number"),
        ({"stop": ["a", 1]}, "Field 'stop': [json.exception.type_error.302] type must be string, but is number"),
        (
            {"stream_options": {"include_usage": 1}},
            "Field 'include_usage': [json.exception.type_error.302] type must be boolean, but is number",
        ),
        ({"reasoning_format": "zzz"}, "Field 'reasoning_format': Unknown reasoning format: zzz"),
        (
            {"lora": "x"},
            "Field 'lora': Error: 'lora' must be an array of objects with 'id' and 'scale' fields",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_llama_server_refuses_has_its_message(body: dict[str, Any], message: str) -> None:
    assert complaint(**body) == message


@pytest.mark.parametrize(
    "body",
    [
        {"lora": [{"id": 0, "scale": 1}]},
        {"n_cache_reuse": 64},
        {"backend_sampling": True},
        {"reasoning_control": True},
    ],
    ids=lambda body: next(iter(body)),
)
def test_what_we_do_not_do_is_refused_by_name(body: dict[str, Any]) -> None:
    assert complaint(**body) == f"Field '{next(iter(body))}': not supported"


@pytest.mark.parametrize(
    ("triggers", "message"),
    [
        ("x", "[json.exception.type_error.304] cannot use at() with string"),
        ([3], "[json.exception.type_error.304] cannot use at() with number"),
        ([{}], "[json.exception.out_of_range.403] key 'type' not found"),
        ([{"type": 1}], "[json.exception.out_of_range.403] key 'value' not found"),
        ([{"type": "1", "value": "x"}], "[json.exception.type_error.302] type must be number, but is string"),
        ([{"type": 1, "value": 2}], "[json.exception.type_error.302] type must be string, but is number"),
        ([{"type": 0, "value": "x"}], "[json.exception.out_of_range.403] key 'token' not found"),
        ([{"type": 9, "value": "x"}], "there is no trigger of type 9"),
    ],
)
def test_a_malformed_trigger_is_refused(triggers: Any, message: str) -> None:
    assert complaint(grammar_triggers=triggers) == f"Field 'grammar_triggers': {message}"


@pytest.mark.parametrize(
    "bias", ["x", 5, [[1, "y"]], [[1]], [[1, True]], {"28": "x"}, [3]], ids=lambda value: str(value)
)
def test_a_bias_that_is_none_is_named(bias: Any) -> None:
    assert parse_fields({"logit_bias": bias}).ignored == ("logit_bias",)


@pytest.mark.parametrize("bias", [[[1, 2.5], ["a", False]], {"28": -1, "b": False}, [], {}])
def test_a_bias_is_not(bias: Any) -> None:
    assert parse_fields({"logit_bias": bias}).ignored == ()


def test_a_sampler_that_is_none_is_named() -> None:
    assert parse_fields({"samplers": ["top_k", "foo"]}).ignored == ("samplers",)
    assert parse_fields({"samplers": "kz"}).ignored == ("samplers",)
    assert parse_fields({"samplers": ["top-k", "temp"]}).ignored == parse_fields({"samplers": "kt"}).ignored == ()


def test_triggers_come_in_a_list_or_in_an_object() -> None:
    word, token = {"type": 1, "value": "a"}, {"type": 0, "value": "b", "token": 7}
    expected = (GrammarTrigger(TriggerType.WORD, "a"), GrammarTrigger(TriggerType.TOKEN, "b", 7))
    assert parse_fields({"grammar_triggers": [word, token]}).grammar_triggers == expected
    assert parse_fields({"grammar_triggers": {"x": word, "y": token}}).grammar_triggers == expected


def test_a_schema_becomes_a_grammar_at_the_door() -> None:
    fields = parse_fields({"json_schema": {}})
    assert fields.json_schema is not None
    assert fields.json_schema.text.startswith("array ::= ")
    warned = parse_fields({"json_schema": {"type": "number", "multipleOf": 3}}).json_schema
    assert warned is not None
    assert any("multipleOf" in warning for warning in warned.warnings)
    message = complaint(json_schema={"type": "wat"})
    assert message.startswith("Field 'json_schema': \"json_schema\": JSON schema conversion failed:\n")


@pytest.mark.parametrize("grammar", [None, "", 'root ::= "a"'])
def test_a_schema_beside_a_grammar_is_not_looked_at(grammar: str | None) -> None:
    fields = parse_fields({"json_schema": {"type": "wat"}, "grammar": grammar})
    assert fields.json_schema is None
    assert fields.ignored == ("json_schema",)
    assert fields.grammar == (grammar or "")


def test_what_asks_for_nothing_is_taken() -> None:
    neutral = {"grammar": "", "lora": [], "n_cache_reuse": 0, "return_progress": False, "verbose": False}
    neutral |= {"json_schema": None, "preserved_tokens": [], "grammar_triggers": [], "grammar_lazy": False, "n": 1}
    assert parse_fields(neutral).ignored == ()


def test_what_is_accepted_and_not_used_is_named() -> None:
    fields = parse_fields({"stop": 5, "id_slot": "x", "grammar": 5, "samplers": 5, "response_fields": "a", "user": "b"})
    assert sorted(fields.ignored) == ["grammar", "id_slot", "response_fields", "samplers", "stop", "user"]


def test_fields_the_caller_knows_are_not_ignored_ones() -> None:
    assert parse_fields({"prompt": "x", "model": "y"}, frozenset({"prompt", "model"})).ignored == ()


def test_a_field_called_ignored_cannot_write_the_list() -> None:
    assert parse_fields({"ignored": ["temperature"], "x": 1}).ignored == ("x",)


@pytest.mark.parametrize(
    ("value", "words"),
    [("a", ("a",)), (["a", "b"], ("a", "b")), ([""], ("",)), (["a", None, [], {}], ("a",)), ([], ()), ({"a": 1}, ())],
)
def test_stop_takes_a_text_or_a_list(value: Any, words: tuple[str, ...]) -> None:
    assert parse_fields({"stop": value}).stop == words


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=5))
def test_any_json_is_parsed_or_refused_with_the_name_of_the_field(body: dict[str, Any]) -> None:
    try:
        outcome = str(parse_fields(body).stream)
    except BadRequest as error:
        outcome = error.message
    assert outcome.startswith(("Field '", "True", "False"))
