"""Grammars over a vocabulary: GBNF text in, the matcher of one answer out.

The parser, the automaton and the masks are compiled (`engine/kernels/grammar_*.cpp`). Here is what llama-server b11192
does around them (`common_sampler_init`): triggers become patterns, and a grammar that was not the user's own reads what
the chat template already put.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal, Protocol

from engine.errors import InvalidGrammar, InvalidRequest
from engine.kernels import _kernels

GrammarType = Literal["user", "output_format", "tool_calls"]
GrammarError = _kernels.GrammarError


class TriggerType(IntEnum):
    """llama-server's numbers for what a trigger's value is."""

    TOKEN = 0
    WORD = 1
    PATTERN = 2
    PATTERN_FULL = 3


@dataclass(frozen=True, slots=True)
class GrammarTrigger:
    """What starts a lazy grammar.

    Attributes:
        value: a text, an ECMAScript regular expression, or the text of `token`.
        token: with `TriggerType.TOKEN`, the token.
    """

    type: TriggerType
    value: str
    token: int = -1


@dataclass(frozen=True, slots=True)
class GrammarParams:
    """The grammar of one answer, by llama-server's names; without a text there is none.

    Attributes:
        text: GBNF; a byte that is no UTF-8, which a schema's pattern can give, is a lone surrogate.
        type: where it is from. All but the user's own read `generation_prompt` first.
        lazy: the answer is free until a trigger comes.
        generation_prompt: what the chat template put at the start of the answer.
        warnings: what the schema that it was made of asks for in vain.
    """

    text: str = ""
    type: GrammarType = "user"
    lazy: bool = False
    triggers: tuple[GrammarTrigger, ...] = ()
    generation_prompt: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def data(self) -> bytes:
        """The text in UTF-8, or what it was before."""
        return self.text.encode(errors="surrogateescape")


NO_GRAMMAR = GrammarParams()


class Vocabulary(Protocol):
    """What a grammar needs of a tokenizer; `engine.tokenizer.Tokenizer` is one."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def eog(self) -> frozenset[int]: ...
    def piece(self, token: int, /, *, special: bool = False) -> bytes: ...
    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...


def grammar_from_request(
    fields: Mapping[str, Any], default: GrammarParams, vocabulary: Vocabulary
) -> tuple[GrammarParams, frozenset[int]]:
    """The grammar of a request, and the tokens it preserves.

    Args:
        fields: llama-server's, and `grammar_warnings`, those of its schema; `grammar_triggers` as `GrammarTrigger`s.
            Without a grammar, the default's text counts.
        default: the command line's.
        vocabulary: knows which texts are one token.

    Raises:
        InvalidRequest: a word that is one token but not preserved, or no trigger for a lazy grammar, with
            llama-server's message; or a grammar in another language.
    """
    found: dict[str, Any] = {"lazy": bool(fields.get("grammar_lazy")), "triggers": ()}
    if fields.get("grammar"):
        found |= {"text": fields["grammar"], "type": fields.get("grammar_type") or "user"}
        found["warnings"] = tuple(fields.get("grammar_warnings") or ())
        if fields["grammar"].startswith("%llguidance"):
            raise InvalidRequest("llguidance is not enabled: a grammar has to be GBNF")
    encoded = (vocabulary.encode(text, add_special=False) for text in fields.get("preserved_tokens") or ())
    preserved = frozenset(tokens[0] for tokens in encoded if len(tokens) == 1)
    if fields.get("grammar_triggers") is not None:
        found["triggers"] = tuple(_with_token(trigger, preserved, vocabulary) for trigger in fields["grammar_triggers"])
        if found["lazy"] and not found["triggers"]:
            raise InvalidRequest("Field 'grammar_triggers': Error: no triggers set for lazy grammar!")
    return replace(default, generation_prompt=fields.get("generation_prompt") or "", **found), preserved


def _with_token(trigger: GrammarTrigger, preserved: frozenset[int], vocabulary: Vocabulary) -> GrammarTrigger:
    """A word that is one token becomes that token."""
    tokens = vocabulary.encode(trigger.value, add_special=False) if trigger.type is TriggerType.WORD else []
    if len(tokens) != 1:
        return trigger
    if tokens[0] not in preserved:
        reason = f"Grammar trigger word should be marked as preserved token: {trigger.value}"
        raise InvalidRequest(f"Field 'grammar_triggers': {reason}")
    return GrammarTrigger(TriggerType.TOKEN, trigger.value, tokens[0])


