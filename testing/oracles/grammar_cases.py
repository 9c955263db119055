"""Grammars that the reference and ours are asked about: written ones, random ones, and texts that are none."""

from __future__ import annotations

import random
from collections.abc import Iterator

WRITTEN = (
    'root ::= "yes" | "no"',
    'root ::= "a"*',
    'root ::= "ab"+ "c"?',
    'root ::= [a-z]{3} "-" [0-9]{2,4}',
    "root ::= [^a-z]{2,}",
    "root ::= .",
    "root ::= .*",
    'root ::= "" | "x"',
    "root ::= ",
    'root ::= "a" |',
    'root ::= ("a" | "b" ("c" | "d")*)+ # a comment\n# and more\n',
    'root ::= item ("," item)*\nitem ::= [0-9]+ | "[" root? "]"',
    'root ::= "caf\u00e9 " [\u00e0-\u00ff]+ [\U0001f300-\U0001f6ff]{0,3}',
    'root ::= "\\x41\\u00e9\\U0001F600\\t\\n\\r\\"\\\\\\[\\]\\-"',
    'root ::= [\\x00-\\x1f"\\\\\\]\\-] [a\\-z] [-a] [a-]',
    "root ::= [\u3040-\u30ff\u4e00-\u9fff]+",
    "root ::= [^\\x00-\\x7f]{1,5}",
    'root ::= [^\u4e00] "x"',
    'root ::= <[1]> "user" <[2]>',
    'root ::= "hi" <|im_end|> "\\n"?',
    "root ::= !<|im_end|>* <|im_end|>",
    'root ::= !<[2]>{1,3} "z"',
    'root ::= [a-z]+ <[2]> | "b" !<[5]>',
    "root ::= <[4000000000]> | <[49152]>",
    'root ::= a | b\na ::= "same"\nb ::= "same" "r"',
    'root ::= a\na ::= "first"\na ::= "second"',
    'root ::= "x" root | "y"',
    'root ::= "(" root ")" | "()"',
    'expr ::= term ([-+*/] term)*\nterm ::= [0-9]+ | "(" expr ")"\nroot ::= expr "=" expr',
    'root ::= object\nobject ::= "{" ws (pair ("," ws pair)*)? "}"\npair ::= string ":" ws value\n'
    'string ::= "\\"" ([^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\\"" ws\n'
    'value ::= object | array | string | number | ("true" | "false" | "null") ws\n'
    'array ::= "[" ws (value ("," ws value)*)? "]" ws\n'
    'number ::= "-"? ([0] | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,5})? ws\n'
    'ws ::= | " " | "\\n" [ \\t]{0,20}',
    'root ::= "a"{0}  "b"{0,0} "c"',
    'root ::= "a"{2}{3} [b-d]{1,2}{2}',
    'root ::= ("a"{2,3} "b"?){1,4}',
    'root ::= "a"{0,2000}',
    "root ::= [0-9]{0,3000}",
    'root ::= "the " ("quick " | "quickly " | "quicker ")? "brown" | "the end"',
    "root\t::= \r\n  'x'".replace("'", '"'),
    'root ::= (\n "a"\n | "b"\n)\n',
    'a-1 ::= "q"\nroot ::= a-1 A-1\nA-1 ::= "Q"\n\n\n',
)

