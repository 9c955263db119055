"""SentencePiece: pairs merge by score, what is no token is written in bytes, and spaces go where the reference has
them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import InvalidModelFile, InvalidRequest, UnplayableModel
from engine.tokenizer import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
FIRST = 3 + 256
"""The first token after <unk>, <s>, </s> and the bytes."""


def metadata(pieces: dict[str, float], extra: dict[str, int] | None = None, **keys: Any) -> dict[str, Any]:
    """<unk>, <s>, </s>, 256 bytes, then `pieces` with their scores and `extra` tokens with their types."""
    extra = extra or {}
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces, *extra]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + list(extra.values())
    scores = [0.0] * FIRST + list(pieces.values()) + [0.0] * len(extra)
    named = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": np.array(scores, np.float32),
        "tokenizer.ggml.token_type": np.array(types, np.int32),
    }
    return named | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def build(pieces: dict[str, float], extra: dict[str, int] | None = None, **keys: Any) -> Tokenizer:
    """As `metadata`, with no space before the text unless asked for."""
    return Tokenizer.from_gguf(metadata(pieces, extra, **{"add_bos_token": False, "add_space_prefix": False, **keys}))


def byte(value: int) -> int:
    return 3 + value


def test_of_all_pairs_the_one_with_the_highest_score_merges_first() -> None:
    tokenizer = build({"a": -9, "b": -9, "c": -9, "ab": -2, "bc": -1})
    assert [tokenizer.piece(token) for token in tokenizer.encode("abc")] == [b"a", b"bc"]


def test_of_equal_scores_the_leftmost_pair_merges_first() -> None:
    tokenizer = build({"a": -9, "b": -9, "c": -9, "ab": -1, "bc": -1})
    assert [tokenizer.piece(token) for token in tokenizer.encode("abc")] == [b"ab", b"c"]
    assert [tokenizer.piece(token) for token in tokenizer.encode("bcab")] == [b"bc", b"ab"]


def test_a_longer_piece_needs_a_way_through_shorter_ones() -> None:
    tokenizer = build({"a": -1, "b": -1, "c": -1, "abc": -1})
    assert len(tokenizer.encode("abc")) == 3


def test_characters_that_are_no_token_merge_into_one_that_is() -> None:
    tokenizer = build({"漢字": -1})
    assert tokenizer.encode("漢字") == [FIRST]
    assert tokenizer.encode("字漢") == [byte(value) for value in "字漢".encode()]


def test_what_is_no_token_is_written_in_bytes() -> None:
    tokenizer = build({"a": -1})
    assert tokenizer.encode("aé\0\n") == [FIRST, byte(0xC3), byte(0xA9), byte(0), byte(10)]
    assert tokenizer.decode(tokenizer.encode("aé👍\n")).decode() == "aé👍\n"


def test_a_byte_may_be_written_by_the_token_of_its_character() -> None:
    keys = metadata({"x": -1})
    tokens = list(keys["tokenizer.ggml.tokens"])
    tokens[byte(0x0A)], tokens[byte(0x21)] = "spare", "!"
    keys["tokenizer.ggml.token_type"][byte(0x21)] = NORMAL
    tokenizer = Tokenizer.from_gguf(keys | {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.add_bos_token": False})
    assert tokenizer.encode("!")[-1] == byte(0x21)
    with pytest.raises(InvalidRequest, match="no token for the byte 0x0A"):
        tokenizer.encode("a\n")


def test_a_space_is_written_as_the_lower_one_eighth_block_and_read_back() -> None:
    tokenizer = build({"▁": -9, "a": -9, "▁a": -1})
    assert tokenizer.encode(" a") == tokenizer.encode("▁a") == [FIRST + 2]
    assert tokenizer.piece(FIRST + 2) == b" a"


def test_a_space_goes_before_the_text_and_after_each_special_token() -> None:
    tokenizer = build({"▁": -9, "a": -9, "▁a": -1}, {"<u>": USER_DEFINED}, add_space_prefix=True)
    spaced, user = FIRST + 2, FIRST + 3
    assert tokenizer.encode("a") == [spaced]
    assert tokenizer.encode("a<u>a<s>a") == [spaced, user, spaced, 1, spaced]
    assert tokenizer.encode("<u>") == [user]
    assert tokenizer.encode("") == []


def test_the_beginning_is_added_unless_the_file_says_otherwise() -> None:
    named = metadata({"▁": -9, "a": -9, "▁a": -1})
    assert Tokenizer.from_gguf(named).encode("a") == [1, FIRST + 2]
    assert Tokenizer.from_gguf(named).encode("") == [1]
    assert Tokenizer.from_gguf(named | {"tokenizer.ggml.add_eos_token": True}).encode("a") == [1, FIRST + 2, 2]


def test_a_control_token_s_text_can_be_merged_though_it_is_not_parsed() -> None:
    tokenizer = build({"<": -1, "s": -1, ">": -1, "s>": -1})
    assert tokenizer.encode("<s>", parse_special=False) == [1]
    assert build({"<": -1, "s": -1, ">": -1}).encode("<s>", parse_special=False) == [FIRST, FIRST + 1, FIRST + 2]


def test_user_defined_tokens_are_shown_as_they_stand() -> None:
    tokenizer = build({"▁": -1}, {"▁u▁": USER_DEFINED, "spare": UNUSED})
    assert tokenizer.piece(FIRST + 1) == "▁u▁".encode()
    assert tokenizer.piece(FIRST + 2, special=True) == b""


def test_detokenize_drops_the_space_that_goes_before_a_text_and_decode_keeps_it() -> None:
    tokenizer = build({"▁": -9, "a": -9, "▁a": -1}, add_space_prefix=True)
    tokens = tokenizer.encode("a a , !")
    assert tokenizer.detokenize(tokens).decode() == "a a , !"
    assert tokenizer.decode(tokens).decode() == " a a , !"
    assert tokenizer.detokenize([1, *tokens]).decode() == "<s> a a , !"
    assert tokenizer.detokenize([1, *tokens], special=False).decode() == " a a , !"


def test_scores_may_be_whole_numbers_or_missing() -> None:
    named = metadata({"a": 0, "b": 0, "c": 0, "ab": 1, "bc": 2})
    whole = named | {"tokenizer.ggml.scores": named["tokenizer.ggml.scores"].astype(np.int32)}
    assert Tokenizer.from_gguf(whole).encode("abc")[-2:] == [FIRST, FIRST + 4]
    del named["tokenizer.ggml.scores"]
    assert Tokenizer.from_gguf(named).encode("abc")[-2:] == [FIRST + 3, FIRST + 2]


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (np.zeros(3, np.float32), "scores has 3 entries for 260"),
        (np.zeros(300, np.float64), "no array of float32 or int32"),
        ([0.0] * 300, "no array of float32 or int32"),
        (np.full(300, np.nan, np.float32), "a score is not a number"),
    ],
)
def test_scores_that_mean_nothing_are_refused(scores: Any, reason: str) -> None:
    for load in (Tokenizer.from_gguf, Tokenizer.check):
        with pytest.raises(InvalidModelFile, match=reason):
            load(metadata({"a": -1}) | {"tokenizer.ggml.scores": scores})


@pytest.mark.parametrize("score", [np.inf, -np.inf, 0.0, -0.0])
def test_a_token_merges_whatever_its_score(score: float) -> None:
    assert build({"a": 0.0, "b": 0.0, "ab": score}).encode("ab") == [FIRST + 2]


def test_words_have_no_borders_to_show() -> None:
    with pytest.raises(TypeError, match="only byte-level BPE"):
        build({}).split("a")


# --- any text -----------------------------------------------------------------------------------------------------

PIECES = {"▁": -1.0, "a": -1.0, "b": -1.0, "é": -2.0, "aa": -1.0, "ab": -1.0, "ba": -0.5, "aab": -0.5, "▁a": -1.0}
PIECES |= {"▁▁": -0.5, "aaaa": 0.0, "漢字": -1.0, "a漢": -0.5, "b▁": -3.0, "ab▁a": 1.0, "\n\n": -1.0}


def merged(text: str) -> list[str]:
    """The rule, word by word: merge the best pair, the leftmost of equals, until there is none."""
    parts = list(text.replace(" ", "▁"))
    while True:
        scores = [PIECES.get(left + right) for left, right in pairwise(parts)]
        pairs = [(-score, at) for at, score in enumerate(scores) if score is not None]
        if not pairs:
            return parts
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def tokens_of(text: str) -> list[int]:
    ids = {piece: FIRST + at for at, piece in enumerate(PIECES)}
    return [token for part in merged(text) for token in ([ids[part]] if part in ids else map(byte, part.encode()))]


@given(st.text(st.sampled_from("aaaabbbb  é漢字\n\0x👍"), max_size=120))
@example("ab" * 30 + " a" * 30)
@example("aab " * 40)
def test_any_text_is_merged_by_the_rule(text: str) -> None:
    tokenizer = build(PIECES)
    assert tokenizer.encode(text) == tokens_of(text)
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_000_000,
        "a" * 1_000_000,
        "ab" * 500_000,
        "\n" * 1_000_000,
        "😀" * 250_000,
        "<s" * 500_000,
        "<s>" * 300_000,
    ],
    ids=["spaces", "one letter", "one word", "lines", "bytes", "almost special", "special"],
)
def test_a_million_characters_come_back_whole(text: str) -> None:
    tokenizer = build(PIECES)
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text


# --- special tokens -----------------------------------------------------------------------------------------------

MARKS = {
    "<a>": CONTROL,
    "<a><b>": CONTROL,
    "><": USER_DEFINED,
    "<b>": CONTROL,
    "  ": USER_DEFINED,
    "    ": USER_DEFINED,
}
MARKS |= {"<": USER_DEFINED, "b>x": CONTROL, "\n": USER_DEFINED}


def cut(text: str, marks: list[str], right: bool) -> list[str]:
    """The reference's rule: one mark after the other, from the longest, cut out of what is left; with `right`, the
    white space behind it goes with it."""
    parts = [text]
    for mark in sorted(marks, key=len, reverse=True):
        pattern = re.compile(f"({re.escape(mark)})" + (r"[ \t\n\v\f\r]*" if right else ""))
        cut_up = []
        for at, part in enumerate(parts):
            cut_up += [part] if at % 2 else pattern.split(part)
        parts = cut_up
    return parts


@given(st.text(st.sampled_from("<<<>>>ab   \n\tx"), max_size=60), st.booleans(), st.booleans())
@example("<a>   <a><b>  <b>", True, True)
@example("       ", True, False)
def test_special_tokens_are_cut_out_from_the_longest_to_the_shortest(text: str, parse: bool, right: bool) -> None:
    names = {"general.name": "Phi-3"} if right else {}
    marks = {**MARKS, "<|endoftext|>": NORMAL}
    tokenizer = Tokenizer.from_gguf(metadata({"x": -1.0}, marks, add_bos_token=False, add_space_prefix=False) | names)
    found = [mark for mark, kind in MARKS.items() if parse or kind == USER_DEFINED]
    expected: list[int] = []
    for at, part in enumerate(cut(text, found, right)):
        expected += [tokenizer.find(part) or 0] if at % 2 else build({"x": -1.0}).encode(part, parse_special=False)
    assert tokenizer.encode(text, parse_special=parse) == expected


@pytest.mark.parametrize("text", ["a" * 9000, "\u2581" * 3000])
def test_a_token_far_too_long_is_refused_and_not_cut_in_every_way(text: str) -> None:
    with pytest.raises(UnplayableModel, match="tokens that are too long for SentencePiece"):
        build({text: 0.0})
    assert build({text[:1000]: 0.0}).n_vocab == FIRST + 1
