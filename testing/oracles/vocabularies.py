"""Vocabularies made here, of our own words and seeded nonsense, with which the reference's tokenizers are recorded.

They are made to show every difference: nearly any two neighbours merge, so a word that ends elsewhere gives other
tokens, and scores and ranks tie wherever they can.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from testing.oracles.fuzz_texts import WORDS
from testing.oracles.tokenize_cases import LANGUAGES

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SEED: Final = 11192

SPECIALS: Final = (
    ("<unk>", UNKNOWN),
    ("<s>", CONTROL),
    ("</s>", CONTROL),
    ("<|im_start|>", CONTROL),
    ("<|im_end|>", CONTROL),
    ("<|endoftext|>", CONTROL),
    ("<pad>", UNUSED),
    ("<mask>", CONTROL),
    ("<tool>", USER_DEFINED),
    ("    ", USER_DEFINED),
    ("\n\n\n", USER_DEFINED),
    ("|>", USER_DEFINED),
)
"""Tokens 0 to 11 of every vocabulary."""

# Words that are tokens though no merges lead to them.
UNMERGED: Final = (
    "ignored",
    " ignored",
    "xyzzy",
    " xyzzy",
    "HTTPServer",
    "漢字",
    " 한국어",
    "!?!?",
    "\n\n",
    "  ",
    "123",
)


def byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary, by GPT-2's rule."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _shuffled(values: list[Any], chance: random.Random) -> list[Any]:
    """A copy in seeded order; `random.shuffle` draws otherwise from version to version."""
    values = list(values)
    for at in range(len(values) - 1, 0, -1):
        other = chance.randrange(at + 1)
        values[at], values[other] = values[other], values[at]
    return values


def _words() -> list[str]:
    words = [word for text in LANGUAGES for word in text.split()] + [word for word in WORDS if word not in UNMERGED]
    return list(dict.fromkeys(form for word in words for form in (word, " " + word)))


@functools.cache
def _byte_level() -> tuple[list[str], list[str]]:
    """Tokens and merges: some words, then every pair of bytes in any order."""
    letters = byte_letters()
    special = {text for text, _ in SPECIALS}
    merges: dict[tuple[str, str], None] = {}
    for word in _words():
        spelt = [letters[byte] for byte in word.encode()]
        merges.update({("".join(spelt[:at]), spelt[at]): None for at in range(1, len(spelt))})
    pairs = [(left, right) for left in letters for right in letters if left + right not in special]
    merges.update(dict.fromkeys(_shuffled(pairs, random.Random(SEED))))
    whole = ["".join(letters[byte] for byte in word.encode()) for word in UNMERGED]
    tokens = [*(text for text, _ in SPECIALS), *dict.fromkeys([*letters, *map("".join, merges), *whole])]
    return tokens, [" ".join(pair) for pair in merges]


def _keys(model: str, tokens: list[str], types: Sequence[int], **keys: Any) -> dict[str, Any]:
    named = {"model": model, "tokens": tokens, "token_type": np.array(types, np.int32), **keys}
    return {f"tokenizer.ggml.{name}": value for name, value in named.items()}


def byte_level(pre: str, **keys: Any) -> dict[str, Any]:
    """The keys of a byte-level vocabulary; `keys` come on top, without `tokenizer.ggml.`."""
    tokens, merges = _byte_level()
    types = [kind for _, kind in SPECIALS] + [NORMAL] * (len(tokens) - len(SPECIALS))
    return _keys("gpt2", tokens, types, pre=pre, merges=merges, **keys)


def _pieces(chance: random.Random) -> list[str]:
    """Parts of words, pairs and triples of ASCII, and characters; some characters stand in longer pieces only."""
    pieces: dict[str, None] = {}
    for text in _words():
        word = text.replace(" ", "▁")
        ends = [(start, stop) for start in range(len(word)) for stop in range(start + 1, min(start + 9, len(word) + 1))]
        pieces.update({word[start:stop]: None for start, stop in ends if chance.random() < 0.6})
    ascii_ = ["▁", *map(chr, range(0x21, 0x7F))]
    pairs = [left + right for left in ascii_ for right in ascii_ if chance.random() < 0.4]
    triples = [pair + ascii_[chance.randrange(95)] for pair in pairs if chance.random() < 0.5]
    runs = [char * count for char in "▁-=.0a漢" for count in (2, 3, 4, 7, 8, 16)]
    return list(
        dict.fromkeys([*ascii_[:90], *pieces, *pairs, *triples, *runs, "\n", "\n\n", "\t", "\u0301", "👍", "👍🏽"])
    )


@functools.cache
def _sentencepiece() -> tuple[list[str], list[float]]:
    """Pieces and their scores: few scores for many pieces, so that most of them tie with others."""
    chance = random.Random(SEED)
    special = {text for text, _ in SPECIALS}
    pieces = [piece for piece in _pieces(chance) if piece not in special]
    return pieces, [-chance.randrange(400) / 4 for _ in pieces]


def sentencepiece(**keys: Any) -> dict[str, Any]:
    """The keys of a SentencePiece vocabulary; `keys` come on top, without `tokenizer.ggml.`."""
    pieces, piece_scores = _sentencepiece()
    tokens = [*(text for text, _ in SPECIALS), *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    scores = [0.0] * (len(tokens) - len(pieces)) + piece_scores
    types = [kind for _, kind in SPECIALS] + [BYTE] * 256 + [NORMAL] * len(pieces)
    ids = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return _keys("llama", tokens, types, scores=np.array(scores, np.float32), **ids, **keys)
