"""The tokenizer gives llama-server's tokens, and refuses vocabularies it would get wrong."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unicodedata
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import InvalidModelFile, InvalidRequest, UnplayableModel
from engine.gguf import GGUFFile
from engine.kernels._kernels import char_classes
from engine.pretokenizers import PRE_TOKENIZERS
from engine.special_tokens import Attribute
from engine.tokenizer import Tokenizer

RECORD = json.loads(
    (Path(__file__).parents[2] / "testing/oracles/records/tokenize_smollm2.json").read_text(encoding="utf-8")
)
LETTER, NUMBER, MARK, PUNCTUATION, SYMBOL, SPACE, OTHER = (1 << bit for bit in range(7))


@pytest.fixture(scope="module")
def tokenizer(model_path: Path) -> Tokenizer:
    with GGUFFile.open(model_path) as file:
        return Tokenizer.from_gguf(file.metadata)


# --- the record ---------------------------------------------------------------------------------------------------


def test_the_record_is_of_the_pinned_model(model_path: Path) -> None:
    assert RECORD["header"]["model"]["sha256"] == hashlib.sha256(model_path.read_bytes()).hexdigest()


@pytest.mark.parametrize("index", range(len(RECORD["cases"])))
def test_encode_gives_the_recorded_tokens(tokenizer: Tokenizer, index: int) -> None:
    text, parsed, *plain = RECORD["cases"][index]
    assert tokenizer.encode(text, parse_special=True) == parsed
    assert tokenizer.encode(text, parse_special=False) == (plain[0] if plain else parsed)


def test_every_token_has_the_recorded_bytes(tokenizer: Tokenizer) -> None:
    digest = hashlib.sha256()
    for token in range(tokenizer.n_vocab):
        piece = tokenizer.piece(token, special=True)
        digest.update(len(piece).to_bytes(4, "little") + piece)
    assert digest.hexdigest() == RECORD["pieces_sha256"]


@pytest.mark.parametrize("index", range(len(RECORD["detokenized"])))
def test_decode_gives_the_recorded_text(tokenizer: Tokenizer, index: int) -> None:
    tokens, text = RECORD["detokenized"][index]
    assert tokenizer.decode(tokens).decode("utf-8", "replace") == text


def test_every_code_point_has_the_recorded_class() -> None:
    classes = char_classes()
    assert len(classes) == sys.maxunicode + 1
    assert hashlib.sha256(classes).hexdigest() == RECORD["char_classes_sha256"]


# --- encode and decode --------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_vocabulary_with_all_bytes_loses_nothing(text: str) -> None:
    tokenizer = bare("smollm")
    assert tokenizer.encode(text) == list(tokenizer.encode(text, parse_special=False))
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text
    assert "".join(tokenizer.split(text)) == text


def test_bytes_that_no_token_stands_for_are_dropped_as_by_the_reference(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a\x16b") == tokenizer.encode("a") + tokenizer.encode("b")


@given(st.lists(st.sampled_from(["a", " ", "<|im_end|>", "<|im_", "|>", "1", "\n"])))
def test_special_tokens_are_cut_out_wherever_they_stand(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    expected: list[int] = []
    for part in re.split(r"(<\|im_end\|>)", text):
        expected += [2] if part == "<|im_end|>" else tokenizer.encode(part, parse_special=False)
    assert tokenizer.encode(text) == expected


def test_the_empty_text_has_no_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == b""


def test_a_lone_surrogate_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="surrogates not allowed"):
        tokenizer.encode("a\ud800b")


@pytest.mark.parametrize("token", [-1, 49152, 2**31])
def test_a_token_outside_the_vocabulary_is_refused(tokenizer: Tokenizer, token: int) -> None:
    with pytest.raises(InvalidRequest, match=f"no token {token} in a vocabulary of 49152"):
        tokenizer.piece(token)
    with pytest.raises(InvalidRequest, match=f"no token {token} in a vocabulary of 49152"):
        tokenizer.decode([5, token])


def test_control_tokens_are_silent_unless_asked_for(tokenizer: Tokenizer) -> None:
    assert tokenizer.piece(2) == b""
    assert tokenizer.piece(2, special=True) == b"<|im_end|>"
    assert tokenizer.decode([2, 67, 2], special=False) == tokenizer.piece(67)


def test_a_piece_may_be_part_of_a_character(tokenizer: Tokenizer) -> None:
    pieces = [tokenizer.piece(token) for token in tokenizer.encode("𓀀")]
    assert len(pieces) > 1
    assert b"".join(pieces).decode() == "𓀀"


@pytest.mark.parametrize(
    "text",
    [" " * 1_000_000, "a" * 1_000_000, "\n" * 1_000_000, "<" * 1_000_000, "<|im_end|>" * 100_000, "1é " * 250_000],
    ids=["spaces", "one word", "lines", "almost special", "special", "short words"],
)
def test_a_million_characters_come_back_whole(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text


@pytest.mark.parametrize("name", ["gpt-2", "llama-bpe", "qwen35", "deepseek-llm", "deepseek-coder", "default"])
@pytest.mark.parametrize("part", [" ", " \n", "a", "漢", "1", "?", "\u0301", "a漢1 "])
def test_a_million_characters_are_cut_whatever_they_are(name: str, part: str) -> None:
    text = part * (1_000_000 // len(part))
    assert "".join(bare(name).split(text)) == text


def test_special_tokens_that_begin_alike_are_found_in_a_million_characters() -> None:
    extra = [(" " * length, USER_DEFINED) for length in range(2, 25)]
    tokens = Tokenizer.from_gguf(vocabulary(extra, [])).encode(" " * 1_000_000)
    assert tokens == [256 + 22] * 41_666 + [256 + 14]


def test_texts_are_tokenized_in_several_threads_at_once(tokenizer: Tokenizer) -> None:
    texts = [f"{index} texts in thread {index}, it's fine. " * 2000 for index in range(4)]
    expected = [tokenizer.encode(text) for text in texts]
    found: dict[int, list[int]] = {}

    def encode(index: int) -> None:
        found[index] = tokenizer.encode(texts[index])

    threads = [Thread(target=encode, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[index] for index in range(len(texts))] == expected


# --- roles --------------------------------------------------------------------------------------------------------


def test_the_roles_of_smollm2_are_the_reference_s(tokenizer: Tokenizer) -> None:
    assert (tokenizer.bos, tokenizer.eos, tokenizer.eot) == (1, 2, 0)
    assert tokenizer.special.fim_rep == 4
    assert tokenizer.eog == {0, 2, 4}
    assert tokenizer.is_eog(2)
    assert not tokenizer.is_eog(1)
    assert not tokenizer.add_bos
    assert not tokenizer.add_eos


# --- small vocabularies -------------------------------------------------------------------------------------------

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def byte_alphabet() -> list[str]:
    """GPT-2's character for each byte, by its rule."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in kept else next(others)) for byte in range(256)]


