"""An answer read piece by piece, and what each piece adds to the message."""

from __future__ import annotations

from engine.chat_formats.call_ids import CallIds
from engine.chat_formats.formats import ChatFormat
from engine.chat_formats.messages import ChatMessage, MessageDelta, deltas


class AnswerReader:
    """The message of a stream so far.

    Args:
        form: how the answer looks.
        begun: the beginning of a continued answer, which the prompt has, counts as sent.

    Attributes:
        message: what has come.

    Raises:
        UnexpectedAnswer: from any method, when the answer is not of the form.
    """

    def __init__(self, form: ChatFormat, *, begun: bool = False) -> None:
        self._form = form
        self._text = ""
        self._ids = CallIds()
        self.message = form.parse("", partial=True) if begun else ChatMessage()

    def add(self, text: str) -> list[MessageDelta]:
        """Read more of the answer."""
        self._text += text
        return self._read(partial=True)

    def end(self, text: str = "") -> list[MessageDelta]:
        """Read the last of the answer."""
        self._text += text
        return self._read(partial=False)

    def _read(self, *, partial: bool) -> list[MessageDelta]:
        message = self._ids.added(self._form.parse(self._text, partial=partial))
        if not message:
            return []
        found = deltas(self.message, message)
        self.message = message
        return found
