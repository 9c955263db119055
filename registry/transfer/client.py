"""A registry of Ollama's kind over HTTP: Docker's distribution protocol, version 2, as Ollama speaks it.

Hugging Face answers the same requests at `hf.co` (`hf.co/owner/name:QUANT`), with a manifest it makes for a GGUF file
of the repository, so that it needs nothing of its own. Where a registry asks for a token, one is asked for at the place
it names, without signing in: bankml has no key to sign with. What only people who signed in may do is refused.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

import httpx
import orjson

from registry.names import ModelName
from registry.transfer.errors import NotThere, Refused, TransferError, Unauthorized
from registry.transfer.fetch import RETRY_STATUS, Patience, reason
from registry.transfer.manifest import MAX_MANIFEST, MEDIA_TYPE, Blob

_ALIASES: Final = {"hf.co": "huggingface.co"}
"""Hosts that stand for another one: the place they name for tokens is that one's."""
_LONGEST_REFUSAL: Final = 4096  # bytes of an error's body that are shown
_LONGEST_GRANT: Final = 1 << 20  # bytes of an answer with a token
_LONGEST_TOKEN: Final = 1 << 14  # bytes: it goes into a header
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK: Final = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))
"""No proxy for this machine, as Go's client has it."""


async def open_client(patience: Patience) -> httpx.AsyncClient:
    """A client for registries; proxies and certificates are the environment's."""
    context = await asyncio.to_thread(ssl.create_default_context)
    return httpx.AsyncClient(
        verify=context,
        mounts=_LOOPBACK,
        follow_redirects=True,
        max_redirects=10,
        timeout=patience.stall,
        headers={"User-Agent": f"bankml/{version('bankml')}", "Accept-Encoding": "identity"},
        limits=httpx.Limits(max_connections=None),
    )


class Registry:
    """One model's place in a registry.

    Args:
        client: for all requests.
        name: the model.
        insecure: HTTP instead of HTTPS.

    Raises (from the constructor):
        TransferError: the name's host can be no registry's.
    """

    def __init__(self, client: httpx.AsyncClient, name: ModelName, *, insecure: bool = False) -> None:
        self._client = client
        self._token = ""
        self.name = name
        self.host = name.host.lower()
        self.base = f"{'http' if insecure else 'https'}://{self.host}/v2/{name.namespace}/{name.model}"
        _check_host(self.base, self.host)

    def send_elsewhere(
        self, url: str, size: int, content: Callable[[], AsyncIterator[bytes]]
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Puts a body at a place outside the registry, which a redirect named, without a token.

        Raises:
            httpx.HTTPError: there is no answer.
        """
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        return self._client.stream("PUT", url, headers=headers, content=content())

    async def manifest(self) -> bytes:
        """The manifest's bytes, as they are.

        Raises:
            TransferError: it cannot be had.
        """
        url = f"{self.base}/manifests/{self.name.tag}"
        async with self.request("GET", url, headers={"Accept": MEDIA_TYPE}) as response:
            data = bytearray()
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > MAX_MANIFEST:
                    raise TransferError(f"the manifest has more than {MAX_MANIFEST} bytes")
            return bytes(data)

    def blob(self, blob: Blob) -> BlobSource:
        """Where one of the model's blobs comes from."""
        return BlobSource(self, blob)

    @asynccontextmanager
    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> AsyncIterator[httpx.Response]:
        """An answer that is no error.

        Raises:
            NotThere, Refused, Unauthorized, TransferError: as the registry has it, or there is no answer.
        """
        try:
            async with self.send(method, url, headers=headers, content=lambda: content) as response:
                if response.status_code >= 400:
                    raise await refused(response)
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransferError(told(method, url, error)) from error

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Callable[[], bytes | AsyncIterator[bytes]] = bytes,
        redirects: bool = True,
    ) -> AsyncIterator[httpx.Response]:
        """Any answer but a 401, for which a token is got once.

        Args:
            content: makes the request's body, once for each time it is sent.
            redirects: whether they are followed.

        Raises:
            Unauthorized: the registry wants to know who asks.
            httpx.HTTPError: there is no answer.
        """
        for _ in range(2):
            given = dict(headers or {})
            if self._token and httpx.URL(url).netloc.decode() == self.host:  # a token is for nobody else
                given["Authorization"] = f"Bearer {self._token}"
            async with self._client.stream(
                method, url, headers=given, content=content() or None, follow_redirects=redirects
            ) as response:
                if response.status_code != 401:
                    yield response
                    return
                challenge = response.headers.get("www-authenticate", "")
                at = response.url
            await self._authorize(challenge, at)
        raise Unauthorized("unauthorized: access denied")

    async def _authorize(self, challenge: str, at: httpx.URL) -> None:
        """Gets the token that a 401 asks for.

        Raises:
            Unauthorized: there is none without signing in, or the place to ask is another host.
        """
        found = dict(_CHALLENGE.findall(challenge))
        try:
            realm = httpx.URL(found.get("realm", ""))
        except httpx.InvalidURL:
            realm = httpx.URL("")
        host = realm.netloc.decode()
        if _ALIASES.get(host, host) != _ALIASES.get(self.host, self.host) or realm.scheme not in ("https", at.scheme):
            raise Unauthorized(f'realm host "{host}" does not match original host "{self.host}"')
        query = [("service", found.get("service", ""))]
        query += [("scope", scope) for scope in found.get("scope", "").split(" ")]
        try:
            async with self._client.stream("GET", realm.copy_merge_params(httpx.QueryParams(query))) as response:
                token = _token(await _first_bytes(response, _LONGEST_GRANT)) if response.status_code < 400 else ""
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransferError(told("GET", str(realm), error)) from error
        if not token:
            raise Unauthorized(
                f"unauthorized: {self.host} wants a signed-in user's key, and bankml has none "
                f"({response.status_code} {response.reason_phrase})"
            )
        self._token = token