NONE = (
    "# nothing",
    "root",
    "root :: = x",
    "root ::= x",
    'root ::= "x',
    "root ::= [a-z",
    "root ::= [a-",
    "root ::= (",
    'root ::= ("a"',
    'root ::= "a")',
    "root ::= *",
    'root ::= ""?',
    "root ::= +",
    'root ::= "a"{',
    'root ::= "a"{1',
    'root ::= "a"{1,',
    'root ::= "a"{,3}',
    'root ::= "a"{x}',
    'root ::= "a"{2001}',
    'root ::= ("a" "b"){1001}{2}',
    'root ::= "a"{99999999999999999999999}',
    'root ::= "\\q"',
    'root ::= "\\x4"',
    'root ::= "\\u12g4"',
    "root ::= <",
    "root ::= <[",
    "root ::= <[x]>",
    "root ::= <[1>",
    "root ::= <[1]",
    "root ::= <[4294967296]>",
    "root ::= <[99999999999999999999999]>",
    "root ::= <no such token>",
    "root ::= !",
    'root ::= !"a"',
    'start ::= "a"',
    'root ::= root "a"',
    'root ::= a\na ::= b\nb ::= a "x"',
    'root ::= a root "x"\na ::= "y" |',
    'root ::= ("a"*)*',
    'root ::= "a"\n "b"',
    'root ::= "a" ; "b"',
    '1 ::= "a"\nroot ::= 1 2',
    "root ::= _a",
    'root ::= a\nb ::= "x"\nb ::= c',
)

LAZY = (
    # grammar, triggers as patterns, whether the last token of the free text is one too (LAST in the grammar), that text
    ('root ::= "<call>" [a-z]+ "</call>"', ("<call>",), False, "I will <call>"),
    ('root ::= "<call>" [a-z]+ "</call>"', ("[\\s\\S]*?(<call>)[\\s\\S]*",), False, "one two <call>"),
    ('root ::= "{" [0-9]+ "}"', ("^\\s*(\\{)[0-9]*$",), False, "  {"),
    ("root ::= <[LAST]> [a-z ]+", ("never",), True, "What now"),
    ('root ::= "b" "c"{2}', ("a(b)", "x"), False, "aaab"),
    ('root ::= "ab" [0-9]', ("(z)?(a)b",), False, "so ab"),
)


def random_grammars(n: int, seed: int) -> Iterator[str]:
    """`n` grammars: most of them parse, some recurse on the left, some have a character changed."""
    draw = random.Random(seed)
    for _ in range(n):
        text = _grammar(draw)
        if draw.random() < 0.15:
            at = draw.randrange(len(text))
            text = (
                text[:at]
                + draw.choice(["", "*", '"', "(", "{2", "]", "<", "\n", "|", "\\"])
                + text[at + draw.randrange(2) :]
            )
        yield text


def _grammar(draw: random.Random) -> str:
    names = ["root", *draw.sample(["a", "b", "c-1", "D"], draw.randrange(4))]
    return "\n".join(f"{name} ::= {_alternatives(draw, names, 0)}" for name in names)


def _alternatives(draw: random.Random, names: list[str], depth: int) -> str:
    n = 1 if draw.random() < 0.5 else draw.randrange(2, 4)
    return " | ".join(_sequence(draw, names, depth) for _ in range(n))


def _sequence(draw: random.Random, names: list[str], depth: int) -> str:
    n = draw.choice([0, 1, 1, 2, 2, 3]) if draw.random() < 0.2 else draw.randrange(1, 4)
    return " ".join(_item(draw, names, depth) for _ in range(n))


def _item(draw: random.Random, names: list[str], depth: int) -> str:
    kind = draw.random()
    if kind < 0.4:
        item = (
            '"' + draw.choice(["a", "b", "the", " of", "\\n", "\u00e9", "\u65e5", "{", '\\"', "12", "\U0001f600"]) + '"'
        )
    elif kind < 0.7:
        item = draw.choice(
            ["[a-z]", "[^a-z]", "[0-9]", "[ab]", "[^\\x00-\\x7f]", "[\u4e00-\u9fff]", ".", "[^\u65e5a]", "[ \\t]"]
        )
    elif kind < 0.75:
        item = draw.choice(["<[2]>", "!<[2]>", "<[300]>", "<|im_start|>"])
    elif kind < 0.9 or depth > 2:
        item = draw.choice(names)
    else:
        item = f"({_alternatives(draw, names, depth + 1)})"
    return item + draw.choice(["", "", "", "", "*", "+", "?", "{2}", "{0,3}", "{1,2}", "{2,}"])
