"""How far a pull, a push or a create is, as Ollama's command shows it: a bar for each digest, a spinner for each step.

`ProgressLines` is the lines; `Progress` puts them on a terminal. Elsewhere each step is a plain line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TextIO

from registry.progress import Lines
from server.commands.display import is_capable, terminal_columns
from server.commands.human import human_bytes

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.live import Live
    from rich.text import Text

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SAMPLES: Final = 10
"""Seconds over which a rate is measured."""


@dataclass(slots=True)
class Bar:
    """Bytes of one thing.

    Args:
        message: what it is.
        total: bytes in all.
        initial: bytes that were there before.
        started: when it began, seconds.
    """

    message: str
    total: int
    initial: int
    started: float
    done: int = field(init=False)
    samples: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.done = self.initial

    def set(self, done: int, now: float) -> None:
        """So many bytes are there at this time."""
        self.done = min(done, self.total)
        if not self.samples or now - self.samples[-1][0] > 1:
            self.samples = [*self.samples, (now, self.done)][-_SAMPLES:]

    def rate(self) -> float:
        """Bytes a second of late, 0 as long as nobody can say."""
        if not self.samples:
            return 0.0
        first = self.samples[0] if len(self.samples) > 1 else (self.started, self.initial)
        seconds = round(self.samples[-1][0] - first[0])
        return (self.samples[-1][1] - first[1]) / seconds if seconds else 0.0

    def line(self, columns: int) -> str:
        """The bar in so many columns: what, how much of it, the bar, bytes, bytes a second, time left."""
        share = self.done / self.total if self.total > 0 else 0.0
        head = f"{self.message} {share * 100:3.0f}%"
        total = f"{human_bytes(self.total):>6}"
        rate = self.rate()
        if self.done >= self.total:
            tail = f"{total}{'':25}"
        elif rate <= 0:
            tail = f"{human_bytes(self.done):>6}/{total}{'':18}"
        else:
            left = _time_left(int((self.total - self.done) / rate))
            tail = f"{human_bytes(self.done):>6}/{total}  {human_bytes(int(rate)):>6}/s  {left:>6}"
        room = columns - len(head) - len(tail) - 5
        filled = max(int(room * share), 0)
        return f"{head} ▕{'█' * filled}{' ' * (room - filled)}▏ {tail}"


def _time_left(seconds: int) -> str:
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours >= 100:
        return "99h+"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


class ProgressLines:
    """The lines of a stream of progress objects.

    Args:
        name: what to call the bar of an object with a digest.
        shows: whether an object with a digest is shown at all.
    """

    def __init__(
        self, name: Callable[[Mapping[str, Any]], str], shows: Callable[[Mapping[str, Any]], bool] = lambda _: True
    ) -> None:
        self._name = name
        self._shows = shows
        self._bars: dict[str, Bar] = {}
        self._order: list[Bar | str] = []
        self._status: str | None = None
        self._spins = False

    def step(self, text: str) -> None:
        """A step without a size begins, or its text changes nothing."""
        if text != self._status:
            self._status = text
            self._order.append(text)
            self._spins = True

    def replace(self, text: str) -> None:
        """The present step has another text."""
        if self._order and isinstance(self._order[-1], str):
            self._order[-1] = self._status = text
        else:
            self.step(text)

    def take(self, event: Mapping[str, Any], now: float) -> Bar | None:
        """One object of the stream; the bar it is about, if it is about one."""
        digest = str(event.get("digest") or "")
        if not digest:
            self.step(str(event.get("status") or ""))
            return None
        if not self._shows(event):
            return None
        self._spins = False
        completed = int(event.get("completed") or 0)
        bar = self._bars.get(digest)
        if bar is None:
            bar = self._bars[digest] = Bar(self._name(event), int(event.get("total") or 0), completed, now)
            self._order.append(bar)
        bar.set(completed, now)
        return bar

    def end(self) -> None:
        """Nothing moves any more."""
        self._spins = False

    def lines(self, columns: int, now: float) -> list[str]:
        """What to show."""
        shown = [f"{item} " if isinstance(item, str) else item.line(columns) for item in self._order]
        if self._spins and self._order and isinstance(self._order[-1], str):
            shown[-1] = f"{self._order[-1]} {_FRAMES[int(now * 10) % len(_FRAMES)]} ".lstrip()
        return shown


class Progress:
    """Shows `ProgressLines` on stderr as they change; where that is no terminal, a line for each step and each tenth
    of a bar. A context manager.

    Args:
        lines: what to show.
    """

    def __init__(self, lines: ProgressLines, stream: TextIO | None = None) -> None:
        self._lines = lines
        self._stream = stream or sys.stderr
        self._live: Live | None = None
        self._said: str | None = None
        self._plain: dict[int, Lines] = {}

    def __enter__(self) -> Progress:
        if is_capable(self._stream):
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, highlight=False)
            self._live = Live(_Screen(self._lines), console=console, refresh_per_second=10, vertical_overflow="crop")
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.end()
        if self._live is not None:
            self._live.stop()

    def step(self, text: str) -> None:
        """A step without a size begins."""
        self._lines.step(text)
        self._say(text)

    def replace(self, text: str) -> None:
        """The present step has another text; shown on a terminal only."""
        self._lines.replace(text)

    def take(self, event: Mapping[str, Any]) -> None:
        """One object of the stream."""
        bar = self._lines.take(event, time.monotonic())
        if bar is None:
            if not event.get("digest"):
                self._say(str(event.get("status") or ""))
        elif self._live is None:
            if id(bar) not in self._plain:
                self._plain[id(bar)] = Lines(self._stream)
                self._plain[id(bar)].start(bar.message.removesuffix(":"), bar.total)
            self._plain[id(bar)].update(bar.done)

    def _say(self, text: str) -> None:
        if self._live is None and text != self._said:
            self._said = text
            print(text, file=self._stream, flush=True)


class _Screen:
    """The lines as rich wants them: as many of the last ones as the terminal has."""

    def __init__(self, lines: ProgressLines) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Any:
        from rich.text import Text

        shown = self._lines.lines(terminal_columns(), time.monotonic())[-max(options.size.height, 1) :]
        text: Text = Text("\n".join(shown), no_wrap=True, overflow="crop")
        yield text
