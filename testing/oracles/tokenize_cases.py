"""Texts on which tokenizers differ: many languages, every kind of character, special tokens, and seeded nonsense."""

from __future__ import annotations

import random
from collections.abc import Iterator

LANGUAGES = (
    "The quick brown fox jumps over the lazy dog; it didn't mind, and they'll say so.",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë.",
    "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg.",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία.",
    "いろはにほへと ちりぬるを。色は匂へど散りぬるを、カタカナも。",
    "我能吞下玻璃而不伤身体。敏捷的棕色狐狸跳过了懒狗！",  # noqa: RUF001
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश",
    "นายสังฆภัณฑ์ เฮงพิทักษ์ฝั่ง ผู้เฒ่าซึ่งมีอาชีพเป็นฅนขายฃวด",
    "Đùa vui thôi, ngày mai chúng ta sẽ gặp nhau.",
    "ಇದು ಒಂದು ಪರೀಕ್ಷೆ, அனைவருக்கும் வணக்கம், ఇది పరీక్ష",
    "Þegiðu og hlustaðu; åtta små öar, æbleskiver på Ærø.",
    "ᚠᛇᚻ᛫ᛒᛦᚦ᛫ᚠᚱᚩᚠᚢᚱ 𐍈 𓀀 𝕳𝖊𝖑𝖑𝖔 ﬁ ﷺ",  # noqa: RUF001
)

CHARACTERS = (
    "",
    " ",
    "a",
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "a\x00b",
    "\x01\x02\x1b[31mred\x1b[0m\x7f",
    "\x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000",
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e",
    "\x1c\x1d\x1e\x1f",
    "é e\u0301 n\u0303 a\u0300\u0301\u0302 \u0301 \u20dd1\u20e3",
    "👍 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ❤️ ☺ 🤷🏻‍♂️",
    "\ufffd \ufffe \uffff \U0001ffff \U0010ffff \ue000",
    "½ ² ³ ① Ⅷ ৪ ٤ ๓ 一 百 ₂ 𝟗",  # noqa: RUF001
    "$100 €5 £3 ¥7 ₿ + − × ÷ = ≠ ± ∞ √ ∑ ∫",  # noqa: RUF001
    "«a» “b” ‘c’ „d“ ‹e› 「f」 【g】 ¿h? ¡i!",  # noqa: RUF001
    "don't I'll we've you're he's I'm she'd DON'T I'LL WE'VE 's 't ' 're'll",
    "it’s don’t ‘em",  # noqa: RUF001
    "0 1 12 123 1234 12345 3.14159 1e-10 0x1F 1,000,000 2024-01-31 v1.2.3",
    "12345678901234567890",
    "a1b2c3 1a2b3c x86_64 utf8 R2D2 H2O",
    "camelCase PascalCase snake_case kebab-case SCREAMING_CASE dot.case",
    "https://example.com/path?query=1&other=two#fragment user@example.org",
    "{\"key\": [1, 2.5, null, true], 'x': {}}",
    "def f(x):\n    if x > 0:\n        return x ** 2  # square\n\n\treturn -x\n",
    'int main() { printf("%d\\n", 42); return 0; } // <> && || ->',
    "<html><body class='a'>&nbsp;&amp;</body></html>",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n- y\n\n```py\npass\n```",
    "  leading",
    "trailing  ",
    "in  the   middle    of     it",
    " \n \n\n \t\n\n\n",
    "a \n b\n c \r\n\r\n d",
    "....... ?!?! --- *** ### /// \\\\\\ ~~~",
    "." * 200,
    " " * 1000,
    "\n" * 500,
    "\t \t " * 100,
    "a" * 700,
    "ab" * 300,
    "1" * 300,
    "é" * 200,
    "漢" * 200,
    "😀" * 100,
    "\u0301" * 100,
    "x" * 47 + " " + "y" * 48 + " " + "z" * 49,
    "Pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" * 8,
)

SPECIALS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b<|im_end|><|im_end|> c",
    "<|im_start|><|im_start|>",
    "<|im_start|",
    "<|im_start|>>",
    "<<|im_start|>|>",
    "< |im_start|>",
    "<|IM_START|>",
    " <|im_start|> ",
    "<repo_name>x<filename>y<gh_stars>z<issue_start><jupyter_code>",
    "<reponame><file_sep><empty_output>",
    "<repo_name",
    "\u00e9<|im_end|>\u00e9",
    "<|im_end|>1<|im_end|>\n<|im_end|>'s",
    "<s></s>[INST][/INST]<pad><unk>",
    "Ġ Ċ ĉ Ã© ▁",
)

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz     ",
    "ABCabc123 \n\t'.,!?-_",
    " \t\n\r\x0b\x0c\x85\xa0\u2003\u3000ab1.",
    "0123456789 .,:-/",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ a1",
    "абвгдеёжзийклмнопрст АБВ",
    "漢字かなカナ한글เทยहिन्दीعربيעברית ",
    "😀🎉👍🏽\u200d❤️🇩🇪 ",
    "aé\u0301\u0300ñ\u0303 \u20e3",
    "<|im_start|>im_end<>| ",
    "'sStTrReEvVlLmMdD ",
)


def _any_characters(chance: random.Random, count: int) -> str:
    codes: list[int] = []
    while len(codes) < count:
        code = chance.randrange(0x110000 if chance.random() < 0.3 else 0x3000)
        if not 0xD800 <= code < 0xE000:
            codes.append(code)
    return "".join(map(chr, codes))


def nonsense(count: int = 220, seed: int = 11192) -> Iterator[str]:
    """Seeded random texts of up to 60 characters, from alphabets that provoke the splitters and from all of Unicode."""
    chance = random.Random(seed)
    for index in range(count):
        length = chance.randrange(1, 60)
        if index % 5 == 4:
            yield _any_characters(chance, length)
        else:
            alphabets = chance.sample(_ALPHABETS, chance.choice((1, 1, 2, 3)))
            yield "".join(chance.choice(chance.choice(alphabets)) for _ in range(length))


def texts() -> list[str]:
    """All of them, in the order of the record."""
    return [*LANGUAGES, *CHARACTERS, *SPECIALS, *nonsense()]
