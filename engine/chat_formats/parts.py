"""The names under which a parser reports the parts of a message, and expressions that report them."""

from __future__ import annotations

from typing import Final

from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder

REASONING: Final = "reasoning"
CONTENT: Final = "content"
CALL: Final = "tool"
CALL_OPEN: Final = "tool-open"
CALL_CLOSE: Final = "tool-close"
CALL_ID: Final = "tool-id"
CALL_NAME: Final = "tool-name"
ARGUMENTS: Final = "tool-args"
ARGUMENT: Final = "tool-arg"
ARGUMENT_OPEN: Final = "tool-arg-open"
ARGUMENT_CLOSE: Final = "tool-arg-close"
ARGUMENT_NAME: Final = "tool-arg-name"
ARGUMENT_VALUE: Final = "tool-arg-value"
"""JSON, or what a model wrote for it."""
ARGUMENT_TEXT: Final = "tool-arg-string-value"
"""The text of a string, as it is."""


def at_once(builder: Builder, tag: str, part: Parser) -> Parser:
    """A part that is reported when all of it is there: the ends of calls and arguments, names and ids."""
    return builder.atomic(builder.tag(tag, part))


def call_name(builder: Builder, name: str) -> Parser:
    """The name of a function."""
    return at_once(builder, CALL_NAME, builder.literal(name))
