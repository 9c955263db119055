"""Seeded texts on which tokenizers could differ: every script, marks, emoji, digits, white space, contractions, control
characters, code points that are nothing, special tokens, and long runs of one thing.

The same seed gives the same texts on every version of Python: the draws are of `random.Random.randrange` and
`random.Random.random` alone, and no character is looked up in Python's own Unicode tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
Maker = Callable[[random.Random], str]

# First and last code point of blocks of letters and signs, by no more than their place in Unicode.
BLOCKS: Final = (
    *((0x21, 0x7E), (0x21, 0x7E), (0x41, 0x7A), (0xA1, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x3FF)),
    *((0x400, 0x52F), (0x530, 0x5FF), (0x600, 0x6FF), (0x700, 0x8FF), (0x900, 0xDFF), (0xE00, 0xFFF)),
    *((0x1000, 0x13FF), (0x1400, 0x17FF), (0x1800, 0x1CFF), (0x1D00, 0x1FFF), (0x2000, 0x206F)),
    *((0x2070, 0x20FF), (0x2100, 0x218F), (0x2190, 0x2BFF), (0x2C00, 0x2DFF), (0x2E00, 0x303F)),
    *((0x3040, 0x30FF), (0x3100, 0x33FF), (0x3400, 0x4DFF), (0x4E00, 0x4E80), (0x9F90, 0x9FFF)),
    *((0xA000, 0xA4CF), (0xA4D0, 0xABFF), (0xAC00, 0xAC80), (0xD780, 0xD7FF), (0xE000, 0xE010)),
    *((0xF8F0, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10000, 0x103FF), (0x10400, 0x10FFF)),
    *((0x11000, 0x11FFF), (0x12000, 0x13FFF), (0x16000, 0x18FFF), (0x1B000, 0x1CFFF), (0x1D000, 0x1D7FF)),
    *((0x1D800, 0x1EFFF), (0x1F000, 0x1FAFF), (0x1FB00, 0x20010), (0x2A6D0, 0x2A710), (0x2FFF0, 0x30010)),
    *(
        (0xE0000, 0xE01FF),
        (0xFFFF0, 0x100010),
        (0x10FFF0, 0x10FFFF),
    ),
)
SPACES: Final = (
    *(" ", " ", " ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u1680"),
    *(
        "\u2000",
        "\u2003",
        "\u2028",
        "\u2029",
        "\u202f",
        "\u205f",
        "\u3000",
    ),
)
INVISIBLE: Final = (
    "\x00\x01\x08\x1b\x1c\x1d\x1e\x1f\x7f\x80\x9f\xad\u061c\u180e\u200b\u200c\u200d\u200e\u202e\u2060\ufeff"
)
NUMBER_STARTS: Final = (0x30, 0x30, 0x30, 0x660, 0x6F0, 0x966, 0xE50, 0x2070, 0x2080, 0x2150, 0x2160, 0x2460, 0x3007)
NUMBER_STARTS_BEYOND: Final = (0x3021, 0xFF10, 0x104A0, 0x1D7CE, 0x1F100, 0x12400, 0x10107)
MARKS: Final = ((0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x65F), (0x900, 0x903), (0x93A, 0x94F))
MARKS_BEYOND: Final = ((0xE31, 0xE3A), (0x1AB0, 0x1ACE), (0x20D0, 0x20F0), (0x302A, 0x302F), (0xFE00, 0xFE2F))
EMOJI: Final = (
    *("👍", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "☺", "🤷🏻‍♂️", "1️⃣", "#️⃣", "🏴\U000e0067\U000e0062\U000e007f"),
    *(
        "\u200d",
        "\ufe0f",
    ),
)
CONTRACTIONS: Final = (
    *("s", "t", "d", "m", "re", "ve", "ll", "S", "T", "D", "M", "RE", "Ve", "lL"),
    *("r", "v", "l", "x", "\u017f"),
)
APOSTROPHES: Final = ("'", "'", "'", "’", "‘", "`", "ʼ", "＇")  # noqa: RUF001
WORDS: Final = (
    *("the", "The", "HTTPServer", "getElementById", "snake_case", "x86_64", "naïve", "größer", "здравствуйте"),
    *("Ελλάδα", "漢字", "かな", "カタカナ", "한국어", "नमस्ते", "สวัสดี", "שלום", "مرحبا", "ქართული", "Ꮳꮃꭹ", "ﬁn", "µm"),
    *(
        "ΐ",
        "Ἀθῆναι",
        "\u211d",
        "İstanbul",
        "Straße",
        "ignored",
        "xyzzy",
        "merge",
    ),
)
CODE: Final = (
    "def f(x):\n    return x ** 2\n",
    '{"k": [1, 2.5e-3, null], "s": "a\\nb"}',
    "if (a && b || !c) { i += 1; }",
    "<div class='x'>&nbsp;</div>",
    "https://example.com/a?b=1&c=%20#d",
    "user@example.org",
    "| a | b |\n|---|---|\n",
    "```py\npass\n```\n",
    "- [x] done\n  - [ ] not\n",
    "$x^2 + y_1 = \\frac{1}{2}$",
    "10:30, 2024-01-31, 1,234,567.89, 0xFF, 1e-10, v1.2.3",
    '#!/bin/sh\n\tls -la | grep "^d" > /dev/null 2>&1\r\n',
    "…—–·•",  # noqa: RUF001
    "«“”‘’»、。「」！？",  # noqa: RUF001
)
SPECIALS: Final = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "<tool>"),
    *("<|begin_of_text|>", "<|eot_id|>", "<｜end▁of▁sentence｜>", "<fim_prefix>", "[INST]", "<0x0A>", "<0xE2>"),  # noqa: RUF001
    *(
        "▁",
        "Ġ",
        "Ċ",
        "<|im_",
        "|>",
        "<",
    ),
)


def pick(chance: random.Random, values: Sequence[T]) -> T:
    """One of the values."""
    return values[chance.randrange(len(values))]


def _between(chance: random.Random, ends: tuple[int, int]) -> str:
    return chr(ends[0] + chance.randrange(ends[1] - ends[0] + 1))


def _script(chance: random.Random) -> str:
    block = pick(chance, BLOCKS)
    return "".join(_between(chance, block) for _ in range(1 + chance.randrange(8)))


def _any_code_points(chance: random.Random) -> str:
    codes = [chance.randrange(pick(chance, (0x300, 0x3000, 0x10000, 0x110000))) for _ in range(1 + chance.randrange(6))]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def _spaces(chance: random.Random) -> str:
    return "".join(pick(chance, SPACES) for _ in range(1 + chance.randrange(pick(chance, (1, 1, 2, 5)))))


def _numbers(chance: random.Random) -> str:
    start = pick(chance, NUMBER_STARTS + NUMBER_STARTS_BEYOND)
    return "".join(chr(start + chance.randrange(10)) for _ in range(1 + chance.randrange(pick(chance, (1, 4, 12)))))


def _marked(chance: random.Random) -> str:
    letter = "" if chance.random() < 0.2 else _between(chance, pick(chance, BLOCKS))
    ranges = MARKS + MARKS_BEYOND
    return letter + "".join(_between(chance, pick(chance, ranges)) for _ in range(1 + chance.randrange(3)))


def _contraction(chance: random.Random) -> str:
    return pick(chance, APOSTROPHES) + pick(chance, CONTRACTIONS) + pick(chance, ("", "", " ", "a", "'", "1"))


def _run(chance: random.Random) -> str:
    part = pick(chance, (_script, _spaces, _numbers, _marked, _emoji, _punctuation, _any_code_points))(chance)
    return part * (2 + chance.randrange(pick(chance, (4, 4, 20, 120))))


def _emoji(chance: random.Random) -> str:
    return pick(chance, EMOJI)


def _punctuation(chance: random.Random) -> str:
    return "".join(pick(chance, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(1 + chance.randrange(4)))


def _word(chance: random.Random) -> str:
    return pick(chance, ("", " ", " ", " ")) + pick(chance, WORDS)


def _one_of(values: Sequence[str]) -> Maker:
    return lambda chance: pick(chance, values)


MAKERS: Final[Sequence[Maker]] = (
    _script,
    _script,
    _script,
    _any_code_points,
    _spaces,
    _spaces,
    _spaces,
    _numbers,
    _numbers,
    _marked,
    _contraction,
    _run,
    _emoji,
    _punctuation,
    _word,
    _word,
    _word,
    _one_of(CODE),
    _one_of(INVISIBLE),
    _one_of(SPECIALS),
)


def texts(count: int, seed: int) -> Iterator[str]:
    """`count` texts of one to a few hundred characters."""
    chance = random.Random(seed)
    for _ in range(count):
        # Few makers a text, so that the same kinds meet often.
        makers = [pick(chance, MAKERS) for _ in range(1 + chance.randrange(4))]
        parts = [pick(chance, makers)(chance) for _ in range(1 + chance.randrange(pick(chance, (3, 8, 24))))]
        yield "".join(parts)


def code_points() -> Iterator[str]:
    """Texts that hold every code point of the first two planes and of the other blocks that are not all letters or all
    nothing, each beside a letter, a space, a digit, a mark and a punctuation mark."""
    for first, last in ((0, 0x20000), (0x2A6C0, 0x2B740), (0x2F800, 0x2FA40), (0xE0000, 0xE0200), (0x10FFE0, 0x110000)):
        for start in range(first, last, 32):
            chars = [chr(code) for code in range(start, start + 32) if not 0xD800 <= code < 0xE000]
            if chars:
                yield "".join(f"a{char} {char}1{char}{char}.{char}\u0301\n{char}" for char in chars)
