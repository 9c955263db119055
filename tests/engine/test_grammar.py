"""Grammars: what text is one, and which tokens it lets come next (the reference's own record: tests/oracles)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from engine.errors import InvalidGrammar, InvalidRequest
from engine.grammar import (
    NO_GRAMMAR,
    GrammarParams,
    GrammarTrigger,
    TriggerType,
    accept,
    grammar_from_request,
    grammar_matcher,
)
from engine.kernels._kernels import GrammarError, GrammarMatcher

PIECES = [
    *(b"<end>", b"<start>", b"", b"\0x"),
    *(b"a", b"b", b"ab", b"abc", b"c", b" ", b"1", b"12", b"x", b'"', b"{", b"}", b"\n"),
    *("\u00e9".encode(), b"\xc3", b"\xa9", "\u65e5".encode(), b"\xe6", b"\x97\xa5", b"\xa9b", b"\xff"),
]


class Words:
    """A vocabulary of a few pieces; the first one ends an answer."""

    def __init__(self, pieces: Sequence[bytes] = PIECES) -> None:
        self.pieces = list(pieces)
        self.n_vocab = len(pieces)
        self.eog = frozenset({0})

    def piece(self, token: int, /, *, special: bool = False) -> bytes:
        return self.pieces[token]

    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        data, found = text.encode(), []
        while data:
            best = max(
                range(self.n_vocab), key=lambda token: len(self.pieces[token]) * data.startswith(self.pieces[token])
            )
            assert self.pieces[best]
            found.append(best)
            data = data[len(self.pieces[best]) :]
        return found


WORDS = Words()


def matcher_of(text: str, *before: bytes) -> GrammarMatcher:
    matcher = grammar_matcher(GrammarParams(text), WORDS)
    for piece in before:
        assert matcher.accept(PIECES.index(piece))
    return matcher


def next_pieces(matcher: GrammarMatcher) -> set[bytes]:
    logits = np.zeros(WORDS.n_vocab, np.float32)
    matcher.mask(logits)
    by_mask = {PIECES[token] for token in range(WORDS.n_vocab) if logits[token] == 0}
    by_token = {PIECES[token] for token in range(WORDS.n_vocab) if matcher.allows(token)}
    assert by_mask == by_token
    assert np.all((logits == 0) | (logits == -np.inf))
    return by_mask


# -- which tokens come next --------------------------------------------------------------------------------------------


def test_a_token_fits_when_all_of_its_text_does() -> None:
    assert next_pieces(matcher_of('root ::= "ab" "c"? "x"')) == {b"a", b"ab", b"abc"}
    assert next_pieces(matcher_of('root ::= "ab" "c"? "x"', b"ab")) == {b"c", b"x"}


def test_an_answer_ends_only_where_the_grammar_may() -> None:
    assert next_pieces(matcher_of('root ::= "a"', b"a")) == {b"<end>"}
    assert next_pieces(matcher_of('root ::= "a"+', b"a")) == {b"<end>", b"a"}
    assert b"<end>" not in next_pieces(matcher_of('root ::= "a"+'))


def test_a_token_without_text_never_fits() -> None:
    everything = next_pieces(matcher_of("root ::= .*"))
    assert b"" not in everything
    assert b"\0x" not in everything


def test_a_character_may_come_in_several_tokens() -> None:
    matcher = matcher_of("root ::= [\u00e0-\u00ff] [b]")
    assert next_pieces(matcher) == {"\u00e9".encode(), b"\xc3"}
    assert matcher.accept(PIECES.index(b"\xc3"))
    assert next_pieces(matcher) == {b"\xa9", b"\xa9b"}


def test_an_overlong_zero_is_the_end_of_a_token_as_in_the_reference() -> None:
    words = Words([b"<end>", b"\xc0\x80a"])
    matcher = grammar_matcher(GrammarParams('root ::= "x"'), words)
    assert matcher.allows(1)
    assert not matcher.accept(1)


def test_a_cut_character_fits_only_where_one_of_its_ends_would() -> None:
    assert b"\xe6" in next_pieces(matcher_of("root ::= [\u4e00-\u9fff]"))
    assert b"\xe6" not in next_pieces(matcher_of("root ::= [a-z\u00e0-\u00ff]"))
    assert b"\xe6" not in next_pieces(matcher_of("root ::= [^\u65e5]"))  # as in the reference, though others fit


def test_bytes_that_are_no_utf8_never_fit() -> None:
    assert b"\xa9" not in next_pieces(matcher_of("root ::= .*"))
    assert b"\xff" in next_pieces(matcher_of("root ::= .*"))  # the reference takes it for the start of a character


def test_a_token_element_takes_one_token_or_all_others() -> None:
    assert next_pieces(matcher_of("root ::= <[6]>")) == {b"ab"}
    assert b"ab" not in next_pieces(matcher_of("root ::= !<[6]>"))
    assert b"abc" in next_pieces(matcher_of("root ::= !<[6]>"))
    assert next_pieces(matcher_of("root ::= <start>")) == {b"<start>"}
    assert next_pieces(matcher_of("root ::= <[99]>")) == set()


def test_a_token_element_is_asked_for_inside_a_token_too_but_cannot_be_taken_there() -> None:
    matcher = matcher_of('root ::= "a" <[6]>')
    assert next_pieces(matcher) == {b"a", b"ab"}  # the reference's, which then gives up
    with pytest.raises(InvalidRequest, match=r"^Unexpected empty grammar stack after accepting piece: ab \(6\)$"):
        accept(matcher, 6)


def test_an_answer_that_comes_back_to_a_place_gets_the_same_tokens() -> None:
    matcher = matcher_of('root ::= "{" ([a-c] | "\\n")* "}"', b"{")
    first = next_pieces(matcher)
    for piece in (b"a", b"abc", b"\n"):
        assert matcher.accept(PIECES.index(piece))
        assert next_pieces(matcher) == first


def test_the_end_of_an_answer_where_the_grammar_goes_on_is_not_taken() -> None:
    assert not matcher_of('root ::= "ab"', b"a").accept(0)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    matcher = matcher_of("root ::= .")
    for token in (-1, WORDS.n_vocab):
        with pytest.raises(IndexError):
            matcher.allows(token)
        with pytest.raises(IndexError):
            matcher.accept(token)


def test_a_row_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="one row of n_vocab logits"):
        matcher_of("root ::= .").mask(np.zeros(3, np.float32))


# -- what is a grammar -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("root = x", 'expected ::= at "= x"'),
        ("root ::= x", "there is no rule named x"),
        ('x ::= "a"', "there is no rule named root"),
        ("# nothing", "there are no rules"),
        ('root ::= "a" "b', "something has no end, at the end of the text"),
        ('root ::= ("a"', "expected ), at the end of the text"),
        ("root ::= *", "there is nothing to repeat, at the end of the text"),
        ('root ::= "a"{3000}', "too many repetitions, at the end of the text"),
        ('root ::= ("a" | "b"){1500}{2}', "too many repetitions within repetitions, at the end of the text"),
        ('root ::= "a"{5,2}', "a repetition's maximum is below its minimum, at the end of the text"),
        ('root ::= "\\q"', 'unknown escape at "\\q""'),
        ("root ::= \u00e9\u00e9", 'expected the end of the line at "\u00e9\u00e9"'),
        ("root ::= <ab c>", "a token's text is not exactly one token, at the end of the text"),
        ('root ::= root "a"', "it recurses on the left"),
        ('root ::= a\na ::= b "x"\nb ::= | a', "it recurses on the left"),
    ],
)
def test_what_is_no_grammar_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidGrammar, match=r"^Failed to initialize samplers: failed to parse grammar$") as caught:
        grammar_matcher(GrammarParams(text), WORDS)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "text",
    [
        "root ::= " + "(" * 100_000 + '"a"' + ")" * 100_000,
        'root ::= "' + "a" * 5000 + '"{2000}',
        'root ::= "a"{0,18446744073709551615}{1,1999}{1,1999}',
        "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(40))
        + '\nr40 ::= "a"\nroot ::= e r0\ne ::= f e "y" | "x"\nf ::= g\ng ::= |',
        "root ::= [^a]{0,2000} x*\nx ::= y root\ny ::= z\nz ::= |",
        "root ::= (" + '"a" | ' * 200_000 + '"b")*',
    ],
    ids=["nested", "long literal", "repetitions", "hidden left recursion", "empty rules", "alternatives"],
)
def test_a_grammar_built_to_exhaust_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidGrammar):
        grammar_matcher(GrammarParams(text), WORDS)
    assert time.process_time() - started < 10  # hours, or all of the memory, without the limits


def test_a_grammar_may_be_asked_again_and_again() -> None:
    for _ in range(3):
        assert next_pieces(matcher_of('root ::= "a"')) == {b"a"}


def test_a_later_rule_takes_the_place_of_an_earlier_one() -> None:
    assert next_pieces(matcher_of('root ::= "a" gone\nroot ::= "b"')) == {b"b"}


def test_a_grammar_that_turns_out_to_recurse_on_the_left_ends_the_answer() -> None:
    matcher = matcher_of('root ::= "a" e\ne ::= f e "y" | "x"\nf ::= g\ng ::= |')
    with pytest.raises(GrammarError, match="too ambiguous"):
        matcher.allows(PIECES.index(b"a"))


def test_alternatives_that_lead_to_one_place_are_looked_at_once() -> None:
    matcher = matcher_of("root ::= (" + '"a" | ' * 20_000 + '"b")*', b"a", b"ab")
    assert next_pieces(matcher) == {b"<end>", b"a", b"b", b"ab"}


def test_many_rules_are_read_in_time_that_grows_with_them() -> None:
    matcher = matcher_of('root ::= "a"\n' + 'r ::= "b"\n' * 200_000)
    assert next_pieces(matcher) == {b"a"}


def test_a_grammar_that_is_no_utf8_is_refused_like_any_other() -> None:
    text = b'root ::= "\xc3" "\xa9"* \xff'.decode(errors="surrogateescape")
    with pytest.raises(InvalidGrammar) as caught:
        grammar_matcher(GrammarParams(text), WORDS)
    assert caught.value.reason == 'expected the end of the line at "?"* ?"'


def test_many_ways_to_read_a_text_cost_no_more() -> None:
    words = Words([b"<end>", b"a" * 300, b"b"])
    matcher = grammar_matcher(GrammarParams('root ::= "a" root{0,3} | "a" root "a"'), words)
    assert matcher.allows(1)
    assert not matcher.allows(2)


# -- triggers and the generation prompt --------------------------------------------------------------------------------


def lazy(*triggers: GrammarTrigger, text: str = 'root ::= "b" [1c]+') -> GrammarMatcher:
    return grammar_matcher(GrammarParams(text, lazy=True, triggers=triggers), WORDS)


def test_a_lazy_grammar_lets_everything_come_until_its_word_does() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.WORD, "b"))
    assert len(next_pieces(matcher)) == WORDS.n_vocab
    assert matcher.accept(PIECES.index(b"x"))
    assert matcher.awaits_trigger
    assert matcher.accept(PIECES.index(b"abc"))  # the grammar starts in the middle of it
    assert next_pieces(matcher) == {b"<end>", b"1", b"c"}


def test_a_trigger_that_the_grammar_cannot_read_is_named_from_its_start() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.WORD, "bc"), text='root ::= "x"')
    with pytest.raises(InvalidRequest, match=r"after accepting piece: bc \(7\)$"):
        accept(matcher, PIECES.index(b"abc"))


def test_a_word_is_no_pattern() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.WORD, "."))
    assert matcher.accept(PIECES.index(b"x"))
    assert matcher.awaits_trigger


def test_a_pattern_starts_the_grammar_at_its_first_group() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.PATTERN, "a(b)"))
    assert matcher.accept(PIECES.index(b"ab"))
    assert next_pieces(matcher) == {b"1", b"c"}


def test_a_full_pattern_has_to_match_all_of_the_text() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.PATTERN_FULL, "x*(b)"))
    for piece in (b"x", b"x", b"b"):
        assert matcher.awaits_trigger
        assert matcher.accept(PIECES.index(piece))
    assert not matcher.awaits_trigger


def test_a_token_starts_the_grammar() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.TOKEN, "", 5))
    assert matcher.accept(PIECES.index(b"ab"))
    assert matcher.awaits_trigger
    assert matcher.accept(5)
    assert next_pieces(matcher) == {b"1", b"c"}


@pytest.mark.parametrize("pattern", ["(", "(a)\\1", "a" * 5000, "((((a{999}){999}){999}){999})", "(?=a)b", "(?!a)b"])
def test_a_pattern_that_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^Failed to initialize samplers: "):
        lazy(GrammarTrigger(TriggerType.PATTERN, pattern))


def test_a_pattern_that_backtracks_takes_no_longer() -> None:
    matcher = lazy(GrammarTrigger(TriggerType.PATTERN, "(a*)*c(b)"))
    for _ in range(60):
        assert matcher.accept(PIECES.index(b"a"))
    assert matcher.awaits_trigger


def test_a_grammar_that_is_not_the_user_s_reads_the_generation_prompt_first() -> None:
    params = GrammarParams('root ::= "a" "b"', type="output_format", generation_prompt="a")
    assert next_pieces(grammar_matcher(params, WORDS)) == {b"b"}
    own = GrammarParams('root ::= "a" "b"', generation_prompt="a")
    assert next_pieces(grammar_matcher(own, WORDS)) == {b"a", b"ab"}
    with pytest.raises(InvalidRequest, match=r"^Failed to initialize samplers: Unexpected empty grammar stack"):
        grammar_matcher(GrammarParams('root ::= "b"', type="tool_calls", generation_prompt="a"), WORDS)


def test_a_trigger_word_that_is_one_token_has_to_be_preserved() -> None:
    fields = {"grammar": 'root ::= "a"', "grammar_triggers": (GrammarTrigger(TriggerType.WORD, "ab"),)}
    message = "^Field 'grammar_triggers': Grammar trigger word should be marked as preserved token: ab$"
    with pytest.raises(InvalidRequest, match=message):
        grammar_from_request(fields, NO_GRAMMAR, WORDS)
    params, preserved = grammar_from_request({**fields, "preserved_tokens": ("ab", "a c")}, NO_GRAMMAR, WORDS)
    assert params.triggers == (GrammarTrigger(TriggerType.TOKEN, "ab", 6),)
    assert preserved == {6}


def test_a_lazy_grammar_needs_a_trigger_where_triggers_are_given() -> None:
    fields = {"grammar": 'root ::= "a"', "grammar_lazy": True}
    assert grammar_from_request(fields, NO_GRAMMAR, WORDS)[0].triggers == ()
    with pytest.raises(InvalidRequest, match=r"no triggers set for lazy grammar!$"):
        grammar_from_request({**fields, "grammar_triggers": ()}, NO_GRAMMAR, WORDS)


def test_a_request_without_a_grammar_gets_the_command_line_s() -> None:
    default = GrammarParams('root ::= "a"', type="output_format")
    assert grammar_from_request({}, default, WORDS)[0] == default
    assert grammar_from_request({"grammar": ""}, default, WORDS)[0] == default
    assert grammar_from_request({"grammar": "x"}, default, WORDS)[0] == GrammarParams("x")
