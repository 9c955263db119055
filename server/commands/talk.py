"""The talk of `bankml run`: lines typed become messages, or commands that begin with a slash, as with Ollama's."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from registry.parameters import ParameterError, parse_parameter
from server.commands.client import Client, ClientError, NoServer
from server.commands.display import AnswerView, Waiting, summary
from server.commands.help_texts import COMMANDS, PARAMETERS, SET, SHORTCUTS, SHOW
from server.commands.session import Session
from server.commands.show import sections
from server.wire.golang import show_value

_QUOTES: Final = '"""'


class History(Protocol):
    """Where lines typed are remembered."""

    enabled: bool


@dataclass(slots=True)
class MessageLines:
    '''Lines typed, put together to texts: one line each, or all from a `"""` to a line that ends in one.

    Attributes:
        open: a text is not complete.
    '''

    _parts: list[str] = field(default_factory=list)
    open: bool = False

    def push(self, line: str) -> str | None:
        """Take a line without its newline.

        Returns:
            the text it completes, None when there is more to come.
        """
        if not self.open:
            if not line.startswith(_QUOTES):
                return line
            self.open = True
            line = line[len(_QUOTES) :]
        self._parts.append(line.removesuffix(_QUOTES))
        if not line.endswith(_QUOTES):
            return None
        text = "\n".join(self._parts)
        self.clear()
        return text

    def clear(self) -> None:
        """Forget an unfinished text."""
        self._parts.clear()
        self.open = False


