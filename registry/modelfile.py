"""Ollama's Modelfile: read and written as its `parser/parser.go` does, state for state.

A line is an instruction and its value: `FROM llama3`, `SYSTEM You are Mario.`, `PARAMETER temperature 0.7`,
`MESSAGE user Hello`. `#` opens a comment at a line's start only. A value ends with its line, unless it opens with one
`"` or three: then it ends at as many at a line's end. Nothing is escaped. Characters that do not print are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from registry.errors import RegistryError

_INSTRUCTIONS: Final = (
    *("from", "license", "template", "system", "adapter", "draft", "renderer", "parser", "parameter", "message"),
    "requires",
)
_QUOTED: Final = ("license", "template", "system", "adapter", "renderer", "parser", "requires", "draft")
_ROLES: Final = ("system", "user", "assistant")
_BLANK: Final = " \t\r\n"
_NOTHING: Final = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*){1,1000}+")
"""Between two instructions: blanks, and comments. Not all at once: the match lets no other thread run."""
_QUOTES: Final = '"""'
_NEWLINE: Final = re.compile(r"[\r\n]")
_WORD: Final = re.compile(r"[A-Za-z]*")
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_]*")
_BAD_INSTRUCTION: Final = (
    'command must be one of "from", "license", "template", "system", "adapter", "draft", "renderer", "parser", '
    '"parameter", "message", or "requires"'
)
_BAD_ROLE: Final = 'message role must be one of "system", "user", or "assistant"'
_CUT: Final = "unexpected EOF"
_MOST: Final = 10_000
"""Instructions of a Modelfile at most."""


class ModelfileError(RegistryError):
    """A Modelfile that cannot be read; the message is Ollama's."""


@dataclass(frozen=True, slots=True)
class Command:
    """One instruction, as Ollama's parser has it.

    Args:
        name: the instruction in lower case, but `model` for FROM, and for PARAMETER the parameter's own name.
        args: its value; of a MESSAGE, `role: content`.
    """

    name: str
    args: str

    def __str__(self) -> str:
        """The instruction's line, without its end."""
        if self.name == "model":
            return f"FROM {self.args}"
        if self.name in _QUOTED:
            return f"{self.name.upper()} {quote(self.args)}"
        if self.name == "message":
            role, _, content = self.args.partition(": ")
            return f"MESSAGE {role} {quote(content)}"
        return f"PARAMETER {self.name} {quote(self.args)}"


def parse(data: bytes | str) -> list[Command]:
    """The instructions of a Modelfile, in order.

    Args:
        data: its bytes: UTF-8, or UTF-16 behind a byte order mark; what is neither becomes U+FFFD. Or its text.

    Raises:
        ModelfileError: it is not one, or has no FROM.
    """
    commands = _Parser(data if isinstance(data, str) else _decoded(data)).commands()
    if not any(command.name == "model" for command in commands):
        raise ModelfileError("no FROM line")
    return commands


def write(commands: Iterable[Command]) -> str:
    """A Modelfile with these instructions, a line each (values may have more)."""
    return "".join(f"{command}\n" for command in commands)


def quote(value: str) -> str:
    """A value as a Modelfile has it.

    As Ollama writes it wherever that is read back as the same value; a value that Ollama's form would change (one that
    begins with a quote, say) gets the quotes that keep it, if any do.
    """
    quoted = (f"{_QUOTES}{value}{_QUOTES}", f'"{value}"')
    bare = "\n" not in value and " " not in (value[:1], value[-1:])
    usual = value if bare else quoted[0] if '"' in value else quoted[1]
    forms = (usual, *quoted)
    return next((form for form in forms if _read_back(form) == value), usual)


def _read_back(form: str) -> str | None:
    """What a value's written form is read as; None when it does not end where the form does."""
    try:
        value, end = _Parser(f"{form}\n").value(0)
    except ModelfileError:
        return None
    return value if end == len(form) else None


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _printed(text: str) -> str:
    """`text` without what does not print; spaces and tabs stay."""
    if text.isprintable():
        return text
    return "".join(character for character in text if character.isprintable() or character == "\t")


class _Parser:
    """The states of Ollama's parser as methods, each of which reads on from an index into the text.

    Args:
        text: the whole Modelfile.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def commands(self) -> list[Command]:
        """Every instruction."""
        text, at = self._text, 0
        found: list[Command] = []
        while at < len(text):
            if (end := self._matched(_NOTHING, at)) > at:
                at = end
                continue
            if len(found) == _MOST:
                raise ModelfileError(f"more than {_MOST} instructions are not supported")
            command, at = self._command(at)
            found.append(command)
        return found

    def _command(self, at: int) -> tuple[Command, int]:
        name, at = self._name(at)
        if name == "parameter":
            name, at = self._word(at, _PARAMETER)
            value, at = self.value(at)
            return Command(name, value), at
        if name == "message":
            role, at = self._word(at, _WORD)
            if role not in _ROLES:
                raise self._error(at - 1, _BAD_ROLE)
            value, at = self.value(at)
            return Command(name, f"{role}: {value}"), at
        value, at = self.value(at)
        return Command("model" if name == "from" else name, value), at

    def _name(self, at: int) -> tuple[str, int]:
        """An instruction and the index behind the blank that ends it. Its first character may be anything."""
        end = self._matched(_WORD, at + 1)
        name = (_printed(self._text[at]) + self._text[at + 1 : end]).lower()
        if end == len(self._text):
            raise ModelfileError(_CUT)
        if self._text[end] not in " \t" or name not in _INSTRUCTIONS:
            raise self._error(end, _BAD_INSTRUCTION)
        return name, end + 1

    def _word(self, at: int, form: re.Pattern[str]) -> tuple[str, int]:
        """A parameter's name or a role, and the index behind the blank that ends it."""
        end = self._matched(form, at)
        word = self._text[at:end]
        if end == len(self._text):
            raise ModelfileError(_CUT)
        if self._text[end] not in " \t":
            raise ModelfileError(f"{_CUT}: {word}")
        return word, end + 1

    def value(self, at: int) -> tuple[str, int]:
        """A value, and the index of the newline that ends it (or of the text's end)."""
        first = self._line_end(at)
        line = _printed(self._text[at:first]).strip(_BLANK)
        if not line.startswith('"'):
            return line, first
        marks = _QUOTES if line.startswith(_QUOTES) else '"'
        if len(line) >= 2 * len(marks) and line.endswith(marks):
            return line[len(marks) : -len(marks)], first
        parts = [_printed(self._text[at:first]).lstrip(_BLANK)[len(marks) :]]
        while first < len(self._text):
            end = self._line_end(first + 1)
            line = _printed(self._text[first + 1 : end])
            parts.append(self._text[first])
            if line.rstrip(_BLANK).endswith(marks):
                parts.append(line.rstrip(_BLANK)[: -len(marks)])
                return "".join(parts), end
            parts.append(line)
            first = end
        raise ModelfileError(_CUT)

    def _line_end(self, at: int) -> int:
        found = _NEWLINE.search(self._text, at)
        return found.start() if found else len(self._text)

    def _matched(self, form: re.Pattern[str], at: int) -> int:
        found = form.match(self._text, at)
        return found.end() if found else at

    def _error(self, at: int, reason: str) -> ModelfileError:
        """An error in the line that the character at `at` ends or is in; each of a CRLF counts, as in Ollama."""
        return ModelfileError(f"(line {1 + len(_NEWLINE.findall(self._text, 0, at + 1))}): {reason}")
