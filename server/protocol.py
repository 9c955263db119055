"""HTTP as uvicorn reads it, with this server's answer to what is not HTTP, comes too slowly or never ends."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.errors import JSON, door_body

HEAD_SECONDS: Final = 30.0
"""Seconds a client has for a whole request head, from its first byte or, on a new connection, from the connection."""

HEAD_BYTES: Final = 64 * 1024
"""Bytes a request head may have. One that comes right behind another request may have up to twice as many."""

LINGER_SECONDS: Final = 2.0
"""Seconds a refused client has to read why: closing at once, with bytes of it unread, would take the answer back."""


MAX_CONNECTIONS: Final = 512
"""Connections at a time. One more takes the place of the one that has gone longest without a request; where all have
one, a request on it is a 503, but for those that ask whether the server is alive."""

_SPARE: Final = 64  # connections beyond, for those 503s and for `/health`
_ALWAYS: Final = frozenset({b"/health", b"/v1/health"})


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol; a request it cannot parse, or whose head is too slow or too long, gets llama-server's error
    object, and the connection is closed. So is one whose client reads nothing of its answer for too long, and one that
    is too many.

    A connection on which nothing is being answered is held by one of two clocks: uvicorn's own after an answer, until
    the next byte comes, else this one's, until a head is complete. So bytes that begin no request, such as blank lines
    or the rest of a body refused half-way, keep no connection open either.
    """

    head_seconds = HEAD_SECONDS
    write_seconds: float = 3600.0
    """Seconds after which a client that has read nothing more of what is ready for it is cut."""

    max_connections = MAX_CONNECTIONS

    _idle_since = 0.0
    _reader_clock: asyncio.TimerHandle | None = None
    _n_unread = 0  # bytes that were ready for the client when the clock was started; it wins if they become fewer
    _deadline: asyncio.TimerHandle | None = None
    _in_head = False  # a head was begun and is not complete
    _advanced = False  # the piece being parsed completed a head or a request, or brought some of a body
    _idle_bytes = 0  # bytes since then
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._start_deadline()
        if len(self.connections) > self.max_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self._stop_reader_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parses in pieces that end where the limit does: what is too long is never kept, whatever its end says."""
        at = 0
        while at < len(data) and not self._refused:
            end = at + HEAD_BYTES - self._idle_bytes
            piece = data[at:end]
            self._advanced = False
            super().data_received(piece)
            at += len(piece)
            self._idle_bytes = 0 if self._advanced else self._idle_bytes + len(piece)
            if self._idle_bytes == HEAD_BYTES:
                self._refuse_endless()
        if not self._refused and not self._answering():
            self._start_deadline()

    def on_message_begin(self) -> None:
        self._in_head = True
        if self.cycle is not None:  # on a kept-alive connection, what came between two requests takes none of its time
            self._stop_deadline()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._advanced = True
        self._stop_deadline()
        if len(self.connections) > self.max_connections and self.url.partition(b"?")[0] not in _ALWAYS:
            self._refuse(503, f"the server has more than {self.max_connections} connections")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._advanced = True
        if not self._refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_reader_clock()
        self._start_reader_clock()

    def resume_writing(self) -> None:
        self._stop_reader_clock()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._idle_since = self.loop.time()
        self._start_reader_clock()  # for the rest of the answer, should the connection be closed behind it
        # The next head was begun during the answer: its time runs from here, and the connection is not idle.
        if self._in_head and not self._answering() and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._start_deadline()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a request for another protocol is answered in this one, and is no news to the operator."""

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self._on_deadline)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _start_reader_clock(self) -> None:
        if self._reader_clock is None and (n_unread := self.transport.get_write_buffer_size()):
            self._n_unread = n_unread
            self._reader_clock = self.loop.call_later(self.write_seconds, self._on_reader_clock)

    def _stop_reader_clock(self) -> None:
        if self._reader_clock is not None:
            self._reader_clock.cancel()
            self._reader_clock = None

    def _on_reader_clock(self) -> None:
        self._reader_clock = None
        stuck = self.transport.get_write_buffer_size() >= self._n_unread
        if stuck and (self.flow.write_paused or self.transport.is_closing()):
            self.transport.abort()
        else:
            self._start_reader_clock()

    def _make_room(self) -> None:
        """Close the connection that has gone longest without a request, or this one, if there is no room for it."""
        others = (one for one in self.connections if isinstance(one, Protocol) and one is not self)
        idle = [one for one in others if not one._answering() and not one.transport.is_closing()]
        if idle:
            min(idle, key=lambda one: one._idle_since).transport.abort()
        elif len(self.connections) > self.max_connections + _SPARE:
            self.transport.abort()

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._in_head:
            self._refuse(408, f"the request head was not complete after {self.head_seconds:g} seconds")
        else:
            self.transport.close()

    def _refuse_endless(self) -> None:
        if self._in_head:
            self._refuse(431, f"request head exceeds {HEAD_BYTES} bytes")
        elif not self._refused:  # blank lines, a chunk's extension or a trailer without end
            self._refuse(400, "Invalid HTTP request received.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer, and close once the client has read it; what it still sends until then is dropped."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._stop_deadline()
        self._unset_keepalive_if_required()
        cycle = self.cycle if self._answering() else None
        if cycle is not None and (cycle.response_started or not cycle.more_body):
            self.transport.close()  # an earlier request's answer is due here, and this must not be taken for it
            return
        if cycle is not None:  # the rest of its body is what cannot be read: it is over, as when the client leaves
            cycle.disconnected = True
            cycle.message_event.set()
        body = door_body(status, message)
        head = f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode("ascii") + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()