class Talk:
    """A conversation in the terminal.

    Args:
        client: of the server that answers.
        session: what is agreed on; the model is loaded.
        history: of the lines typed.
    """

    def __init__(self, client: Client, session: Session, history: History) -> None:
        self.client = client
        self.session = session
        self._history = history
        self._lines = MessageLines()
        self._is_system = False  # the open lines are a system message

    @property
    def more(self) -> bool:
        """Whether a message has begun and is not complete."""
        return self._lines.open

    def interrupted(self) -> None:
        """Ctrl-C at the prompt: an unfinished message is forgotten."""
        self._lines.clear()
        self._is_system = False
        print("\nUse Ctrl + d or /bye to exit.")

    def line(self, line: str) -> bool:
        """Do what a line says.

        Returns:
            whether the talk goes on.

        Raises:
            NoServer: the server is gone.
        """
        if self._lines.open or line.startswith(_QUOTES):
            text = self._lines.push(line)
            if text is None:
                return True
            if self._is_system:
                self._set_system(text)
            elif text:
                self._say(text)
            return True
        if line.startswith(("/exit", "/bye")):
            return False
        command = next((obey for prefix, obey in self._commands() if line.startswith(prefix)), None)
        try:
            if command is not None:
                command(line.split())
            elif line:
                self._say(line)
        except NoServer:
            raise
        except ClientError as error:
            print(f"error: {error}")
        return True

    def _commands(self) -> tuple[tuple[str, Callable[[list[str]], None]], ...]:
        """Commands by what a line begins with; the first that fits counts."""
        return (
            ("/list", self._list),
            ("/load", self._load),
            ("/save", self._save),
            ("/clear", self._clear),
            ("/set", self._set),
            ("/show", self._show),
            ("/help", self._help),
            ("/?", self._help),
            ("/", lambda words: print(f"Unknown command '{words[0]}'. Type /? for help")),
        )

    # -- commands

    def _list(self, words: list[str]) -> None:
        from datetime import UTC, datetime

        from server.commands.models import listing

        print(listing(self.client.models(), words[1] if words[1:] else "", datetime.now(UTC)), end="")

    def _load(self, words: list[str]) -> None:
        if len(words) != 2:
            print("Usage:\n  /load <modelname>")
            return
        name, before = words[1], copy.deepcopy(self.session)
        print(f"Loading model '{name}'")
        try:
            self.session.adopt(name, self.client.show(name))
            self.session.messages = []
            load(self.client, self.session)
        except ClientError as error:
            self.session = before
            if not error.not_found:
                raise
            print(f"Couldn't find model '{name}'")

    def _save(self, words: list[str]) -> None:
        if len(words) != 2:
            print("Usage:\n  /save <modelname>")
            return
        try:
            self.client.post("/api/create", {**self.session.create_request(words[1]), "stream": False})
        except ClientError as error:
            if "invalid model name" not in str(error):
                raise
            print(f"error: The model name '{words[1]}' is invalid")
            return
        print(f"Created new model '{words[1]}'")

    def _clear(self, words: list[str]) -> None:
        self.session.clear()
        print("Cleared session context")

    def _help(self, words: list[str]) -> None:
        topics = {"set": SET, "/set": SET, "show": SHOW, "/show": SHOW, "shortcut": SHORTCUTS, "shortcuts": SHORTCUTS}
        _tell(topics.get(words[1], "") if words[1:] else COMMANDS)

    def _set(self, words: list[str]) -> None:
        session = self.session
        match words[1:]:
            case ["history" | "nohistory" as word, *_]:
                self._history.enabled = word == "history"
            case ["wordwrap" | "nowordwrap" as word, *_]:
                session.wordwrap = word == "wordwrap"
                print(f"Set '{word}' mode.")
            case ["verbose" | "quiet" as word, *_]:
                session.verbose = word == "verbose"
                print(f"Set '{word}' mode.")
            case ["think" | "nothink" as word, *rest]:
                self._set_think(word, rest)
            case ["format", "json", *_]:
                session.format = "json"
                print("Set format to 'json' mode.")
            case ["format", *_]:
                print("Invalid or missing format. For 'json' mode use '/set format json'")
            case ["noformat", *_]:
                session.format = ""
                print("Disabled format.")
            case ["parameter", name, _, *_]:
                self._set_parameter(name, words[3:])
            case ["parameter", *_]:
                _tell(PARAMETERS)
            case ["system", _, *_]:
                self._begin_system(" ".join(words[2:]))
            case [] | ["system"]:
                _tell(SET)
            case [word, *_]:
                print(f"Unknown command '/set {word}'. Type /? for help")

    def _set_think(self, word: str, rest: list[str]) -> None:
        session = self.session
        level = rest[0] if rest and word == "think" else ""
        session.think, session.think_given = level or word == "think", True
        if "thinking" not in (self.client.show(session.model).get("capabilities") or []):
            print(f'warning: model "{session.model}" does not support thinking output', file=sys.stderr)
        print(f"Set '{word}' mode to '{level}'." if level else f"Set '{word}' mode.")

    def _set_parameter(self, name: str, values: list[str]) -> None:
        try:
            self.session.options[name] = parse_parameter(name, values)
        except ParameterError as error:
            print(f'Couldn\'t set parameter: "{error}"')
            return
        print(f"Set parameter '{name}' to '{', '.join(values)}'")

    def _begin_system(self, text: str) -> None:
        complete = self._lines.push(text)
        if complete is not None:
            self._set_system(complete)
        else:
            self._is_system = True

    def _set_system(self, text: str) -> None:
        self._is_system = False
        self.session.set_system(text)
        print("Set system message.")

    def _show(self, words: list[str]) -> None:
        if not words[1:]:
            _tell(SHOW)
            return
        session = self.session
        request = {"model": session.model, "system": session.system, "options": session.options}
        shown = self.client.post("/api/show", request)
        match words[1]:
            case "info":
                print(sections(shown), end="", file=sys.stderr)
            case "license":
                print(shown.get("license") or "No license was specified for this model.")
            case "modelfile":
                print(shown.get("modelfile", ""))
            case "parameters":
                self._show_parameters(shown.get("parameters") or "")
            case "system":
                text = session.system or shown.get("system")
                print(f"{text}\n" if text else "No system message was specified for this model.")
            case "template":
                print(shown.get("template") or "No prompt template was specified for this model.")
            case word:
                print(f"Unknown command '/show {word}'. Type /? for help")

    def _show_parameters(self, parameters: str) -> None:
        print("Model defined parameters:")
        if parameters:
            print("\n".join(f"  {line}" for line in parameters.split("\n")))
        else:
            print("  No additional parameters were specified for this model.")
        print()
        if self.session.options:
            print("User defined parameters:")
            for name, value in self.session.options.items():
                print(f"  {name:30} {_shown_value(value)}")
            print()

    # -- answers

    def _say(self, text: str) -> None:
        """Send a message and show its answer. Ctrl-C stops the answer; what was said until then counts as said."""
        session = self.session
        session.messages.append({"role": "user", "content": text})
        view = AnswerView(sys.stdout, wordwrap=session.wordwrap, hide_thinking=session.hide_thinking)
        measured: dict[str, Any] = {}
        try:
            measured = stream_answer(self.client, "/api/chat", session.chat_request(), view)
        except KeyboardInterrupt:
            pass
        finally:
            if view.content:
                session.messages.append({"role": "assistant", "content": view.content})
            else:
                session.messages.pop()
        view.end_thinking()
        print("\n")
        if dropped := measured.get("bankml_truncated"):
            print(f"The {dropped} oldest messages did not fit the context and were left out.", file=sys.stderr)
        if session.verbose and measured.get("done"):
            print(summary(measured), file=sys.stderr)


def load(client: Client, session: Session) -> None:
    """Have the session's model loaded; a server that cannot let it think says so now. Errors as `Client.get`."""
    waiting = Waiting()
    try:
        wanted = session.request()
        client.load(session.model, **{name: wanted[name] for name in ("keep_alive", "think") if name in wanted})
    finally:
        waiting.end()


def stream_answer(client: Client, path: str, request: dict[str, Any], view: AnswerView) -> dict[str, Any]:
    """Show an answer while it comes.

    Returns:
        its last object, {} when there was none.

    Raises:
        ClientError: the server refuses, fails, or goes away.
    """
    waiting = Waiting()
    events = client.stream(path, request)
    event: dict[str, Any] = {}
    try:
        for event in events:
            message = event.get("message", event)
            thinking, content = message.get("thinking") or "", message.get("content", message.get("response")) or ""
            if content or thinking:
                waiting.end()
                view.add(thinking, content)
    finally:
        waiting.end()
        events.close()
    return event


def _shown_value(value: object) -> str:
    """A parameter's value as Go prints it; whole numbers are no floats here."""
    return str(value) if type(value) is int else show_value(value)


def _tell(text: str) -> None:
    """Help, on stderr."""
    print(text, end="\n" if text else "", file=sys.stderr)
