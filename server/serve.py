"""`bankml serve`: from settings to a listening server. Whatever stops it is one `ServeError`."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib
import logging
import math
import os
import signal
import socket
import stat
import sys
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from registry.errors import ForkFileError, RegistryError
from registry.fork_file import default_folder
from registry.pins import Digest, sha256_file
from server.recent_log import RECENT
from server.setting_types import reason
from server.settings import Settings

if TYPE_CHECKING:
    from engine.model import ModelOptions
    from registry.catalog import Catalog, Entry
    from registry.folder import ModelFolder
    from registry.trust import Trust
    from slots.residency import Residency

log = logging.getLogger("bankml")
# Seconds after which the engine's thread hands Python over to the one that answers: with the usual 5 milliseconds
# `/health` would wait for them, with these it does not, and tokens come as fast.
_SWITCH = 0.0005
_LONG_HASH = 0.5  # seconds after which the header is looked at while the file is still being hashed


class ServeError(Exception):
    """Why the server does not start; one line.

    Args:
        exit_code: of the program: 2 when something was refused, 1 when a FORK.json cannot be read.
    """

    def __init__(self, reason: str, exit_code: int = 2) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def serve(settings: Settings) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP.

    Start-up is short because things overlap: the file is hashed while the engine's modules load, the model is opened
    while the server's do. The address is taken first, so that a busy port is known before any work; nobody is let in
    until the model is ready.

    Raises:
        ServeError: the address, the file or the model cannot be used.
    """
    sys.setswitchinterval(_SWITCH)
    gc.disable()  # nothing that start-up makes is garbage; looking for it is a tenth of the time
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S", stream=sys.stderr
    )
    log.addHandler(RECENT)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log each request of a download
    _make_slot_folder(settings)
    verified = find_model(settings)
    sockets = bind(settings)
    files = [sock.getsockname() for sock in sockets if is_unix(sock)]
    try:
        import uvloop

        import slots.residency  # noqa: F401 - slow; the hash needs no GIL meanwhile

        catalog = catalog_of(settings, verified)
        uvloop.run(_serve(settings, catalog, sockets))
    finally:
        for sock in sockets:
            sock.close()
        for file in files:
            Path(file).unlink(missing_ok=True)


def _make_slot_folder(settings: Settings) -> None:
    if settings.slot_save_path is not None:
        try:
            settings.slot_save_path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServeError(f"cannot make folder '{settings.slot_save_path}': {reason(error)}") from error


def find_model(settings: Settings) -> Future[tuple[Path, Digest]]:
    """The model file and its sha256, on their way: the one given, or the default one, fetched if need be."""
    future: Future[tuple[Path, Digest]] = Future()

    def work() -> None:
        try:
            future.set_result(_find_model(settings))
        except BaseException as error:
            future.set_exception(error)

    # A daemon: an interrupted start does not wait for a download, which the next start goes on with.
    Thread(target=work, name="bankml-model", daemon=True).start()
    return future


def _find_model(settings: Settings) -> tuple[Path, Digest]:
    if settings.model is not None:
        path = Path(os.path.expanduser(settings.model))  # a user nobody knows is left as written
        trust = trust_of(settings, path)
        digest = sha256_file(path)
        trust.check(digest)
        return path, digest
    from registry.download import ensure
    from registry.progress import OnTerminal

    progress = OnTerminal()
    try:
        return ensure(progress=progress, offline=settings.offline)
    finally:
        progress.close()


def trust_of(settings: Settings, path: Path) -> Trust:
    """Which bytes the model file of the command line must have.

    Raises:
        ForkFileError: its FORK.json cannot be read.
    """
    from registry.trust import Trust

    fork = None if settings.fork is None else Path(os.path.expanduser(settings.fork))
    return Trust(path, fork, settings.registry or default_folder())


def _record_first_use(settings: Settings, entry: Entry) -> None:
    """Writes down what an unpinned file was first served with; a folder that cannot be written to is no reason to
    refuse the file, but nobody will know then that it changed."""
    if settings.model is None or entry.identity is None:
        return
    try:
        if trust_of(settings, entry.path).record(Digest(entry.sha256, entry.identity)):
            log.info("%s is trusted on first use: sha256 %s is recorded", entry.path, entry.sha256)
    except RegistryError as error:
        log.warning("the first use of %s is not recorded: %s", entry.path, error)


def _refuse_early(settings: Settings, verified: Future[tuple[Path, Digest]]) -> None:
    """Looks at the header of a file that takes long to hash: one that is not played is not worth the wait.

    Raises:
        ServeError: it is not played.
    """
    from engine.errors import EngineError
    from registry.gguf_guard import check

    if settings.model is None or wait([verified], _LONG_HASH).done:
        return
    path = Path(os.path.expanduser(settings.model))
    try:
        check(path, options_of(settings))
    except EngineError as error:
        raise ServeError(_named(path, str(error))) from error


def options_of(settings: Settings) -> ModelOptions:
    """How the model is to be loaded."""
    from engine.model import ModelOptions

    return ModelOptions(
        n_ctx=settings.n_ctx,
        n_batch=min(settings.n_batch, settings.n_ubatch) if settings.embeds else settings.n_batch,  # as llama-server
        n_ubatch=settings.n_ubatch,
        n_threads=settings.n_threads,
        cache_type_k=settings.cache_type_k,
        cache_type_v=settings.cache_type_v,
        chat_template=settings.chat_template or settings.chat_template_file,
    )