def vocabulary(extra: list[tuple[str, int]], merges: list[str], **keys: Any) -> dict[str, Any]:
    """Metadata of a vocabulary: the 256 bytes as tokens 0 to 255, then `extra` with their types."""
    tokens = [*byte_alphabet(), *(text for text, _ in extra)]
    types = [NORMAL] * 256 + [kind for _, kind in extra]
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, dtype=np.int32),
        "tokenizer.ggml.merges": merges,
    }
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def test_the_lowest_rank_is_merged_first_and_the_leftmost_of_equals() -> None:
    extra = [("bc", NORMAL), ("ab", NORMAL), ("aa", NORMAL)]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, ["b c", "a b", "a a"]))
    assert tokenizer.encode("abc") == [ord("a"), 256]
    assert tokenizer.encode("abab") == [257, 257]
    assert tokenizer.encode("aaa") == [258, ord("a")]


@pytest.mark.parametrize("length", [40, 48, 49, 60, 1000])
def test_short_and_long_words_are_merged_alike(length: int) -> None:
    extra = [("aa", NORMAL), ("aaaa", NORMAL), ("aab", NORMAL)]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, ["a a", "aa aa", "aa b"]))
    expected = [257] * (length // 4) + [256] * (length % 4 // 2) + [ord("a")] * (length % 2)
    assert tokenizer.encode("a" * length) == expected


def test_a_merge_into_no_token_falls_apart_into_the_bytes_that_are_tokens() -> None:
    tokenizer = Tokenizer.from_gguf(vocabulary([], ["a b", f"{byte_alphabet()[0xA9]} b"]))
    assert tokenizer.encode("ab") == [ord("a"), ord("b")]
    # The alphabet's character of byte 0xA9 takes two bytes, and neither of them is a token: only the "b" is left.
    assert tokenizer.encode("éb") == [0xC3, ord("b")]


def test_ignore_merges_takes_a_word_that_is_a_token_whole() -> None:
    extra = [("abc", NORMAL)]
    merging = vocabulary(extra, [])
    assert Tokenizer.from_gguf(merging).encode("abc") == [ord("a"), ord("b"), ord("c")]
    ignoring = merging | {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}
    assert Tokenizer.from_gguf(ignoring).encode("abc") == [256]


def test_bos_and_eos_are_added_when_the_file_says_so() -> None:
    extra = [("<s>", CONTROL), ("</s>", CONTROL)]
    keys = {"bos_token_id": 256, "eos_token_id": 257, "add_bos_token": True, "add_eos_token": True}
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, [], **keys))
    assert tokenizer.encode("a") == [256, ord("a"), 257]
    assert tokenizer.encode("a", add_special=False) == [ord("a")]
    assert tokenizer.encode("<s>a") == [256, 256, ord("a"), 257]
    assert tokenizer.eog == {257}


