"""Streams of named events, which OpenAI's Responses API and Anthropic's Messages API have: what the two share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from engine.chat_formats.messages import ChatMessage, MessageDelta
from engine.chat_formats.reader import AnswerReader
from engine.generation import Step

Event = tuple[str, dict[str, Any]]
"""An event's name and its data."""


def event(name: str, **data: Any) -> Event:
    """An event; its data says its name too, first."""
    return name, {"type": name, **data}


class NamedEvents(Protocol):
    """The events of one stream."""

    def text_of(self, step: Step) -> str:
        """The text this step puts on the wire; asked once a step, before its events."""
        ...

    def of_step(self, step: Step) -> Iterator[Event]:
        """The events of one step that `text_of` has read, but for the stream's last."""
        ...

    def last(self, receipt: Mapping[str, Any] | None = None) -> Event:
        """The answer's last event. The receipt is in it, for clients know no event that holds nothing else."""
        ...


class StepReader:
    """Reads a chat answer's steps.

    Args:
        reader: reads the answer's text.

    Attributes:
        deltas: what the last step added to the message. What only the answer's end shows to be there is in it too.
    """

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self.deltas: list[MessageDelta] = []

    @property
    def message(self) -> ChatMessage:
        """What has come."""
        return self._reader.message

    def read(self, step: Step) -> str:
        """Read a step's text; returns what it puts on the wire, reasoning and content.

        Raises:
            UnexpectedAnswer: the answer is not of its form.
        """
        self.deltas = self._reader.add(step.text) if step.send or step.progress is not None else []
        if step.final is not None:
            self.deltas = [*self.deltas, *self._reader.end()]
        return "".join(delta.text for delta in self.deltas)
