"""Connections to registries and indexes: whatever is answered, what goes wrong is httpx's error, and told in a line."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""What OpenSSL calls an answer in plain text; versions from 3.2 on may say the second."""


class NoPlace(httpx.UnsupportedProtocol):
    """An address where nothing can be: no host, or a port above all ports."""


FINAL: Final = (httpx.UnsupportedProtocol, httpx.TooManyRedirects)
"""What another try does not change."""


class Client(httpx.AsyncClient):
    """httpx's client, for which an address that is none is an `httpx.HTTPError` too, wherever a redirect or a page has
    it from."""

    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        """As httpx's.

        Raises:
            NoPlace: the address is none.
        """
        try:
            return super().build_request(*args, **kwargs)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise NoPlace(reason(error)) from error

    async def send(self, request: httpx.Request, **kwargs: Any) -> httpx.Response:
        """As httpx's.

        Raises:
            NoPlace: a redirect leads to an address that is none.
            httpx.HTTPError: there is no answer.
        """
        try:
            return await super().send(request, **kwargs)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise NoPlace(f"a redirect leads nowhere: {reason(error)}", request=request) from error
        except ExceptionGroup as group:  # a port above all ports is told by the socket
            text = reason(group.exceptions[0])
            raise NoPlace(f"a redirect leads nowhere: {text}", request=request) from group


async def first_bytes(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    """An answer's bytes, and no more of them than `limit`."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > limit:
            break
    return bytes(data[:limit])


def reason(error: Exception) -> str:
    """What went wrong with a connection, in one line."""
    text = " ".join(str(error).split())
    return text or type(error).__name__


def told(method: str, url: str, error: Exception) -> str:
    """Why a request got no answer, in the words of Go's client, which Ollama's people know."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if isinstance(error, httpx.HTTPError):
        try:
            asked = error.request.url  # where a redirect led
        except RuntimeError:  # the request was not made
            asked = parts
        if asked != parts:
            parts = asked.copy_with(username=asked.username, password="***") if asked.password else asked
            url = str(parts)
    return f'{method.capitalize()} "{url}": {_in_gos_words(error, parts)}'


def _in_gos_words(error: Exception, url: httpx.URL) -> str:
    """What went wrong with a connection, as Go says it where that is known."""
    if isinstance(error, httpx.UnsupportedProtocol) and not isinstance(error, NoPlace):
        return f'unsupported protocol scheme "{url.scheme}"'
    if isinstance(error, httpx.RemoteProtocolError):
        return "EOF"
    if isinstance(error, httpx.TooManyRedirects):
        return "stopped after 10 redirects"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    host = url.raw_host.decode()  # as it was written: not every one that begins as an international one is one
    port = url.port if url.port is not None else (443 if url.scheme == "https" else 80)
    text = reason(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError) or getattr(cause, "errno", None) == errno.ECONNREFUSED:
            text = f"dial tcp {host}:{port}: connect: connection refused"
        elif isinstance(cause, socket.gaierror):
            text = f"dial tcp: lookup {host}: no such host"
        elif isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            text = "http: server gave HTTP response to HTTPS client"
        cause = cause.__cause__ or cause.__context__
    return text
