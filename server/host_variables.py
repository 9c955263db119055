"""The address that the environment names, for the server that listens there and for the commands that ask it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 11434


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """What the variables say.

    Attributes:
        host: an address, several in a row, or the path of a `*.sock`; None when no variable says.
        port: a port, not looked at yet where it comes from a variable of llama-server's or ours; None for the default.
        scheme: `http`, or what a variable has before `://`.
        path: what it has behind the first `/`.
    """

    host: str | None = None
    port: str | int | None = None
    scheme: str = "http"
    path: str = ""


def named_address() -> NamedAddress:
    """The address of the first of `BANKML_HOST`, `LLAMA_ARG_HOST` and `OLLAMA_HOST` that is set; the others' hosts and
    ports do not count then. `BANKML_PORT` beats the port in it, `LLAMA_ARG_PORT` beats that of `OLLAMA_HOST`."""
    ours, llama, ollama = (_variable(name) for name in ("BANKML_HOST", "LLAMA_ARG_HOST", "OLLAMA_HOST"))
    own_port, llama_port = _variable("BANKML_PORT") or None, _variable("LLAMA_ARG_PORT") or None
    if ours and "," not in ours and not ours.endswith(".sock"):
        scheme, host, port, path = _parts(ours)
        default = {"http": 80, "https": 443}.get(scheme)
        return NamedAddress(host or DEFAULT_HOST, own_port or port or llama_port or default, scheme or "http", path)
    if ours or llama:
        return NamedAddress(ours or llama, own_port or llama_port)
    if not ollama.strip("\"'"):
        return NamedAddress(port=own_port or llama_port)
    scheme, _, _, path = _parts(ollama)
    host, number = ollama_host(ollama)
    return NamedAddress(host, own_port or llama_port or number, scheme or "http", path)


def ollama_host(value: str) -> tuple[str, int]:
    """Host and port of `OLLAMA_HOST` as Ollama reads it: [scheme://]host[:port][/path]; a bad port is the default."""
    scheme, host, port, _ = _parts(value)
    default = {"http": 80, "https": 443}.get(scheme, DEFAULT_PORT)
    number = int(port) if port.isascii() and port.isdigit() else default
    return host or DEFAULT_HOST, number if number <= 65535 else default


def _parts(value: str) -> tuple[str, str, str, str]:
    """Scheme, host, port and path, each "" where there is none; a host of colons may be in brackets, which go."""
    text = value.strip().strip("\"'").strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    address, _, path = rest.partition("/")
    host, port = address, ""
    if address.startswith("["):
        host, _, tail = address[1:].partition("]")
        port = tail.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    return scheme, host, port, path.rstrip("/")


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()