def _check_host(url: str, host: str) -> None:
    """That a registry's host can be one: an address, or a name that is read the same everywhere, and a port.

    Raises:
        TransferError: it cannot.
    """
    try:
        parts = httpx.URL(url)
        named = bool(parts.host)  # an international name is decoded here
        port = parts.port or 0
    except (httpx.InvalidURL, ValueError):
        named, port = False, 0
    if not named or port > 65535:
        raise TransferError(f"{host} is no registry's address")


class BlobSource:
    """A blob of a registry, by ranges. Where the registry sends on to another host, that one is asked afterwards."""

    def __init__(self, registry: Registry, blob: Blob) -> None:
        self._registry = registry
        self._url = f"{registry.base}/blobs/{blob.digest}"
        self._direct: str | None = None

    @property
    def host(self) -> str:
        return self._registry.host

    @asynccontextmanager
    async def open(self, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """As `Source.open`."""
        async with self._registry.send("GET", self._direct or self._url, headers=headers) as response:
            if response.status_code in (200, 206):
                self._direct = str(response.url) if response.history else self._direct
            yield response

    async def refusal(self, response: httpx.Response) -> str:
        """As `Source.refusal`."""
        error = await refused(response)
        if self._direct is not None:
            self._direct = None  # such addresses are good for some time only: the registry is asked for another
            return str(error)
        if response.status_code in RETRY_STATUS:
            return str(error)
        raise error


async def refused(response: httpx.Response) -> TransferError:
    """The error in an answer: its status and body, as Ollama says it."""
    if response.status_code == 404:
        return NotThere()
    data = await _first_bytes(response, _LONGEST_REFUSAL)
    return Refused(response.status_code, data.decode("utf-8", "replace"))


async def _first_bytes(response: httpx.Response, limit: int) -> bytes:
    """A body as it came, not unpacked, and no more of it than `limit` bytes."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > limit:
            break
    return bytes(data[:limit])


def _token(grant: bytes) -> str:
    try:
        found: Any = orjson.loads(grant)
    except orjson.JSONDecodeError:
        return ""
    token = found.get("token") or found.get("access_token") if isinstance(found, dict) else ""
    if isinstance(token, str) and len(token) <= _LONGEST_TOKEN and token.isascii() and token.isprintable():
        return token
    return ""


def told(method: str, url: str, error: Exception) -> str:
    """Why a request got no answer, in the words of Go's client, which Ollama's people know."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    host = parts.raw_host.decode()  # as it was written: not every one that begins as an international one is one
    port = parts.port or (443 if parts.scheme == "https" else 80)
    cause: BaseException | None = error
    text = reason(error)
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError) or getattr(cause, "errno", None) == errno.ECONNREFUSED:
            text = f"dial tcp {host}:{port}: connect: connection refused"
        elif isinstance(cause, socket.gaierror):
            text = f"dial tcp: lookup {host}: no such host"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.RemoteProtocolError):
        text = "EOF"
    elif isinstance(error, httpx.TooManyRedirects):
        text = "stopped after 10 redirects"
    elif isinstance(error, httpx.TimeoutException):
        text = "no answer in time"
    return f'{method.capitalize()} "{url}": {text}'
