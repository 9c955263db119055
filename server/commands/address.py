"""Where the commands look for a server: `BANKML_HOST`, or `OLLAMA_HOST` as Ollama's command reads it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from server.host_variables import DEFAULT_HOST, DEFAULT_PORT, named_address


def server_url() -> str:
    """The URL of the server that the environment names: scheme, host, port and path.

    It may be an https address, or one below a path; of several the first is asked. An address that means every one is
    reached at loopback.
    """
    named = named_address()
    host = (named.host or DEFAULT_HOST).split(",")[0].strip()
    return url_of(host, DEFAULT_PORT if named.port is None else named.port, named.scheme, named.path)


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
