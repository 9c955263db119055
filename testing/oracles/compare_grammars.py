"""Grammars against the reference's: whether it takes them, and every token's fate along random answers."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidRequest
from engine.gguf import GGUFFile
from engine.grammar import GrammarError, GrammarParams, GrammarTrigger, TriggerType, grammar_matcher
from engine.kernels._kernels import GrammarMatcher
from engine.tokenizer import Tokenizer
from testing.oracles.comparison import Group, Report
from testing.oracles.grammar_cases import LAZY, NONE, WRITTEN, random_grammars
from testing.oracles.record_tokenizers import metadata_of, write
from testing.oracles.reference_grammar import ReferenceGrammar
from testing.oracles.reference_vocabulary import ReferenceVocabulary

VOCABULARIES = ("smollm", "qwen2", "llama")
N_RANDOM = 400
N_TOKENS = 8
_OURS_ALONE = ("too ambiguous", "nested too deep", "maximum is below", "too many elements")
"""What only we refuse: it would exhaust the reference."""


def compare(report: Report, n_random: int = N_RANDOM, seed: int = 1) -> None:
    """Compares written and random grammars over a vocabulary of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        for name in VOCABULARIES:
            path = write(metadata_of(name), Path(folder))
            with GGUFFile.open(path) as file, ReferenceVocabulary(path) as reference:
                ours = Tokenizer.from_gguf(file.metadata)
                with report.group("grammars", f"{name}, written", "-") as group:
                    _compare(group, ours, reference, (*WRITTEN, *NONE), n_walks=3)
                    _compare_lazy(group, ours, reference)
                with report.group("grammars", f"{name}, random", "-") as group:
                    _compare(group, ours, reference, random_grammars(n_random, seed), n_walks=1)


def _compare(group: Group, ours: Tokenizer, reference: ReferenceVocabulary, texts: Iterable[str], n_walks: int) -> None:
    for text in texts:
        for walk in range(n_walks):
            try:
                mine = grammar_matcher(GrammarParams(text), ours)
            except InvalidRequest as error:
                if any(reason in str(error) for reason in _OURS_ALONE):
                    break
                mine = None
            theirs = ReferenceGrammar.of(reference, text)
            if mine is None or theirs is None:
                group.compare(f"{text!r} is one", np.array(mine is not None), np.array(theirs is not None))
                break
            for step, (found, expected) in enumerate(_walk(mine, theirs, ours, random.Random(f"{text} {walk}"))):
                group.compare(f"{text!r}, token {step} of walk {walk}", found, expected)
            theirs.close()


def _walk(
    mine: GrammarMatcher, theirs: ReferenceGrammar, tokenizer: Tokenizer, draw: random.Random
) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    for _ in range(N_TOKENS):
        try:
            found = allowed(mine, tokenizer.n_vocab)
        except GrammarError:
            return  # too ambiguous: the reference would take hours or all of the memory
        yield found, theirs.allowed()
        (choices,) = np.nonzero(found)
        if not len(choices):
            return
        token = int(draw.choice(choices))
        if draw.random() < 0.3:  # a token that cuts a character is rare, and what follows it matters
            cut = [choice for choice in choices if tokenizer.piece(int(choice), special=True)[-1:] > b"\x7f"]
            token = int(draw.choice(cut)) if cut else token
        if not mine.accept(token):
            return  # the reference gives up here too, with the process
        theirs.accept(token)
        if tokenizer.is_eog(token):
            return


def _compare_lazy(group: Group, ours: Tokenizer, reference: ReferenceVocabulary) -> None:
    for text, patterns, tokens, before in LAZY:
        triggers = [GrammarTrigger(TriggerType.PATTERN, pattern) for pattern in patterns]
        triggers += [GrammarTrigger(TriggerType.TOKEN, "", token) for token in tokens]
        mine = grammar_matcher(GrammarParams(text, lazy=True, triggers=tuple(triggers)), ours)
        theirs = ReferenceGrammar.of(reference, text, (patterns, tokens))
        assert theirs is not None
        for token in ours.encode(before, add_special=False):
            group.compare(f"{text!r} after {before!r}", allowed(mine, ours.n_vocab), theirs.allowed())
            assert mine.accept(token)
            theirs.accept(token)
        for found, expected in _walk(mine, theirs, ours, random.Random(text)):
            group.compare(f"{text!r} lazily", found, expected)
        theirs.close()


def allowed(matcher: GrammarMatcher, n_vocab: int) -> npt.NDArray[np.bool_]:
    """Which tokens a matcher lets come next, (n_vocab,)."""
    logits = np.zeros(n_vocab, np.float32)
    matcher.mask(logits)
    return np.asarray(logits == 0)