def check_grammar(params: GrammarParams) -> None:
    """Whether the text is a grammar, whatever tokens it names.

    Raises:
        InvalidGrammar: it is none.
    """
    try:
        _kernels.parse_grammar(params.data, lambda text: 0)
    except GrammarError as error:
        raise InvalidGrammar(str(error)) from None


def grammar_matcher(params: GrammarParams, vocabulary: Vocabulary) -> _kernels.GrammarMatcher:
    """The matcher of one answer, at its start.

    Raises:
        InvalidGrammar: the grammar does not parse, recurses on the left or is too large.
        InvalidRequest: a trigger's pattern is no regular expression, or the generation prompt does not follow the
            grammar.
    """
    failed = "Failed to initialize samplers: "
    try:
        triggers = _triggers(params.triggers) if params.lazy else None
    except GrammarError as error:
        raise InvalidRequest(f"{failed}{error}") from None
    try:
        rules = _rules(params.data, weakref.ref(vocabulary))
        matcher = _kernels.GrammarMatcher(rules, _pieces_of(vocabulary), triggers)
        if not params.lazy and params.type != "user":
            for token in prefill_tokens(params.generation_prompt, vocabulary):
                accept(matcher, token)
    except GrammarError as error:
        raise InvalidGrammar(str(error)) from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{failed}{error}") from None
    return matcher


def accept(matcher: _kernels.GrammarMatcher, token: int) -> None:
    """Takes a token of the answer.

    Raises:
        InvalidRequest: the grammar cannot go on after it; with llama-server's message.
        GrammarError: the grammar is too ambiguous.
    """
    if not matcher.accept(token):
        refused, text = matcher.refused
        piece = text.decode(errors="replace")
        raise InvalidRequest(f"Unexpected empty grammar stack after accepting piece: {piece} ({refused})")


@lru_cache(maxsize=4)
def _rules(text: bytes, vocabulary: weakref.ref[Vocabulary]) -> _kernels.GrammarRules:
    """The rules of a text, which names the tokens of a vocabulary; kept, since a client often repeats its grammar."""

    def token_of(special: bytes) -> int:
        known = vocabulary()
        tokens = [] if known is None else known.encode(special.decode(errors="replace"), add_special=False)
        return tokens[0] if len(tokens) == 1 else -1

    return _kernels.parse_grammar(text, token_of)


def _triggers(triggers: Iterable[GrammarTrigger]) -> _kernels.GrammarTriggers:
    tokens = [trigger.token for trigger in triggers if trigger.type is TriggerType.TOKEN]
    patterns = [_pattern(trigger) for trigger in triggers if trigger.type is not TriggerType.TOKEN]
    return _kernels.GrammarTriggers(tokens, patterns)


def _pattern(trigger: GrammarTrigger) -> str:
    value = trigger.value
    if trigger.type is TriggerType.WORD:
        return re.sub(r"[.^$|()*+?\[\]{}\\]", r"\\\g<0>", value)
    if trigger.type is TriggerType.PATTERN_FULL:
        if not value:
            return "^$"
        return ("" if value.startswith("^") else "^") + value + ("" if value.endswith("$") else "$")
    return value


def prefill_tokens(text: str, vocabulary: Vocabulary) -> list[int]:
    """The tokens of the generation prompt, but for a first one whose space the tokenizer put there."""
    tokens = vocabulary.encode(text, add_special=False) if text else []
    if tokens:
        first = vocabulary.piece(tokens[0], special=True)[:1]
        if first.isspace() and not text[0].isspace():
            return tokens[1:]
    return tokens


_pieces: weakref.WeakKeyDictionary[Vocabulary, _kernels.GrammarPieces] = weakref.WeakKeyDictionary()


def _pieces_of(vocabulary: Vocabulary) -> _kernels.GrammarPieces:
    """The vocabulary's texts in a trie, built when its first grammar comes."""
    if vocabulary not in _pieces:
        pieces = [vocabulary.piece(token, special=True) for token in range(vocabulary.n_vocab)]
        _pieces[vocabulary] = _kernels.GrammarPieces(pieces, sorted(vocabulary.eog))
    return _pieces[vocabulary]
