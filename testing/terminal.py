"""A command with a terminal of its own, for tests: typed to, read from, interrupted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress

import pyte

COMMAND = (sys.executable, "-m", "server.cli")
"""The program under test; the name of a verb follows."""
PATIENCE = 120
"""Seconds after which a test gives up on a process."""


class Terminal:
    """A command with a terminal of its own, of 80 columns and 24 lines.

    Args:
        environment: all of its variables.
        arguments: behind the verb.
        verb: which of the program's commands.

    Attributes:
        process: the command.
        screen: what a terminal of xterm's kind shows of it.
    """

    def __init__(self, environment: Mapping[str, str], *arguments: str, verb: str = "run") -> None:
        self._main, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.screen = pyte.Screen(80, 24)
        self._modes = set(self.screen.mode)
        self._stream = pyte.ByteStream(self.screen)
        self.process = subprocess.Popen(
            [*COMMAND, verb, *arguments],
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._shown = ""

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._main, text.encode() + b"\n")

    def press(self, keys: str) -> None:
        """Type keys that are no line, and see what happens for a moment."""
        os.write(self._main, keys.encode())
        with suppress(OSError):  # the terminal's other end is closed
            self._read(0.3)

    def until(self, pattern: str) -> str:
        """What is shown up to and including the first match of `pattern`, which is taken away."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self._shown)) is None:
            assert self._read(deadline - time.monotonic()), f"no {pattern!r}: {self._shown!r}"
        shown, self._shown = self._shown[: found.end()], self._shown[found.end() :]
        return shown.replace("\r\n", "\n")

    def interrupt_until(self, pattern: str) -> str:
        """Do what Ctrl-C does until `pattern` is shown: `input` may miss a signal that comes just before it waits."""
        deadline = time.monotonic() + PATIENCE
        while re.search(pattern, self._shown) is None:
            assert time.monotonic() < deadline, f"no {pattern!r}: {self._shown!r}"
            self.process.send_signal(signal.SIGINT)
            self._read(2)
        return self.until(pattern)

    def _read(self, seconds: float) -> bool:
        """Take what is shown; whether something was, within the time."""
        if not select.select([self._main], [], [], seconds)[0]:
            return False
        data = os.read(self._main, 65536)
        self._stream.feed(data)
        self._shown += data.decode(errors="replace")
        return True

    def end(self) -> int:
        """Read until the command ends; its status."""
        deadline = time.monotonic() + PATIENCE
        with suppress(OSError):  # Linux's word for the end of a terminal
            while True:
                assert self._read(deadline - time.monotonic()), f"it goes on: {self._shown!r}"
        return self.process.wait(PATIENCE)

    def lines(self) -> list[str]:
        """What is on the screen, without blanks at the ends of lines and empty lines at its own."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    def is_clean(self) -> bool:
        """Whether the terminal is as whoever comes next wants it: a cursor that shows, at the beginning of a line below
        what was printed, and no mode left on, such as that of bracketed paste."""
        cursor = self.screen.cursor
        return self.screen.mode == self._modes and not cursor.hidden and cursor.x == 0 and cursor.y >= len(self.lines())

    def close(self) -> None:
        """End it, however far it is."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)