def catalog_of(settings: Settings, verified: Future[tuple[Path, Digest]]) -> Catalog:
    """The catalog of the file that is served first, and of the folder of models.

    Raises:
        ServeError: the file cannot be read or fetched, or is not played (a large one is not hashed first); or the
            folder cannot be read.
    """
    from registry.catalog import Catalog

    _refuse_early(settings, verified)
    try:
        folder = folder_of(settings)
        path, digest = verified.result()
        return Catalog.of_file(path, aliases=settings.alias, digest=digest, folder=folder)
    except ForkFileError as error:
        raise ServeError(str(error), exit_code=1) from error
    except RegistryError as error:
        raise ServeError(str(error)) from error


def folder_of(settings: Settings) -> ModelFolder | None:
    """The folder of models, cleared of what another process left half done; what was found there is logged.

    Raises:
        RegistryError: it cannot be read or written.
    """
    if settings.folder is None:
        return None
    from registry.folder import ModelFolder

    folder = ModelFolder(settings.folder)
    for line in folder.sweep():
        log.warning("%s", line)
    return folder


async def open_residency(settings: Settings, catalog: Catalog) -> Residency:
    """The model loaded, for a server or for a talk in the terminal.

    Raises:
        ServeError: the model cannot be loaded.
    """
    from engine.errors import EngineError
    from slots.residency import Residency
    from slots.slot import SlotOptions

    slot_options = SlotOptions(settings.cache_ram, settings.slot_prompt_similarity)
    residency = Residency(
        catalog,
        options_of(settings),
        keep_alive=settings.keep_alive,
        slot_options=slot_options,
        idle=math.inf if settings.sleep_idle_seconds < 0 else settings.sleep_idle_seconds,
    )
    entry = catalog.default
    try:
        await residency.start()
    except (EngineError, RegistryError) as error:
        raise ServeError(_named(entry.path, str(error))) from error
    except MemoryError as error:
        context = f"a context of {settings.n_ctx} tokens" if settings.n_ctx else "the context it was trained for"
        raise ServeError(f"not enough memory for {entry.path} with {context}") from error
    except OSError as error:
        raise ServeError(_named(entry.path, error.strerror or str(error))) from error
    await asyncio.to_thread(_record_first_use, settings, entry)
    return residency


async def _serve(settings: Settings, catalog: Catalog, sockets: list[socket.socket]) -> None:
    loading = asyncio.ensure_future(open_residency(settings, catalog))
    await asyncio.wait([loading], timeout=0.005)  # by then it is the worker thread's
    importlib.import_module("server.http_server")  # slow; half of opening a model needs no GIL meanwhile
    residency = await loading
    entry, resident = catalog.default, residency.current()
    n_ctx = resident.model.n_ctx if resident else settings.n_ctx
    log.info("model %s (%.0f MB) sha256 %s", entry.path, entry.size / 1e6, entry.sha256[:16])
    log.info(
        "context %d, threads %d, batch %d, micro-batch %d",
        n_ctx,
        settings.n_threads,
        residency.options.n_batch,
        residency.options.n_ubatch,
    )
    from server.guards import is_loopback
    from server.http_server import HttpServer

    if not (settings.api_keys or all(is_loopback(host) for host, _ in settings.addresses)):
        log.warning("everyone who reaches this machine is answered: give an --api-key")
    server = HttpServer(settings, residency, files=[sock.getsockname() for sock in sockets if is_unix(sock)])
    signal.signal(signal.SIGHUP, server.handle_exit)  # SIGINT and SIGTERM are uvicorn's to bind
    gc.freeze()
    gc.enable()
    listen(sockets)
    for address in addresses(sockets):
        log.info("listening on %s", address)
    await server.serve(sockets=sockets)
    log.info("stopped")


def listen(sockets: list[socket.socket]) -> None:
    """From here on a client that connects is served.

    Raises:
        ServeError: another server that started at the same time was first.
    """
    for sock, address in zip(sockets, addresses(sockets), strict=True):
        try:
            sock.listen(512)
        except OSError as error:
            raise ServeError(f"cannot listen on {address}: {_bind_reason(error)}") from error


def _named(path: Path, text: str) -> str:
    """The text with the file's name in front, unless it has it."""
    return text if str(path) in text else f"{path}: {text}"


def bind(settings: Settings) -> list[socket.socket]:
    """The sockets of the addresses to listen on, bound, not listening. All of `--host` have one free port for port 0.

    Raises:
        ServeError: an address is in use, not ours, or not known.
    """
    sockets: list[socket.socket] = []
    shared = 0
    try:
        for host, port in settings.addresses:
            if host.endswith(".sock"):
                sockets.append(_bind_unix(host))
            else:
                sockets.append(_bind_tcp(host, port or shared, settings.reuse_port))
                if settings.listen is None:
                    shared = sockets[-1].getsockname()[1]
    except ServeError:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise ServeError(f"--host '{settings.host}' names no address")
    return sockets


def _bind_tcp(host: str, port: int, reuse_port: bool) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ServeError(f"cannot listen on {host}: no such host") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise ServeError(f"cannot listen on {_joined(host, port)}: {_bind_reason(error)}") from error
    sock.set_inheritable(False)
    return sock


def _bind_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
            try:
                sock.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)  # left behind by a server that is gone
            else:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        sock.bind(path)
    except OSError as error:
        sock.close()
        raise ServeError(f"cannot listen on {path}: {_bind_reason(error)}") from error
    return sock


def is_unix(sock: socket.socket) -> bool:
    """Whether a socket is a file."""
    return sock.family == socket.AF_UNIX


def _bind_reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "address already in use; give another one"
    return error.strerror or str(error)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def addresses(sockets: list[socket.socket]) -> list[str]:
    """What each socket listens on, as a URL."""
    shown = []
    for sock in sockets:
        name = sock.getsockname()
        shown.append(f"unix:{name}" if isinstance(name, str) else f"http://{_joined(name[0], name[1])}")
    return shown
