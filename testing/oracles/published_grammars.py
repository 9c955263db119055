"""The reference's published cases of grammars, read from its own sources: texts that follow one, texts that do not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from engine.errors import InvalidRequest
from engine.grammar import GrammarParams, grammar_matcher
from engine.json_schema import json_schema_to_grammar
from testing.oracles.comparison import Group

CASES = Path("tests") / "test-grammar-integration.cpp"
# The vocabulary: some tokens that are asked for by their numbers, then one for each byte, then one that ends an answer.
_N_SPECIAL = 100
_END = _N_SPECIAL + 256
_SPECIAL = 0xF0000  # a character for each of the former, in the texts
_LEXEME = re.compile(
    r"""\s+ | //[^\n]* | \+ | R"(?P<fence>[^(]*)\((?P<raw>.*?)\)(?P=fence)" | "(?P<text>(?:\\.|[^"\\])*)"
    | token\((?P<token>\d+)\) | (?P<mark>[{},)])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """A grammar or a JSON schema, with texts that follow it and texts that do not."""

    name: str
    is_schema: bool
    source: str
    passing: Sequence[str]
    failing: Sequence[str]


def published_cases(sources: Path) -> Iterator[PublishedCase]:
    """The cases in the reference's unpacked sources: calls of `test_grammar` and `test_schema`."""
    code = (sources / CASES).read_text(encoding="utf-8")
    for call in re.finditer(r"^    test_(grammar|schema)\(", code, re.MULTILINE):
        name, source, passing, failing = _arguments(code, call.end())
        yield PublishedCase(name[0], call[1] == "schema", source[0], passing, failing)


def _arguments(code: str, at: int) -> list[list[str]]:
    """The arguments of a call, texts or lists of texts, each as a list; literals side by side are one text."""
    found: list[list[str]] = [[]]
    depth, joins = 0, False
    while True:
        lexeme = _LEXEME.match(code, at)
        assert lexeme is not None, code[at : at + 60]
        at = lexeme.end()
        mark = lexeme["mark"]
        if mark == ")":
            return found
        if mark is not None:
            depth += {"{": 1, "}": -1, ",": 0}[mark]
            joins = joins and mark != ","
            if mark == "," and depth == 0:
                found.append([])
            continue
        text = _text(lexeme)
        if text is not None:
            if not joins:
                found[-1].append("")
            found[-1][-1] += text
            joins = True


def _text(lexeme: re.Match[str]) -> str | None:
    """What a literal says; None for white space and the like."""
    if lexeme["token"] is not None:
        return chr(_SPECIAL + int(lexeme["token"]))
    return lexeme["raw"] if lexeme["text"] is None else _unescaped(lexeme["text"])


def _unescaped(literal: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), literal)


class _Bytes:
    """The vocabulary."""

    n_vocab = _END + 1
    eog = frozenset({_END})

    def piece(self, token: int, /, *, special: bool = False) -> bytes:
        if token < _N_SPECIAL:
            return f"<[{token}]>".encode()
        return b"" if token == _END else bytes([token - _N_SPECIAL])

    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        return [token for char in text for token in self._tokens(char)]

    def _tokens(self, char: str) -> list[int]:
        if ord(char) >= _SPECIAL:
            return [ord(char) - _SPECIAL]
        return [_N_SPECIAL + byte for byte in char.encode()]


_BYTES = _Bytes()


def compare(group: Group, sources: Path) -> None:
    """Every text against its grammar."""
    for case in published_cases(sources):
        for texts, follows in ((case.passing, True), (case.failing, False)):
            for text in texts:
                if _follows(case, text) is follows:
                    group.identical += 1
                else:
                    group.fail(case.name, f"{text!r} {'does not follow' if follows else 'follows'} {case.source!r}")


def _follows(case: PublishedCase, text: str) -> bool:
    grammar = json_schema_to_grammar(orjson.loads(case.source)).text if case.is_schema else case.source
    try:
        matcher = grammar_matcher(GrammarParams(grammar), _BYTES)
    except InvalidRequest:
        return False
    return all(matcher.accept(token) for token in _BYTES.encode(text)) and matcher.allows(_END)
