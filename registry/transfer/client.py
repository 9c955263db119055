"""A registry of Ollama's kind over HTTP: Docker's distribution protocol, version 2, as Ollama speaks it.

Hugging Face answers the same requests at `hf.co` (`hf.co/owner/name:QUANT`), with a manifest it makes for a GGUF file
of the repository, so that it needs nothing of its own. Where a registry asks for a token, one is asked for at the place
it names, which must be the registry's own host, in a request that is signed with the user's key (Ollama's
`server/auth.go`). Without a key it is asked for without a signature: some give everyone one.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import httpx
import orjson

from registry.names import ModelName
from registry.transfer.connection import Client, first_bytes, told
from registry.transfer.errors import NotThere, Refused, TransferError, Unauthorized
from registry.transfer.fetch import RETRY_STATUS, Patience
from registry.transfer.key import NoKey, signature
from registry.transfer.manifest import MAX_MANIFEST, MEDIA_TYPE, Blob

_ALIASES: Final = {"hf.co": "huggingface.co"}
"""Registries that name another host for tokens, which is theirs too. Ollama refuses that; here it is asked, without a
signature, for what everyone is given."""
_LONGEST_REFUSAL: Final = 4096  # bytes of an error's body that are shown
_LONGEST_GRANT: Final = 1 << 20  # bytes of an answer with a token
_LONGEST_TOKEN: Final = 1 << 14  # bytes: it goes into a header
_CHALLENGE: Final = re.compile(r'\b(\w+)="([^"]*)"')
_LOOPBACK: Final = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))
"""No proxy for this machine, as Go's client has it."""


async def open_client(patience: Patience) -> Client:
    """A client for registries; proxies and certificates are the environment's."""
    context = await asyncio.to_thread(ssl.create_default_context)
    return Client(
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

    def __init__(self, client: Client, name: ModelName, *, insecure: bool = False) -> None:
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
        return self._client.stream("PUT", url, headers=headers, content=content(), follow_redirects=False)

    async def manifest(self) -> bytes:
        """The manifest's bytes, as they are.

        Raises:
            TransferError: it cannot be had.
        """
        url = f"{self.base}/manifests/{self.name.tag}"
        async with self.request("GET", url, headers={"Accept": MEDIA_TYPE}) as response:
            data = await first_bytes(response.aiter_raw(), MAX_MANIFEST + 1)
        if len(data) > MAX_MANIFEST:
            raise TransferError(f"the manifest has more than {MAX_MANIFEST} bytes")
        return data

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
        own = self._is_own(httpx.URL(url))
        for _ in range(2):
            given = dict(headers or {})
            if self._token and own:  # a token is for nobody else
                given["Authorization"] = f"Bearer {self._token}"
            async with self._client.stream(
                method, url, headers=given, content=content() or None, follow_redirects=redirects
            ) as response:
                if response.status_code != 401 or not own:
                    yield response
                    return
                challenge = response.headers.get("www-authenticate", "")
            await self._authorize(challenge)
        raise Unauthorized("unauthorized: access denied")

    def _is_own(self, url: httpx.URL) -> bool:
        """Whether an address is the registry's: its host and port, and no less safe than the registry is."""
        own = httpx.URL(self.base)
        return url.netloc == own.netloc and url.scheme in ("https", own.scheme)

    def _is_elsewhere(self, realm: httpx.URL) -> Unauthorized:
        """What is said of a place for tokens that is another host's; the text is Ollama's."""
        host = realm.netloc.decode()
        return Unauthorized(f'realm host "{host}" does not match original host "{self.host}"')

    async def _authorize(self, challenge: str) -> None:
        """Gets the token that a 401 asks for, with a request that the user's key signs.

        Raises:
            Unauthorized: there is none for this key, or the place to ask is another host.
            TransferError: there is no key and none without one, or no answer.
        """
        url = self._token_url(dict(_CHALLENGE.findall(challenge)))
        unsigned: TransferError | None = None
        headers = {}
        if not self._is_own(url):
            unsigned = self._is_elsewhere(url)
        else:
            try:
                headers["Authorization"] = await asyncio.to_thread(signature, "GET", str(url))
            except NoKey as error:
                unsigned = error.for_registry(self.host)
        try:
            async with self._client.stream("GET", url, headers=headers) as response:  # a redirect elsewhere drops it
                grant = await first_bytes(response.aiter_raw(), _LONGEST_GRANT)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransferError(told("GET", str(url), error)) from error
        token = _token(grant) if response.status_code < 400 else ""
        if not token and unsigned is not None:
            raise unsigned
        if response.status_code >= 400:
            text = grant[:_LONGEST_REFUSAL].decode("utf-8", "replace")
            raise Unauthorized(f"{response.status_code}: {text}" if text else str(response.status_code))
        if not token:
            raise Unauthorized("unauthorized: access denied")
        self._token = token

    def _token_url(self, challenge: Mapping[str, str]) -> httpx.URL:
        """Where a token is asked for: the place that a challenge names, with a query as Go's client would write it.

        Raises:
            Unauthorized: it is not the registry's.
        """
        try:
            realm = httpx.URL(challenge.get("realm", ""))
        except httpx.InvalidURL:
            realm = httpx.URL("")
        host = realm.netloc.decode()
        if not self._is_own(realm) and (_ALIASES.get(self.host), "https") != (host, realm.scheme):
            if host == httpx.URL(self.base).netloc.decode():
                raise Unauthorized(f'realm "{realm}" is not reached over HTTPS')
            raise self._is_elsewhere(realm)
        query = parse_qsl(realm.query.decode(), keep_blank_values=True)
        query.append(("service", challenge.get("service", "")))
        query += [("scope", scope) for scope in challenge.get("scope", "").split(" ")]
        query += [("ts", str(int(time.time()))), ("nonce", secrets.token_urlsafe(16))]
        query.sort(key=lambda pair: pair[0])  # by name alone: values keep their order
        written = urlencode(query).encode()
        return realm.copy_with(username=None, password=None, fragment=None, query=written)


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
    data = await first_bytes(response.aiter_raw(), _LONGEST_REFUSAL)
    return Refused(response.status_code, data.decode("utf-8", "replace"))


def _token(grant: bytes) -> str:
    try:
        found: Any = orjson.loads(grant)
    except orjson.JSONDecodeError:
        return ""
    token = found.get("token") or found.get("access_token") if isinstance(found, dict) else ""
    if isinstance(token, str) and len(token) <= _LONGEST_TOKEN and token.isascii() and token.isprintable():
        return token
    return ""
