"""The keys of a header: taken in their type and range only, and refused with the key's name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidModelFile, UnplayableModel
from engine.hparams import Header, RopeScaling

NO_INTEGERS = [0, -1, 2**31, 2**64 - 1, True, False, 1.0, "1", [], ["1"], np.array([1]), np.array([1, 2])]
NO_NUMBERS = [math.inf, -math.inf, math.nan, True, False, "1", [], ["1"], np.array([1.0]), np.array([1.0, 2.0])]


def header(**keys: Any) -> Header:
    """A header with these keys, `__` for a dot."""
    return Header({"llama." + name.replace("__", "."): value for name, value in keys.items()}, "llama")


@pytest.mark.parametrize("value", [1, 2**31 - 1])
def test_an_integer_is_taken_as_it_is(value: int) -> None:
    assert header(a=value).integer("a") == value
    assert header(a=value).integer("a", 7) == value


@pytest.mark.parametrize("value", NO_INTEGERS, ids=repr)
def test_what_is_no_positive_integer_is_refused_default_or_not(value: Any) -> None:
    for default in (None, 7):
        with pytest.raises(UnplayableModel, match=r"^llama\.a is not a positive integer$"):
            header(a=value).integer("a", default)


def test_a_missing_integer_is_its_default_or_refused() -> None:
    assert header().integer("a", 7) == 7
    assert header().integer("a", 0) == 0
    with pytest.raises(UnplayableModel, match=r"^llama\.a is not a positive integer$"):
        header().integer("a")


@pytest.mark.parametrize("value", [0.5, 0.0, -1.5, 3, -3, 2**64 - 1])
def test_a_number_is_a_float_whatever_its_type_in_the_file(value: float) -> None:
    found = header(a=value).number("a", 7.0)
    assert type(found) is float
    assert found == float(value)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_finite_number_is_refused_default_or_not(value: Any) -> None:
    for default in (None, 7.0):
        with pytest.raises(UnplayableModel, match=r"^llama\.a is not a number$"):
            header(a=value).number("a", default)


@pytest.mark.parametrize("value", [3.5e38, -3.5e38, 1e300])
def test_a_number_that_single_precision_does_not_hold_is_refused(value: float) -> None:
    with pytest.raises(UnplayableModel, match=r"^llama\.a is not a number$"):
        header(a=value).number("a")


@pytest.mark.parametrize("value", [-1.0, -1e-30, 0.0, -0.0, 0, 1e-50])
def test_a_number_that_must_be_positive_is_refused_if_it_is_not(value: float) -> None:
    with pytest.raises(UnplayableModel, match=rf"^llama\.a is {float(value)}, not positive$"):
        header(a=value).positive("a")
    assert header(a=1e-40).positive("a") == 1e-40
    assert header().positive("a", 2.0) == 2.0


def test_a_number_may_be_0_where_that_has_a_meaning() -> None:
    assert header(a=0.0).positive("a", or_zero=True) == 0.0
    with pytest.raises(UnplayableModel, match=r"^llama\.a is -1\.0, not positive$"):
        header(a=-1).positive("a", or_zero=True)


def test_a_missing_number_is_its_default_or_refused() -> None:
    assert header().number("a", 7.0) == 7.0
    assert header().number("a", 0.0) == 0.0
    with pytest.raises(UnplayableModel, match=r"^llama\.a is not a number$"):
        header().number("a")


def test_keys_of_another_architecture_do_not_count() -> None:
    found = Header({"gemma.a": 1, "a": 2, "llama.b": 3}, "llama")
    assert found.integer("a", 7) == 7
    assert found.integer("b") == 3


@pytest.mark.parametrize("value", [1, 0.5, True, "x", ["x"], np.array([1]), np.array([0, 1]), np.array([0, 0])])
def test_a_feature_that_is_set_is_refused_with_the_reason(value: Any) -> None:
    with pytest.raises(UnplayableModel, match=r"^llama\.a is set: it bites, which is not played$"):
        header(a=value).refuse("a", "it bites")


@pytest.mark.parametrize("value", [0, 0.0, False, ""])
def test_a_feature_that_is_off_or_not_mentioned_is_played(value: Any) -> None:
    header(a=value).refuse("a", "it bites")
    header().refuse("a", "it bites")


@pytest.mark.parametrize(
    ("keys", "scale"),
    [
        ({}, 1.0),
        ({"rope__scaling__type": "linear"}, 1.0),
        ({"rope__scaling__factor": 4.0}, 0.25),
        ({"rope__scaling__factor": 0.0}, 1.0),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}, 0.25),
        ({"rope__scaling__type": "none", "rope__scaling__factor": 4.0}, 1.0),
        ({"rope__scale_linear": 2.0}, 0.5),
        ({"rope__scale_linear": 2.0, "rope__scaling__factor": 4.0}, 0.25),
        ({"rope__scaling__factor": 3.0}, float(np.float32(1) / np.float32(3))),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}, 0.25),
        ({"rope__scaling__type": "yarn"}, 1.0),
    ],
)
def test_the_rotary_scale_is_one_over_the_factor_in_single_precision(keys: dict[str, Any], scale: float) -> None:
    found = header(context_length=512, **keys).rope_scaling()
    assert found == RopeScaling(10000.0, scale, keys.get("rope__scaling__type") == "yarn", 512, 1.0)


def test_what_yarn_needs_is_the_headers_or_llama_cpps_default() -> None:
    stretched = {"context_length": 2048, "rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    stated = {"rope__scaling__original_context_length": 512, "rope__scaling__attn_factor": 1.5, "rope__freq_base": 1e6}
    assert header(**stretched).rope_scaling() == RopeScaling(10000.0, 0.25, True, 2048, 1.0)
    assert header(**stretched, **stated).rope_scaling() == RopeScaling(1e6, 0.25, True, 512, 1.5)
    unstated = {"rope__scaling__original_context_length": 0}
    assert header(**stretched, **unstated).rope_scaling() == header(**stretched).rope_scaling()


@pytest.mark.parametrize("kind", ["longrope", "", 1, True, ["linear"], np.array([1, 2])], ids=repr)
def test_another_rotary_scaling_is_refused(kind: Any) -> None:
    with pytest.raises(UnplayableModel, match=r"^llama\.rope\.scaling\.type is .* which is not played$"):
        header(context_length=512, rope__scaling__type=kind).rope_scaling()


@pytest.mark.parametrize("name", ["factor", "attn_factor"])
def test_a_rotary_factor_that_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(UnplayableModel, match=r"is not a number$"):
        header(context_length=512, **{"rope__scaling__" + name: math.nan}).rope_scaling()


@pytest.mark.parametrize("name", ["freq_base", "scaling__factor"])
def test_rotary_angles_that_would_not_be_numbers_are_refused(name: str) -> None:
    with pytest.raises(UnplayableModel, match=r"is -2\.0, not positive$"):
        header(context_length=512, rope__scaling__type="yarn", **{"rope__" + name: -2.0}).rope_scaling()


@pytest.mark.parametrize("value", [3, np.array([3, 3]), np.array([3, 3], np.uint32)], ids=repr)
def test_what_may_differ_by_layer_is_one_integer_or_the_same_for_every_layer(value: Any) -> None:
    assert header(a=value).integer_of_layers("a", 2) == 3
    assert header().integer_of_layers("a", 2, 7) == 7


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.array([3, 4]), "is not the same for all layers, which is not played"),
        (np.array([3]), "is not a positive integer or 2 of them"),
        (np.array([3, 3, 3]), "is not a positive integer or 2 of them"),
        (np.array([3.0, 3.0]), "is not a positive integer or 2 of them"),
        (np.array([0, 0]), "is not a positive integer or 2 of them"),
        (np.array([], np.int32), "is not a positive integer or 2 of them"),
        (3.0, "is not a positive integer"),
        (None, "is not a positive integer"),
    ],
    ids=repr,
)
def test_what_differs_by_layer_is_refused(value: Any, reason: str) -> None:
    keys = {} if value is None else {"a": value}
    with pytest.raises(UnplayableModel, match=rf"^llama\.a {reason}$"):
        header(**keys).integer_of_layers("a", 2)


@pytest.mark.parametrize("value", [65, -64, 64.0, "64", [64], np.array([64]), True], ids=repr)
def test_a_key_that_must_have_one_value_is_refused_with_another(value: Any) -> None:
    header(a=64).require("a", 64, "it bites")
    header().require("a", 64, "it bites")
    with pytest.raises(UnplayableModel, match=r"^llama\.a is .*, not 64: it bites$"):
        header(a=value).require("a", 64, "it bites")
    with pytest.raises(UnplayableModel, match=r"^llama\.a is 32, not 64: it bites$"):
        header().require("a", 64, "it bites", 32)


def test_the_vocabulary_has_as_many_tokens_as_are_listed_whatever_size_is_stated() -> None:
    tokens = {"tokenizer.ggml.tokens": ["a", "b", "c"]}
    assert Header(tokens, "llama").n_vocab == 3
    assert Header({**tokens, "llama.vocab_size": 5}, "llama").n_vocab == 3


@pytest.mark.parametrize("metadata", [{}, {"tokenizer.ggml.tokens": 3}, {"tokenizer.ggml.tokens": np.arange(3)}])
def test_a_file_without_a_list_of_tokens_is_invalid(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidModelFile, match=r"tokenizer\.ggml\.tokens is missing"):
        _ = Header(metadata, "llama").n_vocab