def test_user_defined_tokens_are_found_even_where_control_tokens_are_text() -> None:
    tokenizer = Tokenizer.from_gguf(vocabulary([("<u>", USER_DEFINED), ("<c>", CONTROL)], []))
    text = [ord(char) for char in "<c>"]
    assert tokenizer.encode("<c><u>", parse_special=False) == [*text, 256]
    assert tokenizer.encode("<c><u>") == [257, 256]
    assert tokenizer.piece(256) == b"<u>"
    assert tokenizer.piece(257) == b""


def test_of_overlapping_special_tokens_the_longer_wins_and_then_the_one_further_left() -> None:
    extra = [("<a>", CONTROL), ("<a><b>", CONTROL), ("><", CONTROL)]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, []))
    assert tokenizer.encode("<a><b>") == [257]
    assert tokenizer.encode("<a><a>") == [256, 256]
    assert tokenizer.encode("x><x") == [ord("x"), 258, ord("x")]


def test_unused_tokens_have_no_text_and_byte_tokens_one_byte() -> None:
    tokenizer = Tokenizer.from_gguf(vocabulary([("spare", UNUSED), ("<0x41>", BYTE)], []))
    assert tokenizer.piece(256, special=True) == b""
    assert tokenizer.piece(257) == b"A"


def test_a_text_outside_the_byte_alphabet_is_named() -> None:
    tokenizer = Tokenizer.from_gguf(vocabulary([("漢", NORMAL)], []))
    assert tokenizer.piece(256).decode() == "[UNK_BYTE_0xe6bca2漢]"


def test_detokenize_cleans_up_spaces_where_the_vocabulary_wants_it() -> None:
    text = "He 's , they 've . It 's ' fine ' ! I 'm 'x"
    tokens = Tokenizer.from_gguf(vocabulary([], [])).encode(text)
    cleaning = Tokenizer.from_gguf(vocabulary([], []))
    keeping = Tokenizer.from_gguf(vocabulary([], [], pre="smollm"))
    assert cleaning.detokenize(tokens).decode() == "He's, they've. It's'fine '! I'm 'x"
    assert keeping.detokenize(tokens).decode() == text
    prefixed = Tokenizer.from_gguf(vocabulary([], [], pre="smollm", add_space_prefix=True))
    assert prefixed.detokenize(prefixed.encode(" a b")).decode() == "a b"


def test_the_role_of_a_token_is_guessed_from_its_text() -> None:
    extra = [("<|eot_id|>", NORMAL), ("<|fim_pad|>", NORMAL), ("<eos>", NORMAL), ("<|channel|>", CONTROL)]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, [], eos_token_id=7))
    assert (tokenizer.eot, tokenizer.special.fim_pad) == (256, 257)
    assert tokenizer.eog == {7, 256, 257, 258}
    assert tokenizer.piece(256) == b""
    assert tokenizer.piece(259) == b"<|channel|>"


