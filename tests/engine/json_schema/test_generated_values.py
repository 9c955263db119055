"""Whatever a schema's grammar lets through follows the schema, and no answer is ever left without a next token."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from engine.gguf import GGUFFile
from engine.grammar import GrammarParams, grammar_matcher
from engine.json_schema import json_schema_to_grammar
from engine.tokenizer import Tokenizer
from testing.oracles.compare_grammars import allowed
from testing.oracles.grammar_cases import WRITTEN
from testing.oracles.record_tokenizers import write
from testing.oracles.small_models import vocabulary

N_TOKENS = 600
_NAMES = st.sampled_from(["a", "b", "ab", "name", "a b", 'q"', "\u00e9", "z-1"])
_WORDS = st.sampled_from(["", "x", "two words", "\u65e5\u672c", "\n", "\\", '"', "1"])
_CONSTANTS = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), _WORDS, st.lists(_WORDS, max_size=2))


def _ranges(low: str, high: str, values: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, int]]:
    """Both bounds, one of them, or none, the lower one no higher."""
    both = st.tuples(values, values).map(lambda pair: dict(zip((low, high), sorted(pair), strict=True)))
    return st.one_of(both, st.builds(lambda n: {low: n}, values), st.builds(lambda n: {high: n}, values), st.just({}))


def _object(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    listed = {"required": [name for name in dict.fromkeys(required) if name in properties]}
    return {"type": "object", "properties": properties, **listed, "additionalProperties": False}


def _integer(limits: dict[str, int]) -> dict[str, Any]:
    # with nothing but a maximum below zero the reference's grammar, and so ours, lets zeros lead: -07
    if limits.get("maximum", 0) < 0:
        limits = {"minimum": -5000, **limits}
    return {"type": "integer", **limits}


_LEAVES = st.one_of(
    _ranges("minLength", "maxLength", st.integers(0, 6)).map(lambda limits: {"type": "string", **limits}),
    _ranges("minimum", "maximum", st.integers(-1200, 1200)).map(_integer),
    st.sampled_from(
        [
            *({"type": kind} for kind in ("number", "boolean", "null", "string", "integer")),
            {"type": "string", "pattern": "^[a-c]{2,3}(x|yz)?$"},
            {"type": "string", "format": "date"},
            {"type": "string", "format": "uuid"},
            {"type": ["integer", "null"]},
        ]
    ),
    st.lists(_CONSTANTS, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    _CONSTANTS.map(lambda value: {"const": value}),
)
SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(_object, st.dictionaries(_NAMES, inner, max_size=3), st.lists(_NAMES, max_size=3)),
        st.builds(
            lambda items, limits: {"type": "array", "items": items, **limits},
            inner,
            _ranges("minItems", "maxItems", st.integers(0, 3)),
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda schemas: {"anyOf": schemas}),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda items: {"type": "array", "prefixItems": items, "minItems": len(items)}
        ),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Every byte is a token, and some words are."""
    with GGUFFile.open(write(vocabulary("default"), tmp_path_factory.mktemp("vocabulary"))) as file:
        return Tokenizer.from_gguf(file.metadata)


def generated(tokenizer: Tokenizer, grammar: str, seed: int) -> bytes | None:
    """A random answer under a grammar; None when it did not end soon. Every step has a token to take."""
    matcher = grammar_matcher(GrammarParams(grammar), tokenizer)
    draw = random.Random(seed)
    data = b""
    for n in range(N_TOKENS):
        (choices,) = np.nonzero(allowed(matcher, tokenizer.n_vocab))
        assert len(choices), f"no token may follow {data!r}"
        ends = [int(token) for token in choices if tokenizer.is_eog(int(token))]
        if ends and draw.random() < 0.3 + n / N_TOKENS:
            return data
        # what closes a string, a list or an object is one token of many: without a push most answers would never end
        closing = [int(token) for token in choices if tokenizer.piece(int(token)) in (b'"', b"]", b"}")]
        # grammars take some bytes that are no UTF-8, as the reference's do; they are drawn only where nothing else fits
        others = [int(token) for token in choices if tokenizer.piece(int(token)).isascii() and int(token) not in ends]
        others = others or [int(token) for token in choices if int(token) not in ends]
        token = draw.choice(closing) if closing and draw.random() < 0.4 else draw.choice(others or ends)
        if token in ends:
            return data
        assert matcher.accept(token)
        data += tokenizer.piece(token, special=True)
    return None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(SCHEMAS, st.integers(0, 2**32))
def test_what_is_generated_under_a_schema_follows_it(tokenizer: Tokenizer, schema: dict[str, Any], seed: int) -> None:
    text = generated(tokenizer, json_schema_to_grammar(schema).text, seed)
    if text is not None:
        Draft202012Validator(schema).validate(json.loads(text))


@pytest.mark.parametrize("grammar", [text for text in WRITTEN if "<" not in text])
def test_no_grammar_of_characters_leaves_an_answer_without_a_next_token(tokenizer: Tokenizer, grammar: str) -> None:
    for seed in range(3):
        generated(tokenizer, grammar, seed)
