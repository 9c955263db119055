"""What an answer says, cut into its parts, and what a stream adds to it piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError


class UnexpectedAnswer(EngineError):
    """The model's answer is not of the form its template gives answers."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """An assistant's message.

    Attributes:
        content: the answer's text.
        reasoning: what the model thought before.
    """

    content: str = ""
    reasoning: str = ""

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.content or self.reasoning)


@dataclass(frozen=True, slots=True)
class MessageDelta:
    """What came to one part of a message; both are empty when a part lost some of its end."""

    content: str = ""
    reasoning: str = ""


def deltas(old: ChatMessage, new: ChatMessage) -> list[MessageDelta]:
    """What a stream sends when a message has become another: reasoning first, then content.

    Raises:
        UnexpectedAnswer: a part has become another text.
    """
    found = []
    if old.reasoning != new.reasoning:
        found.append(MessageDelta(reasoning=_added(old.reasoning, new.reasoning)))
    if old.content != new.content:
        found.append(MessageDelta(content=_added(old.content, new.content)))
    return found


def _added(old: str, new: str) -> str:
    if new.startswith(old):
        return new[len(old) :]
    if old.startswith(new):
        return ""
    raise UnexpectedAnswer(f"Invalid diff: '{old}' not found at start of '{new}'")