def test_control_tokens_that_say_so_are_unused() -> None:
    extra = [("<unused1>", CONTROL), ("unused", NORMAL)]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, []))
    assert tokenizer.attributes[256:].tolist() == [Attribute.CONTROL | Attribute.UNUSED, Attribute.NORMAL]


def test_end_is_no_end_where_calls_are() -> None:
    extra = [(text, CONTROL) for text in ("<|end|>", "<|return|>", "<|call|>")]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, [], eos_token_id=257, eot_token_id=257))
    assert tokenizer.eog == {257, 258}
    assert tokenizer.piece(256) == b"<|end|>"


def test_an_id_outside_the_vocabulary_is_none() -> None:
    tokenizer = Tokenizer.from_gguf(vocabulary([], [], pad_token_id=5, unknown_token_id=4096))
    assert tokenizer.special.unk is None
    assert (tokenizer.bos, tokenizer.eos) == (11, 11)


def test_phi_3_s_special_tokens_swallow_the_space_after_them() -> None:
    extra = [(text, CONTROL) for text in ("</s>", "<unk>", "<s>", "<|endoftext|>", "<|user|>")]
    tokenizer = Tokenizer.from_gguf(vocabulary(extra, []) | {"general.name": "My Phi-3 mini"})
    assert tokenizer.encode("<|user|> \n a<s> a") == [260, ord("a"), 258, byte_alphabet().index("Ġ"), ord("a")]


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["no such", "deepseek-v3", "tekken", 5])
def test_an_unknown_pre_tokenizer_is_refused(name: object) -> None:
    with pytest.raises(UnplayableModel, match=re.escape(f"tokenizer.ggml.pre is {name!r}")):
        Tokenizer.from_gguf(vocabulary([], [], pre=name))


@pytest.mark.parametrize("model", ["gemma4", "bert", "t5", None, 5])
def test_another_kind_of_vocabulary_is_refused(model: object) -> None:
    with pytest.raises(UnplayableModel, match=re.escape(f"tokenizer.ggml.model is {model!r}")):
        Tokenizer.from_gguf({"tokenizer.ggml.model": model})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokens": None}, "tokens is missing"),
        ({"merges": "a b"}, "merges is missing or no array"),
        ({"tokens": ["a", "b", "a"]}, "the token 2 has the text of another one"),
        ({"tokens": ["a", "b", "a\0c"]}, "the token 2 has the text of another one"),
        ({"tokens": ["[EMPTY_1]", ""]}, "the token 1 has the text of another one"),
        ({"tokens": ["[EMPTY_1]", "\0a"]}, "the token 1 has the text of another one"),
        ({"token_type": np.ones(3, dtype=np.int32)}, "token_type has 3 entries for 256"),
        ({"token_type": np.ones(256, dtype=np.int64)}, "token_type is no array of int32"),
        ({"bos_token_id": "1"}, "bos_token_id is no integer"),
        ({"add_bos_token": 1}, "add_bos_token is no boolean"),
        ({"tokens": ["<0"] * 1, "token_type": np.full(1, BYTE, dtype=np.int32)}, "byte token 0 does not name a byte"),
        ({"tokens": ["é\0ab"], "token_type": np.full(1, BYTE, dtype=np.int32)}, "byte token 0 does not name a byte"),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(change: dict[str, Any], reason: str) -> None:
    metadata = vocabulary([], []) | {f"tokenizer.ggml.{key}": value for key, value in change.items()}
    for load in (Tokenizer.from_gguf, Tokenizer.check):
        with pytest.raises(InvalidModelFile, match=reason):
            load(metadata)


@pytest.mark.parametrize("tokens", [["a", ""], ["", ""], ["[EMPTY_0]", ""], ["a\0b", "b"], ["aa\0", "a", "\0", ""]])
def test_tokens_that_are_kept_apart_are_taken(tokens: list[str]) -> None:
    metadata = vocabulary([], [], tokens=tokens, token_type=np.ones(len(tokens), dtype=np.int32))
    Tokenizer.check(metadata)
    assert Tokenizer.from_gguf(metadata).n_vocab == len(tokens)


def test_a_bos_that_is_asked_for_but_absent_is_refused() -> None:
    metadata = vocabulary([], [], tokens=["a"], token_type=np.ones(1, dtype=np.int32), add_bos_token=True)
    with pytest.raises(UnplayableModel, match="add_bos_token is set, but there is no such token"):
        Tokenizer.from_gguf(metadata)


