"""How a long step tells a person how far it is: a bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID


class Progress(Protocol):
    """What a long step reports to."""

    def start(self, what: str, total: int) -> None:
        """A step of `total` bytes begins; it ends the one before."""

    def update(self, done: int) -> None:
        """So many bytes of the step are done."""

    def note(self, text: str) -> None:
        """One line beside the bar."""


class Silent:
    """Reports nothing."""

    def start(self, what: str, total: int) -> None:
        pass

    def update(self, done: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Lines:
    """One line at the start of a step and one every tenth of it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what, self._total, self._next = "", 0, 0

    def start(self, what: str, total: int) -> None:
        self._what, self._total, self._next = what, total, 10
        size = f"{total / 1e6:.0f} MB" if total >= 500_000 else f"{total:,} bytes"  # never 0 MB
        self.note(f"{what} ({size})")

    def update(self, done: int) -> None:
        percent = 100 * done // self._total if self._total else 100
        if percent >= self._next:
            self._next = percent // 10 * 10 + 10
            self.note(f"{self._what}: {percent}%")

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bar:
    """rich's bar: bytes, speed, time left."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
        )
        self._task: TaskID | None = None
        self._bar.start()

    def close(self) -> None:
        """Leaves the bar as it stands and gives the terminal back."""
        self._bar.stop()

    def start(self, what: str, total: int) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total)

    def update(self, done: int) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=done)

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


class OnTerminal:
    """A `Bar` when the stream is a terminal, `Lines` otherwise. Made at the first step: nothing to do costs nothing."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._inner: Bar | Lines | None = None

    def _shown(self) -> Bar | Lines:
        if self._inner is None:
            if self._stream.isatty():
                self._inner = Bar(self._stream)
            else:
                self._inner = Lines(self._stream)
        return self._inner

    def start(self, what: str, total: int) -> None:
        self._shown().start(what, total)

    def update(self, done: int) -> None:
        self._shown().update(done)

    def note(self, text: str) -> None:
        self._shown().note(text)

    def close(self) -> None:
        """Takes the bar off the terminal."""
        if isinstance(self._inner, Bar):
            self._inner.close()
        self._inner = None
