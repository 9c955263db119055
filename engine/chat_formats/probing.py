"""Probing a template: rendering small conversations and looking at what differs.

The conversations are those of llama-server b11192's `chat-diff-analyzer.cpp`. Their words matter, for a template may
look for words, and the white space around them is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from engine.chat_formats.markers import Difference, difference
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.peg_results import MATCH, Result

Message = dict[str, Any]

FIRST_FUNCTION: Final = "FFF_FIRST_FUN_F"
SECOND_FUNCTION: Final = "SSS_SECOND_FUN_S"
FIRST_ARGUMENT: Final = "AA_ARG_FST_AA"
SECOND_ARGUMENT: Final = "BB_ARG_SND_BB"
ANSWER: Final = "A_ASST_MSG I can help END_A"
THOUGHT: Final = "REASON_PART I am thinking END_R"
CALL_ID: Final = "call00001"
SECOND_CALL_ID: Final = "call00002"
OTHER_CALL_ID: Final = "call99999"

USER: Final[Message] = {"role": "user", "content": "U_USER_MSG Hello END_U"}


class Renderer(Protocol):
    """What is probed; `engine.chat_template.ChatTemplate` is one."""

    @property
    def source(self) -> str: ...

    def render_probe(self, messages: Sequence[Message], /, **variables: Any) -> str | None:
        """The prompt of a conversation as it stands, None when the template refuses it."""
        ...


def _tool(name: str, description: str) -> Message:
    properties = {
        FIRST_ARGUMENT: {"type": "string", "description": "First argument"},
        SECOND_ARGUMENT: {"type": "string", "description": "Second argument"},
    }
    parameters = {"type": "object", "properties": properties, "required": []}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: Final = (_tool(FIRST_FUNCTION, "Test function foo"), _tool(SECOND_FUNCTION, "Test function bar"))


def call(name: str, arguments: Message, call_id: str = CALL_ID) -> Message:
    """A tool call."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(content: str | None = ANSWER, **more: Any) -> Message:
    """An assistant's message."""
    return {"role": "assistant", "content": content, **more}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two renderings and their difference; the left one is that of the first conversation."""

    left: str
    right: str
    difference: Difference


def compare(
    template: Renderer, left: Sequence[Message], right: Sequence[Message], *, tools: bool = False
) -> Comparison | None:
    """Render two conversations, with thinking on.

    Args:
        tools: both have `TOOLS`.
    """
    more = {"tools": list(TOOLS)} if tools else {}
    return compared(*(template.render_probe(messages, enable_thinking=True, **more) for messages in (left, right)))


def compared(left: str | None, right: str | None) -> Comparison | None:
    """Two renderings side by side; None when the template refused one."""
    if left is None or right is None:
        return None
    return Comparison(left, right, difference(left, right))


Make = Callable[[Builder], Parser]


def marker(builder: Builder) -> Parser:
    """`<...>` or `[...]`."""
    return builder.choice(
        builder.sequence(builder.literal("<"), builder.until(">"), builder.literal(">")),
        builder.sequence(builder.literal("["), builder.until("]"), builder.literal("]")),
    )


def marker_and_space(builder: Builder) -> Parser:
    """A marker and the white space behind it."""
    return builder.sequence(marker(builder), builder.space())


def tags_at_start(make: Make, text: str) -> dict[str, str] | None:
    """The tagged parts of a text by name, the last of each; None when the text does not match from its start."""
    return _tags(make(Builder()).match(text, 0, False))


def tags_anywhere(make: Make, text: str) -> dict[str, str] | None:
    """As `tags_at_start`, at the first place where the text matches."""
    parser = make(Builder())
    for at in range(max(1, len(text))):
        tags = _tags(parser.match(text, at, False))
        if tags is not None:
            return tags
    return None


def _tags(result: Result) -> dict[str, str] | None:
    if result.kind != MATCH:
        return None
    return {part.tag: part.text for capture in result.captures for part in capture.walk()}
