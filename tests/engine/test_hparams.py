"""The keys of a header: taken in their type and range only, and refused with the key's name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.errors import InvalidModelFile, UnplayableModel
from engine.hparams import Header

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
    ],
)
def test_the_rotary_scale_is_one_over_the_factor_in_single_precision(keys: dict[str, Any], scale: float) -> None:
    assert header(**keys).rope_scale() == scale


@pytest.mark.parametrize("kind", ["yarn", "longrope", "", 1, True, ["linear"], np.array([1, 2])], ids=repr)
def test_another_rotary_scaling_is_refused(kind: Any) -> None:
    with pytest.raises(UnplayableModel, match=r"^llama\.rope\.scaling\.type is .* which is not played$"):
        header(rope__scaling__type=kind).rope_scale()


@pytest.mark.parametrize("name", ["rope__scaling__factor", "rope__scale_linear"])
def test_a_rotary_factor_that_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(UnplayableModel, match=r"is not a number$"):
        header(**{name: math.nan}).rope_scale()


def test_the_vocabulary_has_the_stated_size_or_as_many_tokens_as_are_listed() -> None:
    tokens = {"tokenizer.ggml.tokens": ["a", "b", "c"]}
    assert Header(tokens, "llama").n_vocab == 3
    assert Header({**tokens, "llama.vocab_size": 5}, "llama").n_vocab == 5
    with pytest.raises(UnplayableModel, match=r"llama\.vocab_size is not a positive integer"):
        _ = Header({**tokens, "llama.vocab_size": 0}, "llama").n_vocab


@pytest.mark.parametrize("metadata", [{}, {"tokenizer.ggml.tokens": 3}, {"tokenizer.ggml.tokens": np.arange(3)}])
def test_a_file_without_a_list_of_tokens_is_invalid(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidModelFile, match=r"tokenizer\.ggml\.tokens is missing"):
        _ = Header(metadata, "llama").n_vocab
