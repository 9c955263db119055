"""What an answer says, cut into its parts, and what a stream adds to it piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError


class UnexpectedAnswer(EngineError):
    """The model's answer is not of the form its template gives answers."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        name: the tool's; "" in a delta that does not name it.
        arguments: JSON text; while a stream runs, as much of it as has come.
        id: the call's, "" for none.
    """

    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """An assistant's message.

    Attributes:
        content: the answer's text.
        reasoning: what the model thought before.
        tool_calls: the calls it makes, in order.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.content or self.reasoning or self.tool_calls)

    @property
    def text(self) -> str:
        """All that a receipt hashes: reasoning, content, then the arguments of each call."""
        return self.reasoning + self.content + "".join(call.arguments for call in self.tool_calls)


@dataclass(frozen=True, slots=True)
class MessageDelta:
    """What came to one part of a message; the texts are empty when a part lost some of its end.

    Attributes:
        tool_call_index: which call, None when it is another part.
        tool_call: what came to it: name, id and the arguments so far at first, later only more arguments.
    """

    content: str = ""
    reasoning: str = ""
    tool_call_index: int | None = None
    tool_call: ToolCall | None = None

    @property
    def text(self) -> str:
        """What a stream shows of it that the model wrote: of a call its arguments."""
        return self.reasoning + self.content + (self.tool_call.arguments if self.tool_call else "")


def deltas(old: ChatMessage, new: ChatMessage) -> list[MessageDelta]:
    """What a stream sends when a message has become another: reasoning, then content, then calls.

    The rules are those of llama-server b11192 (`common_chat_msg_diff`).

    Raises:
        UnexpectedAnswer: a part has become another text, or a call is gone.
    """
    found = []
    if old.reasoning != new.reasoning:
        found.append(MessageDelta(reasoning=_added(old.reasoning, new.reasoning)))
    if old.content != new.content:
        found.append(MessageDelta(content=_added(old.content, new.content)))
    if len(new.tool_calls) < len(old.tool_calls):
        raise UnexpectedAnswer(_fewer_calls(old, new))
    if old.tool_calls:
        last = len(old.tool_calls) - 1
        more = _more_of_call(old.tool_calls[last], new.tool_calls[last])
        found += [MessageDelta(tool_call_index=last, tool_call=more)] if more is not None else []
    for index in range(len(old.tool_calls), len(new.tool_calls)):
        found.append(MessageDelta(tool_call_index=index, tool_call=new.tool_calls[index]))
    return found


def _more_of_call(old: ToolCall, new: ToolCall) -> ToolCall | None:
    """What came to a call, None for nothing. A name may grow; then it is sent again, with the id."""
    if old.name and new.name and not new.name.startswith(old.name):
        raise UnexpectedAnswer("Invalid diff: tool call mismatch!")
    arguments = _added(old.arguments, new.arguments)
    if old.id != new.id or old.name != new.name:
        return ToolCall(new.name, arguments, new.id)
    return ToolCall(arguments=arguments) if arguments else None


def _fewer_calls(old: ChatMessage, new: ChatMessage) -> str:
    text = "Invalid diff: now finding less tool calls!\n"
    for title, message in (("Previous", old), ("Current", new)):
        text += f"  {title} ({len(message.tool_calls)}):\n"
        for call in message.tool_calls:
            text += f"    - name: '{call.name}', args: '{call.arguments}'\n"
    return f"{text}  Current msg text content:\n{new.content}\n"


def _added(old: str, new: str) -> str:
    if new.startswith(old):
        return new[len(old) :]
    if old.startswith(new):
        return ""
    raise UnexpectedAnswer(f"Invalid diff: '{old}' not found at start of '{new}'")
