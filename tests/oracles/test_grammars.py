"""Grammars as the reference plays them, replayed from its record: which it takes, and what it lets come next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.gguf import GGUFFile
from engine.kernels._kernels import GrammarMatcher
from engine.tokenizer import Tokenizer
from testing.oracles.compare_grammars import allowed, lazy_cases, opened, triggers_of
from testing.oracles.record_grammars import RECORD, TEXTS, VOCABULARIES, digest
from testing.oracles.record_tokenizers import metadata_of, write

RECORDED: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tokenizer]:
    path: Path = write(metadata_of(request.param), tmp_path_factory.mktemp("vocabulary"))
    with GGUFFile.open(path) as file:
        return request.param, Tokenizer.from_gguf(file.metadata)


def test_a_grammar_lets_the_reference_s_tokens_come_next(vocabulary: tuple[str, Tokenizer]) -> None:
    name, tokenizer = vocabulary
    recorded = RECORDED[f"{name}, eager"]
    assert len(recorded) == len(TEXTS)
    for text, steps in zip(TEXTS, recorded, strict=True):
        matcher = opened(tokenizer, text)
        if not isinstance(steps, list):
            assert matcher == steps, text
            continue
        assert isinstance(matcher, GrammarMatcher), text
        _replay(matcher, tokenizer, steps, text)


def test_a_lazy_grammar_waits_for_its_trigger(vocabulary: tuple[str, Tokenizer]) -> None:
    name, tokenizer = vocabulary
    recorded = RECORDED[f"{name}, lazy"]
    for (text, patterns, tokens, _), steps in zip(lazy_cases(tokenizer), recorded, strict=True):
        matcher = opened(tokenizer, text, triggers_of(patterns, tokens))
        assert isinstance(matcher, GrammarMatcher), text
        assert matcher.awaits_trigger
        _replay(matcher, tokenizer, steps, text)
        assert not matcher.awaits_trigger, text


def _replay(matcher: GrammarMatcher, tokenizer: Tokenizer, steps: Sequence[Sequence[Any]], text: str) -> None:
    for expected, token in steps:
        found = allowed(matcher, tokenizer.n_vocab)
        assert digest(found) == expected, text
        if token >= 0:
            assert matcher.allows(token)
            assert matcher.accept(token)
