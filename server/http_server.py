"""The HTTP server around the application: its limits, and how it stops."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from server.app import create_app
from server.protocol import HEAD_SECONDS, Protocol
from server.scheduling import ask_for_short_slices
from server.settings import Settings
from server.streams import ServerStopping
from slots.residency import Residency

_FLUSH_SECONDS: Final = 2  # for clients to read how their answers were cut

log = logging.getLogger("bankml")


class HttpServer(uvicorn.Server):
    """Serves a loaded model until the first signal or `should_exit`; then no connection is taken any more, and running
    answers have `--shutdown-timeout` to come to their ends. What still runs or waits is cut: a stream ends in an error
    event, a whole answer is a 503. A second signal ends the process at once.

    Args:
        settings: the command line's.
        residency: who has the engine.
        files: sockets that are files, to be taken away by a second signal, as it leaves nobody else the time.
    """

    def __init__(self, settings: Settings, residency: Residency, *, files: Sequence[str] = ()) -> None:
        class Timed(Protocol):
            head_seconds = min(HEAD_SECONDS, settings.timeout)
            write_seconds = settings.timeout

        config = uvicorn.Config(
            create_app(settings, residency),
            http=Timed,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=settings.verbose,
            server_header=False,
            backlog=512,
            timeout_graceful_shutdown=math.ceil(settings.shutdown_timeout) + _FLUSH_SECONDS,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.INFO if settings.verbose else logging.WARNING)
        super().__init__(config)
        self._residency = residency
        self._seconds = settings.shutdown_timeout
        self._files = files

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, in a thread that comes to its turn at once."""
        ask_for_short_slices()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The signal handler. uvicorn's would raise the signal again in the end, for whoever listened before."""
        if self.should_exit:
            for file in self._files:
                Path(file).unlink(missing_ok=True)
            signal.signal(sig, signal.SIG_DFL)
            os.kill(os.getpid(), sig)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop taking connections, wait for answers, cut those that take too long, end the application."""
        cut = asyncio.get_running_loop().call_later(self._seconds, self._cut)
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()

    def _cut(self) -> None:
        if self.server_state.tasks:
            log.warning("after %g seconds, answers that are cut: %d", self._seconds, len(self.server_state.tasks))
        self._residency.interrupt(ServerStopping)
