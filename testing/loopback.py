"""What servers that tests start on the loopback address have in common."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """A request over a connection that stays; it says nothing, also where who asked is gone."""

    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def answer(self) -> None:
        """Answers whatever is asked, by whatever method."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 - http.server calls them so

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def listening(server: HTTPServer) -> Iterator[None]:
    """Answers requests in other threads while the block runs."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
