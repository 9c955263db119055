"""Where the commands look for a server: `BANKML_HOST`, or `OLLAMA_HOST` as Ollama's command reads it."""

from __future__ import annotations

import ipaddress
import os
from typing import Final
from urllib.parse import urlsplit

from server.settings import DEFAULT_HOST, DEFAULT_PORT, ollama_host

_HOSTS: Final = ("BANKML_HOST", "LLAMA_ARG_HOST")
_PORTS: Final = ("BANKML_PORT", "LLAMA_ARG_PORT")


def server_url() -> str:
    """The URL of the server that the environment names: scheme, host, port and path.

    `OLLAMA_HOST` may be an https address, or one below a path. A host or port that the server itself would take from
    another variable is taken from it. An address that means every one is reached at loopback.
    """
    text = os.environ.get("OLLAMA_HOST", "").strip().strip("\"'").strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    path = rest.partition("/")[2].rstrip("/")
    found = ollama_host(text) if text else {}
    host, port = str(found.get("host", DEFAULT_HOST)), str(found.get("port", DEFAULT_PORT))
    if other := _first(_HOSTS):
        host, port, scheme, path = other.split(",")[0].strip(), str(DEFAULT_PORT), "http", ""
    return url_of(host, _first(_PORTS) or port, scheme, path)


def url_of(host: str, port: int | str, scheme: str = "http", path: str = "") -> str:
    """A URL of a host as one listens on it; an address that means every one becomes loopback's."""
    host = host.strip("[]")
    try:
        address = ipaddress.ip_address("0.0.0.0" if host == "*" else host)
    except ValueError:
        shown = host
    else:
        if address.is_unspecified:
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
        shown = f"[{address}]" if address.version == 6 else str(address)
    return f"{scheme}://{shown}:{port}{f'/{path}' if path else ''}"


def is_here(url: str) -> bool:
    """Whether a server at this URL is one of this machine's own, at loopback."""
    from server.guards import is_loopback

    return is_loopback(urlsplit(url).hostname or "")


def _first(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")
