"""Grammars against the reference's: whether it takes them, and every token's fate along random answers."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidGrammar
from engine.gguf import GGUFFile
from engine.grammar import GrammarError, GrammarParams, GrammarTrigger, TriggerType, grammar_matcher
from engine.kernels._kernels import GrammarMatcher
from engine.tokenizer import Tokenizer
from testing.oracles import published_grammars
from testing.oracles.chat_driver import source_archive
from testing.oracles.comparison import Group, Report
from testing.oracles.grammar_cases import LAZY, NONE, WRITTEN, random_grammars
from testing.oracles.record_tokenizers import metadata_of, write
from testing.oracles.reference_grammar import ReferenceGrammar
from testing.oracles.reference_server import ReferenceError
from testing.oracles.reference_vocabulary import ReferenceVocabulary

VOCABULARIES = ("smollm", "qwen2", "llama")
N_RANDOM = 120
N_TOKENS = 8
MOST_SECONDS = 10
_OURS_ALONE = ("too ambiguous", "nested too deep", "maximum is below", "too many elements")
"""What only we refuse: it would exhaust the reference."""


def compare(report: Report, only: Sequence[str], *, n_random: int = N_RANDOM, seed: int = 1) -> None:
    """Compares written and random grammars over a vocabulary of each kind, or over the named GGUF files'; and texts
    with the grammars of the reference's published cases.
    """
    names = [name for name in VOCABULARIES if not only or name in only]
    names += [name for name in only if name.endswith(".gguf")]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(name) if name.endswith(".gguf") else write(metadata_of(name), Path(folder))
            with GGUFFile.open(path) as file, ReferenceVocabulary(path) as reference:
                ours = Tokenizer.from_gguf(file.metadata)
                with report.group("grammars", f"{name}, written", "-") as group:
                    _compare(group, ours, reference, (*WRITTEN, *NONE), n_walks=3)
                    _compare_lazy(group, ours, reference)
                with report.group("grammars", f"{name}, random", "-") as group:
                    for text in random_grammars(n_random, seed):
                        _compare_within(MOST_SECONDS, group, ours, reference, text)
    if not only:
        _compare_published(report)


def _compare_published(report: Report) -> None:
    try:
        sources = source_archive()
    except ReferenceError as error:
        report.not_played("grammars", "published", str(error))
        return
    with report.group("grammars", "published", "-") as group:
        published_grammars.compare(group, sources)


def _compare_within(seconds: int, group: Group, ours: Tokenizer, reference: ReferenceVocabulary, text: str) -> None:
    """Compares one grammar in a process of its own, which ends with nothing counted when the reference takes too long:
    it tries out every way to read a token.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        found = Group("", "", "")
        _compare(found, ours, reference, (text,), n_walks=1)
        os.write(send, json.dumps([found.identical, found.different, found.first]).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if answer:
        identical, different, first = json.loads(answer)
        group.identical += identical
        group.different += different
        group.first = group.first or first


def opened(
    tokenizer: Tokenizer, text: str, triggers: tuple[GrammarTrigger, ...] | None = None
) -> GrammarMatcher | str | None:
    """Our matcher; None for what is no grammar, the reason for one that only we refuse."""
    try:
        return grammar_matcher(GrammarParams(text, lazy=triggers is not None, triggers=triggers or ()), tokenizer)
    except InvalidGrammar as error:
        return error.reason if any(reason in error.reason for reason in _OURS_ALONE) else None


def triggers_of(patterns: Iterable[str], tokens: Iterable[int]) -> tuple[GrammarTrigger, ...]:
    """Patterns and tokens as triggers."""
    by_pattern = (GrammarTrigger(TriggerType.PATTERN, pattern) for pattern in patterns)
    return (*by_pattern, *(GrammarTrigger(TriggerType.TOKEN, "", token) for token in tokens))


def lazy_cases(tokenizer: Tokenizer) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...], list[int]]]:
    """The lazy grammars for a vocabulary: text, triggers as patterns and as tokens, the tokens of the free part."""
    for text, patterns, by_token, before in LAZY:
        free = tokenizer.encode(before, add_special=False)
        yield text.replace("LAST", str(free[-1])), patterns, (free[-1],) if by_token else (), free


def answers(
    reference: ReferenceGrammar, guard: GrammarMatcher, tokenizer: Tokenizer, seed: str
) -> Iterator[tuple[npt.NDArray[np.bool_], int]]:
    """A random answer under the reference's grammar: which tokens it lets come next and the one that is taken, -1 when
    it was the last step. `guard` is ours at the same place: the reference would end the process where ours gives up.
    """
    draw = random.Random(seed)
    for _ in range(N_TOKENS):
        expected = reference.allowed()
        (choices,) = np.nonzero(expected)
        token = int(draw.choice(choices)) if len(choices) else -1
        if token >= 0 and draw.random() < 0.3:  # tokens that cut a character are rare, and what follows them matters
            cut = [choice for choice in choices if tokenizer.piece(int(choice), special=True)[-1:] > b"\x7f"]
            token = int(draw.choice(cut)) if cut else token
        if token >= 0 and not guard.accept(token):
            token = -1
        yield expected, token
        if token < 0:
            return
        reference.accept(token)
        if tokenizer.is_eog(token):
            return


def _compare(group: Group, ours: Tokenizer, reference: ReferenceVocabulary, texts: Iterable[str], n_walks: int) -> None:
    for text in texts:
        for walk in range(n_walks):
            mine, guard = opened(ours, text), opened(ours, text)
            if isinstance(mine, str) or isinstance(guard, str):
                break
            theirs = ReferenceGrammar.of(reference, text)
            if mine is None or guard is None or theirs is None:
                group.compare(f"{text!r} is one", np.array(mine is not None), np.array(theirs is not None))
                break
            _compare_answer(group, ours, text, f"{walk}", (mine, guard, theirs))


def _compare_answer(
    group: Group,
    tokenizer: Tokenizer,
    text: str,
    walk: str,
    grammars: tuple[GrammarMatcher, GrammarMatcher, ReferenceGrammar],
) -> None:
    mine, guard, theirs = grammars
    try:
        found = allowed(mine, tokenizer.n_vocab)
        for expected, token in answers(theirs, guard, tokenizer, f"{text} {walk}"):
            group.compare(f"{text!r}, walk {walk}", found, expected)
            if token < 0 or not mine.accept(token):
                break
            found = allowed(mine, tokenizer.n_vocab)
    except GrammarError:
        return  # too ambiguous: the reference would take hours, or all of the memory
    finally:
        theirs.close()


def _compare_lazy(group: Group, ours: Tokenizer, reference: ReferenceVocabulary) -> None:
    for text, patterns, tokens, free in lazy_cases(ours):
        triggers = triggers_of(patterns, tokens)
        mine, guard = opened(ours, text, triggers), opened(ours, text, triggers)
        theirs = ReferenceGrammar.of(reference, text, (patterns, tokens))
        assert isinstance(mine, GrammarMatcher)
        assert isinstance(guard, GrammarMatcher)
        assert theirs is not None
        for token in free:
            group.compare(f"{text!r}, not yet triggered", allowed(mine, ours.n_vocab), theirs.allowed())
            assert mine.accept(token) == guard.accept(token) is True
            theirs.accept(token)
        _compare_answer(group, ours, text, "lazily", (mine, guard, theirs))


def allowed(matcher: GrammarMatcher, n_vocab: int) -> npt.NDArray[np.bool_]:
    """Which tokens a matcher lets come next, (n_vocab,)."""
    logits = np.zeros(n_vocab, np.float32)
    matcher.mask(logits)
    return np.asarray(logits == 0)
