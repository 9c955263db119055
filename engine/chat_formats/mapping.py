"""The parts that a parser reports, put together into a message (llama-server b11192's `common_chat_peg_mapper`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from engine.chat_formats import parts
from engine.chat_formats.call_values import json_of, open_braces, quoted
from engine.chat_formats.messages import ChatMessage, ToolCall
from engine.chat_formats.peg import SPACE
from engine.chat_formats.peg_results import Capture

_BLANK: Final = " \t\n\r"  # what is no reasoning


def message_of(captures: Iterable[Capture]) -> ChatMessage:
    """The message that the outermost captures of an answer make, be they partial."""
    mapper = _Mapper()
    for outer in captures:
        for capture in outer.walk():
            mapper.add(capture)
    return mapper.message()


@dataclass(slots=True)
class _Call:
    """A call on its way."""

    name: str = ""
    arguments: str = ""
    id: str = ""


class _Mapper:
    """Reads captures in their order.

    A call counts from its name on, so that a stream never sends one without. Arguments come as one JSON object, or
    name by name: then they are put together here, and a string that has begun is open until its end comes.
    """

    def __init__(self) -> None:
        self._texts = {parts.REASONING: "", parts.CONTENT: ""}
        self._calls: list[_Call] = []
        self._call: _Call | None = None
        self._unnamed = False  # the call is not among the calls yet
        self._early = ""  # arguments that came before the name
        self._n_arguments = 0
        self._in_string = False

    def add(self, capture: Capture) -> None:
        """One more part."""
        if capture.tag in self._texts:
            self._texts[capture.tag] += capture.text
        elif capture.tag == parts.CALL_OPEN:
            self._call, self._unnamed = _Call(), True
            self._early, self._n_arguments, self._in_string = "", 0, False
        elif capture.tag == parts.ARGUMENT_OPEN:
            self._in_string = False
        elif self._call is not None and capture.tag in _READERS:
            _READERS[capture.tag](self, self._call, capture.text)

    def message(self) -> ChatMessage:
        """What there is."""
        reasoning = self._texts[parts.REASONING]
        calls = tuple(ToolCall(call.name, call.arguments, call.id) for call in self._calls)
        return ChatMessage(self._texts[parts.CONTENT], reasoning if reasoning.strip(_BLANK) else "", calls)

    def _id(self, call: _Call, text: str) -> None:
        text = text.rstrip(SPACE)
        call.id = text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text

    def _name(self, call: _Call, text: str) -> None:
        call.name = text.rstrip(SPACE)
        if self._early:
            call.arguments, self._early = self._early, ""
        elif not call.arguments:
            call.arguments = "{"
        if self._unnamed:
            self._calls.append(call)
            self._unnamed = False

    def _arguments(self, call: _Call, text: str) -> None:
        text = text.rstrip(SPACE)
        if text.startswith("{"):
            self._set(call, text)

    def _argument_name(self, call: _Call, text: str) -> None:
        comma = "," if self._n_arguments else ""
        self._n_arguments += 1
        name = (text[1:] if text[:1] in SPACE else text).rstrip(SPACE) if text else ""
        self._set(call, f"{self._so_far(call) or '{'}{comma}{quoted(name)}:")

    def _argument_value(self, call: _Call, text: str) -> None:
        self._set(call, self._so_far(call) + json_of(text))

    def _argument_text(self, call: _Call, text: str) -> None:
        opening = "" if self._in_string and text else '"'
        self._in_string = True
        self._set(call, self._so_far(call) + opening + quoted(text)[1:-1])

    def _argument_close(self, call: _Call, text: str) -> None:
        if self._in_string:
            self._set(call, self._so_far(call) + '"')
            self._in_string = False

    def _close(self, call: _Call, text: str) -> None:
        if not call.name and self._early:
            call.arguments, self._early = self._early, ""
        if self._in_string:
            call.arguments += '"'
            self._in_string = False
        call.arguments += "}" * open_braces(call.arguments)
        self._unnamed = False

    def _so_far(self, call: _Call) -> str:
        return call.arguments if call.name else self._early

    def _set(self, call: _Call, arguments: str) -> None:
        if call.name:
            call.arguments = arguments
        else:
            self._early = arguments


_READERS: Final[Mapping[str, Callable[[_Mapper, _Call, str], None]]] = {
    parts.CALL_ID: _Mapper._id,
    parts.CALL_NAME: _Mapper._name,
    parts.ARGUMENTS: _Mapper._arguments,
    parts.ARGUMENT_NAME: _Mapper._argument_name,
    parts.ARGUMENT_VALUE: _Mapper._argument_value,
    parts.ARGUMENT_TEXT: _Mapper._argument_text,
    parts.ARGUMENT_CLOSE: _Mapper._argument_close,
    parts.CALL_CLOSE: _Mapper._close,
}
