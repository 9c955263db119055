"""Parsing expressions as GBNF, as llama-server b11192 writes them (`common/peg-parser.cpp`, `common/trie.cpp`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from engine.chat_formats.peg import (
    Any,
    Atomic,
    Chain,
    Chars,
    Choice,
    Including,
    Literal,
    Parser,
    Peek,
    Reference,
    Repeat,
    Rule,
    Schema,
    Space,
    StringContent,
    Tag,
    Until,
    WrittenAs,
)
from engine.chat_formats.rule_order import map_order
from engine.json_schema import literal as gbnf_literal
from engine.json_schema.nodes import Node


class Grammar(Protocol):
    """Where rules go; `engine.json_schema.GrammarBuilder` is one."""

    def add_rule(self, name: str, rule: str, /) -> str: ...
    def add_schema(self, name: str, schema: object, /) -> str: ...
    def add_node(self, name: str, node: Node, /) -> str: ...


def add_grammar(grammar: Grammar, root: Parser, rules: Mapping[str, Rule], *, lazy: bool = False) -> None:
    """Add the rules that `root` needs, and `root` as the rule of that name.

    Args:
        lazy: only what begins at a trigger; `root` is then any of the rules that trigger.

    Raises:
        InvalidRequest: a schema that cannot be.
    """
    reachable: set[str] = set()
    triggers = sorted(name for name, rule in rules.items() if rule.triggers)
    for start in [rules[name].part for name in triggers] if lazy else [root]:
        _collect(start, reachable)
    if lazy:
        reachable |= set(triggers)
    writer = _Writer(grammar)
    for name in (name for name in map_order(rules) if name in reachable):
        grammar.add_rule(name, writer.text(rules[name].part))
    grammar.add_rule("root", " | ".join(triggers) if lazy else writer.text(root))


def _collect(parser: Parser, found: set[str]) -> None:
    """The names of the rules that an expression refers to."""
    if isinstance(parser, Reference):
        if parser.name not in found:
            found.add(parser.name)
            _collect(parser.rule.part, found)
    elif isinstance(parser, Chain | Choice):
        for part in parser.parts:
            _collect(part, found)
    elif isinstance(parser, Repeat | Peek | Tag | Atomic | Schema | Including | WrittenAs):
        _collect(parser.part, found)


class _Writer:
    """Writes expressions; those that need rules of their own add them."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar

    def text(self, parser: Parser) -> str:
        """An expression as GBNF, "" for one that only looks."""
        match parser:
            case Literal():
                return gbnf_literal(parser.literal)
            case Chain():
                written = ((part, self.text(part)) for part in parser.parts)
                return " ".join(_grouped(part, text, (Choice, Chain)) for part, text in written if text)
            case Choice():
                joined = ""
                for part in parser.parts:
                    joined += (" | " if joined else "") + _grouped(part, self.text(part), (Choice,))
                return joined
            case Repeat():
                text = _grouped(parser.part, self.text(parser.part), (Choice, Chain))
                return text + _count(parser.least, parser.most)
            case Any():
                return "."
            case Space():
                return "space"
            case Chars():
                return parser.pattern + _count(parser.least, parser.most)
            case StringContent():
                other = rf"[^{parser.delimiter}\\]"
                escape = rf'"\\" ( [{parser.delimiter}\\/ bfnrt] | "u" [0-9a-fA-F]{{4}} )'
                return f"( {other} | {escape} )*"
            case Until():
                if not parser.delimiters:
                    return ".*"
                return self._automaton(f"until-{parser.number}", parser.delimiters, _before_any)
            case Including():
                return self._automaton(f"ac-{parser.number}", parser.delimiters, _through_any)
            case WrittenAs():
                return parser.gbnf
            case Schema():
                if isinstance(parser.schema, Node):
                    return self._grammar.add_node(parser.name, parser.schema)
                return self._grammar.add_schema(parser.name, parser.schema)
            case Reference():
                return parser.name
            case Tag() | Atomic():
                return self.text(parser.part)
        return ""

    def _automaton(self, name: str, words: Sequence[str], rule: _StateRule) -> str:
        """Rules for texts and the `words` in them; the name of the first rule.

        One rule for each state of the automaton that looks for the words: how much of one has just been read.
        """
        automaton = _Automaton(words)

        def rule_of(state: int) -> str:
            return f"{name}-{state:02d}" if state else name

        for state in automaton.unfinished():
            moves: dict[int, str] = {}
            special = ending = ""
            for char in automaton.alphabet:
                target = automaton.step(state, char)
                if automaton.ends_word[target]:
                    ending += _escaped(char)
                elif target:
                    moves[target] = moves.get(target, "") + _escaped(char)
                special += _escaped(char) if target else ""
            steps = [f"[{chars}] {rule_of(target)}" for target, chars in sorted(moves.items())]
            self._grammar.add_rule(rule_of(state), rule([*steps, f"[^{special}] {rule_of(0)}"], ending))
        if automaton.ends_word[0]:
            self._grammar.add_rule(name, "|")
        return rule_of(0)


_StateRule: TypeAlias = Callable[[Sequence[str], str], str]
"""What may follow in a state: makes a rule of the steps to states in which no word ends, and of the characters that
end a word.
"""


def _before_any(steps: Sequence[str], ending: str) -> str:
    """The text may end anywhere; no word may."""
    return "| " + " | ".join(steps)


def _through_any(steps: Sequence[str], ending: str) -> str:
    """The text ends with the first word."""
    return " | ".join([f"[{ending}]", *steps] if ending else steps)


def _grouped(part: Parser, text: str, kinds: tuple[type[Parser], ...]) -> str:
    """The text of a part in parentheses, where what it stands for is of one of the kinds."""
    while isinstance(part, Tag | Atomic):
        part = part.part
    return f"({text})" if isinstance(part, kinds) else text


def _count(least: int, most: int) -> str:
    usual = {(0, 1): "?", (0, -1): "*", (1, -1): "+", (1, 1): ""}
    if (least, most) in usual:
        return usual[least, most]
    if least == most:
        return f"{{{least}}}"
    return f"{{{least},{'' if most < 0 else most}}}"


_CONTROLS: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(char: str) -> str:
    """A character as it stands in a class."""
    if char in "-][\\":
        return "\\" + char
    if char in _CONTROLS:
        return _CONTROLS[char]
    code = ord(char)
    if 0x20 <= code <= 0x7E:
        return char
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


class _Automaton:
    """Aho and Corasick's automaton: its states are beginnings of the words, numbered as they come up.

    Attributes:
        alphabet: the characters of the words, ascending.
        ends_word: for each state, whether a word ends there, or one within what was read.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self.ends_word = [False]
        for word in words:
            self._add(word)
        self.alphabet = sorted({char for word in words for char in word})
        self._fall = [0] * len(self._next)
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            for char, target in self._next[state].items():
                self._fall[target] = self.step(self._fall[state], char)
                waiting.append(target)
            self.ends_word[state] |= self.ends_word[self._fall[state]]

    def _add(self, word: str) -> None:
        state = 0
        for char in word:
            if char not in self._next[state]:
                self._next[state][char] = len(self._next)
                self._next.append({})
                self.ends_word.append(False)
            state = self._next[state][char]
        self.ends_word[state] = True

    def unfinished(self) -> list[int]:
        """The states in which no word has ended."""
        return [state for state, ends in enumerate(self.ends_word) if not ends]

    def step(self, state: int, char: str) -> int:
        """The state after one more character."""
        while state and char not in self._next[state]:
            state = self._fall[state]
        return self._next[state].get(char, 0)