# --- pre-tokenizers -----------------------------------------------------------------------------------------------


@cache
def classes() -> bytes:
    return char_classes()


def class_of(char: str) -> int:
    return classes()[ord(char)]


@cache
def bare(name: str) -> Tokenizer:
    """A tokenizer of bytes alone behind the named pre-tokenizer."""
    return Tokenizer.from_gguf(vocabulary([], [], pre=name))


def translated(text: str) -> str:
    """A text with each character beyond ASCII replaced by one of its class, so that `re` needs no Unicode classes.

    The letter is one that no contraction ('ll, 'd, ...) has.
    """
    stand_ins = {LETTER: "Q", NUMBER: "7", MARK: "\x01", PUNCTUATION: "!", SYMBOL: "\x03", SPACE: "\x0b", OTHER: "\x02"}
    return "".join(char if char < "\x80" else stand_ins[class_of(char)] for char in text)


WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
CASED = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]{1,%s}"
    r"| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EXPRESSIONS = {
    "gpt-2": [WORDS],
    "smollm": ["[0-9]", WORDS],
    "llama-bpe": [CASED % 3],
    "qwen2": [CASED % 1],
    "falcon": [r"[!-#%-*,-/:-;?-@\[-\]_{}$+<=>^~|`]+", WORDS, "[0-9][0-9][0-9]"],
    "default": [r"[!-#%-*,-/:-;?-@\[-\]_{}$+<=>^~|]+", WORDS, "[0-9]+", "[0-9][0-9][0-9]"],
}


def split_by(expressions: list[str], text: str) -> list[str]:
    """What llama.cpp's regular expressions leave, one after the other; what none of them matches stays in one piece."""
    pieces = [text]
    for expression in expressions:
        pattern = re.compile(expression, re.ASCII)
        pieces = [piece for whole in pieces for piece in cut(pattern, whole)]
    return pieces


def cut(pattern: re.Pattern[str], text: str) -> list[str]:
    found, done = [], 0
    for match in pattern.finditer(text):
        found += [text[done : match.start()], match[0]]
        done = match.end()
    return [piece for piece in [*found, text[done:]] if piece]


ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from(" \t\n\r'sStTrReEvVlLmMdDaZ019.,!$+<`\u00a0\u3000é漢½\u0661👍\u0301"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\x1c\x1d\x1e\x1f"),
    ),
    max_size=40,
)


@pytest.mark.parametrize("name", EXPRESSIONS)
@given(text=ANY_TEXT)
@example(text="'ÀÀA")
def test_a_pre_tokenizer_cuts_as_its_regular_expressions(name: str, text: str) -> None:
    tokenizer = bare(name)
    expected = [len(piece) for piece in split_by(EXPRESSIONS[name], translated(text))]
    assert [len(word) for word in tokenizer.split(text)] == expected


@given(text=ANY_TEXT)
@example(text="'\u0301\u0301A")
def test_qwen35_keeps_marks_with_their_letters(text: str) -> None:
    marked = "".join("Q" if class_of(char) == MARK else char for char in text)
    assert [len(word) for word in bare("qwen35").split(text)] == [len(word) for word in bare("qwen2").split(marked)]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_every_pre_tokenizer_in_the_table_is_made_of_known_splitters(name: str) -> None:
    assert bare(name).split("It's 1234 words!") != []
    assert "".join(bare(name).split("It's 1234 words!")) == "It's 1234 words!"


def test_python_s_own_classes_agree_where_unicode_has_not_changed_them() -> None:
    by_category = {"L": LETTER, "N": NUMBER, "M": MARK, "P": PUNCTUATION, "S": SYMBOL}
    old = unicodedata.ucd_3_2_0
    for char in map(chr, range(0x300, 0x500)):
        if old.category(char) == unicodedata.category(char) != "Cn":
            assert class_of(char) == by_category[unicodedata.category(char)[0]], hex(ord(char))


def test_attributes_have_the_reference_s_numbers() -> None:
    assert [int(attribute) for attribute in Attribute] == [1, 2, 4, 8, 16, 32, 128, 256]
