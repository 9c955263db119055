"""What a talk in the terminal has agreed on: the model, what was said, and how to ask for more. No terminal here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.names import InvalidModelName, ModelName
from server.commands.errors import CommandError
from server.durations import go_duration

Message = dict[str, str]

THINK_LEVELS = ("high", "medium", "low", "max")


@dataclass(slots=True)
class Session:
    """A conversation and its settings.

    Attributes:
        model: the name to ask for.
        parent: what the model was made from, "" when nobody says.
        loaded: the messages the model itself begins with; the server puts them before the conversation's.
        messages: what was said so far, system messages among it.
        system: the system message that was set, "" for none.
        options: what `/set parameter` set.
        format: `json`, a JSON schema as text, or "".
        think: whether to think, or how much; None leaves it to the server.
        think_given: somebody chose `think`.
        keep_alive: how long the model stays, a duration of Go's; "" for the server's time.
        verbose: show what each answer measured.
        wordwrap: wrap answers.
        hide_thinking: do not show reasoning.
    """

    model: str
    parent: str = ""
    loaded: list[Message] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    system: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    format: str = ""
    think: bool | str | None = None
    think_given: bool = False
    keep_alive: str = ""
    verbose: bool = False
    wordwrap: bool = True
    hide_thinking: bool = False

    def adopt(self, model: str, shown: Mapping[str, Any]) -> None:
        """Talk to another model; `shown` is what `/api/show` says of it."""
        self.model = model
        self.parent = str((shown.get("details") or {}).get("parent_model") or "")
        self.loaded = [dict(message) for message in shown.get("messages") or []]
        if not self.think_given:
            self.think = True if "thinking" in (shown.get("capabilities") or []) else None

    def set_system(self, text: str) -> None:
        """A system message from here on; it replaces one that nothing came after."""
        self.system = text
        if self.messages and self.messages[-1]["role"] == "system":
            self.messages.pop()
        self.messages.append({"role": "system", "content": text})

    def clear(self) -> None:
        """Forget what was said, but not the system message."""
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def request(self) -> dict[str, Any]:
        """What every request of the talk says: model, options, format, thinking, keep-alive.

        Raises:
            CommandError: the format is neither `json` nor JSON.
        """
        request: dict[str, Any] = {"model": self.model, "options": self.options}
        if self.format:
            request["format"] = format_of(self.format)
        if self.think is not None:
            request["think"] = self.think
        if self.keep_alive:
            request["keep_alive"] = -1 if go_duration(self.keep_alive) < 0 else self.keep_alive
        return request

    def chat_request(self) -> dict[str, Any]:
        """The body of `/api/chat` for the next answer."""
        return {**self.request(), "messages": self.messages}

    def create_request(self, name: str) -> dict[str, Any]:
        """The body of `/api/create` that makes a model of this talk, as Ollama's `/save` asks for it."""
        request: dict[str, Any] = {"model": name, "from": self.parent if _is_name(self.parent) else self.model}
        if self.system:
            request["system"] = self.system
        if self.options:
            request["parameters"] = self.options
        if messages := self.loaded + self.messages:
            request["messages"] = messages
        return request


def _is_name(text: str) -> bool:
    try:
        ModelName.parse(text)
    except InvalidModelName:
        return False
    return True


def format_of(text: str) -> Any:
    """The value of `format`: `json`, or a JSON schema.

    Raises:
        CommandError: it is neither.
    """
    if text == "json":
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"invalid format {text!r}: neither json nor a JSON schema: {error}") from None


def think_of(text: str) -> bool | str:
    """The value of `--think`.

    Raises:
        CommandError: it is none.
    """
    if text in ("", "true", "false"):
        return text != "false"
    if text in THINK_LEVELS:
        return text
    raise CommandError(f'invalid value for --think: "{text}" (must be true, false, high, medium, low, or max)')
