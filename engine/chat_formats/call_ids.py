"""Ids for calls whose format has none: 32 letters and digits at random, as llama-server makes them."""

from __future__ import annotations

import secrets
import string
from dataclasses import replace
from typing import Final

from engine.chat_formats.messages import ChatMessage

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


def random_id() -> str:
    """A new one."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(32))


class CallIds:
    """The ids of one answer's calls. What a call has when it is first seen stays, whatever comes later."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def added(self, message: ChatMessage) -> ChatMessage:
        """The message with an id at every call."""
        for call in message.tool_calls[len(self._ids) :]:
            self._ids.append(call.id or random_id())
        calls = [replace(call, id=known) for call, known in zip(message.tool_calls, self._ids, strict=False)]
        return replace(message, tool_calls=tuple(calls))
