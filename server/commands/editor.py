"""The line a person types in `bankml run`: edited with Emacs' keys, with a history, or in an editor of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_LIMIT: Final = 100
"""Lines of history that are kept, as Ollama does."""
_GREY: Final = "\x1b[38;5;245m{}\x1b[0m"


class LineHistory(History):
    """The last lines typed, one JSON string each in a file that only its owner reads.

    Args:
        path: the file.

    Attributes:
        enabled: whether what is typed goes to the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.enabled = True

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        return reversed(self._lines())

    def store_string(self, string: str) -> None:
        """Add a line; a file that cannot be written is no reason to stop."""
        if not self.enabled:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.writelines(f"{json.dumps(line)}\n" for line in [*self._lines(), string][-_LIMIT:])
            part.rename(self._path)

    def _lines(self) -> list[str]:
        lines: list[str] = []
        with suppress(OSError, UnicodeDecodeError):
            for line in self._path.read_text("utf-8").splitlines():
                with suppress(ValueError):
                    if isinstance(value := json.loads(line), str):
                        lines.append(value)
        return lines[-_LIMIT:]


def history_path() -> Path:
    """Where the history is kept: the state folder of the XDG base directory rules."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "bankml" / "history"


class LineEditor:
    """Reads lines from the terminal.

    Attributes:
        history: what was typed before.
    """

    def __init__(self) -> None:
        # Asked where its cursor is, a terminal answers with characters that whoever reads next would get.
        os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
        if editor := os.environ.get("OLLAMA_EDITOR"):
            os.environ["VISUAL"] = editor
        self.history = LineHistory(history_path())
        if os.environ.get("OLLAMA_NOHISTORY", "").strip("\"' ").lower() not in ("", "0", "f", "false"):
            self.history.enabled = False
        self._session: PromptSession[str] = PromptSession(history=self.history, key_bindings=_keys())

    def read(self, *, more: bool) -> str:
        """The next line, without its end; one that was pasted may have several.

        Args:
            more: it goes on with a message that is not complete.

        Raises:
            EOFError: Ctrl-D on an empty line.
            KeyboardInterrupt: Ctrl-C.
        """
        hint = 'End with """ to send' if more else "Type a message (/? for help)"
        return self._session.prompt("... " if more else ">>> ", placeholder=ANSI(_GREY.format(hint)))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-g")
    def compose(event: KeyPressEvent) -> None:
        """The line in the user's editor."""
        event.current_buffer.open_in_editor()

    return keys
