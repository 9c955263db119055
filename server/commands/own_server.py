"""A server of the command's own, for as long as a talk lasts: `bankml run` where none runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from registry.catalog import Catalog
from server.serve import addresses, bind, catalog_of, find_model, open_residency
from server.setting_types import Address
from server.settings import Settings

if TYPE_CHECKING:
    import uvicorn


@contextmanager
def own_server(settings: Settings) -> Iterator[str]:
    """A server in this process, in a thread of its own, on a free loopback port; its address.

    Raises:
        ServeError: the model cannot be used.
    """
    settings = settings.model_copy(update={"listen": Address("127.0.0.1", 0), "upstream": None, "api_keys": ()})
    catalog = catalog_of(settings, find_model(settings))
    sockets = bind(settings)
    life = _Life()
    thread = Thread(target=_serve_in_thread, args=(settings, catalog, sockets, life), name="bankml-server")
    thread.start()
    try:
        life.ready.result()
        yield addresses(sockets)[0]
    finally:
        life.end()
        thread.join()
        for sock in sockets:
            sock.close()


class _Life:
    """A server in another thread: when it is ready, and when it must end."""

    def __init__(self) -> None:
        self.ready: Future[None] = Future()
        self._server: uvicorn.Server | None = None
        self._over = False

    def begin(self, server: uvicorn.Server) -> None:
        """The server is about to serve."""
        self._server = server
        server.should_exit = self._over
        self.ready.set_result(None)

    def end(self) -> None:
        """Stop the server, be it only about to begin."""
        self._over = True
        if self._server is not None:
            self._server.should_exit = True


def _serve_in_thread(settings: Settings, catalog: Catalog, sockets: list[socket.socket], life: _Life) -> None:
    """Serve until the end of `life`; an error on the way to the beginning becomes that of `life.ready`."""
    import uvloop

    from server.http_server import HttpServer

    async def serve() -> None:
        residency = await open_residency(settings, catalog)
        server = HttpServer(settings, residency)
        for sock in sockets:
            sock.listen()  # who connects now waits until the server takes it
        life.begin(server)
        await server.serve(sockets=sockets)

    try:
        uvloop.run(serve())
    except BaseException as error:
        if life.ready.done():
            raise
        life.ready.set_exception(error)
