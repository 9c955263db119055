"""Where a wheel lies on a Python package index, as the user's pip would find it.

The index, proxy and certificates are pip's: its environment variables and configuration files, read through
`pip config list`; without pip, its environment variables alone. The index is asked by its simple API, in JSON
(PEP 691) or HTML (PEP 503), and no longer than whoever asks waits.
"""

from __future__ import annotations

import ast
import asyncio
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from registry.errors import DownloadError
from registry.index_page import Link, links_of, split
from registry.pins import WheelPin
from registry.transfer.connection import Client, first_bytes, reason
from registry.transfer.threads import Look, unwatched

PUBLIC_INDEX = "https://pypi.org/simple"
_NO_INDEX = "pip's configuration names no index that can be reached over HTTP"
_PIP_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_USER_AGENT = "bankml"
_LARGEST_PAGE: Final = 64 << 20  # bytes; the longest of PyPI's have some 20 million


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """How to reach package indexes.

    Args:
        indexes: base URLs of simple indexes, in order.
        proxy: URL of a proxy, None for what the environment says.
        cert: file or folder of certificate authorities, None for the usual ones.
        client_cert: file with the client's certificate and key.
        trusted_hosts: hosts (`name` or `name:port`) whose certificate is not checked.
        timeout: seconds without a byte before a connection counts as dead.
    """

    indexes: tuple[str, ...] = (PUBLIC_INDEX,)
    proxy: str | None = None
    cert: str | None = None
    client_cert: str | None = None
    trusted_hosts: frozenset[str] = frozenset()
    timeout: float = 30.0

    async def open_client(self, url: str) -> Client:
        """As `client`; the certificates, which take their time, are read in another thread."""
        return await asyncio.to_thread(self.client, url)

    def client(self, url: str) -> Client:
        """A client for one host: follows redirects, uses the proxy and certificates configured.

        Raises:
            DownloadError: a certificate file cannot be used, or the URL is none.
        """
        if (parts := split(url)) is None:
            raise DownloadError("the package index names an address that is none")  # it may hold a password
        verify: ssl.SSLContext | bool = not ({parts.hostname, parts.netloc.rpartition("@")[2]} & self.trusted_hosts)
        try:
            if verify and (self.cert or self.client_cert):
                verify = _ssl_context(self.cert, self.client_cert)
            return Client(
                verify=verify,
                proxy=self.proxy,
                follow_redirects=True,
                timeout=self.timeout,
                headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"},
            )
        except (OSError, ValueError, httpx.InvalidURL) as error:
            raise DownloadError(f"cannot use pip's proxy or certificate settings: {error}") from error


def _ssl_context(cert: str | None, client_cert: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if cert and os.path.isdir(cert):
        context.load_verify_locations(capath=cert)
    elif cert:
        context.load_verify_locations(cafile=cert)
    if client_cert:
        context.load_cert_chain(client_cert)
    return context


def pip_config(look: Look = unwatched) -> IndexConfig:
    """pip's configuration, as `pip download` would use it here.

    Args:
        look: called again and again while pip is asked, which is a program of its own.
    """
    return config_from(_pip_settings(look))


def config_from(settings: Mapping[str, str]) -> IndexConfig:
    """The part of pip's settings (`index-url`, `extra-index-url`, `proxy`, ...) that says how to reach an index.

    Indexes that are not HTTP (`file:` ones) are left out: pip itself is asked when no other has the file.
    """
    indexes: list[str] = []
    if settings.get("no-index", "").lower() not in {"1", "true", "yes", "on", "y", "t"}:
        indexes += [settings.get("index-url") or PUBLIC_INDEX, *settings.get("extra-index-url", "").split()]
    try:
        timeout = float(settings.get("timeout") or settings.get("default-timeout") or 30.0)
    except ValueError:
        timeout = 30.0
    return IndexConfig(
        indexes=tuple(url for url in indexes if url.startswith(("http://", "https://"))),
        proxy=settings.get("proxy") or None,
        cert=settings.get("cert") or None,
        client_cert=settings.get("client-cert") or None,
        trusted_hosts=frozenset(settings.get("trusted-host", "").split()),
        timeout=min(max(timeout, 1.0), 60.0),
    )


def _pip_settings(look: Look) -> dict[str, str]:
    """pip's settings by name: files, over them the `download` section, over them the environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        lines = _output_of(command, look).splitlines()
    except (OSError, subprocess.SubprocessError):
        lines = []
    found: dict[str, dict[str, str]] = {"global": {}, "download": {}}
    for line in lines:
        key, separator, value = line.partition("=")
        section, dot, name = key.partition(".")
        if separator and dot and section in found:
            found[section][name.replace("_", "-")] = _unquoted(value)
    environment = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_") and value
    }
    return found["global"] | found["download"] | environment


def _output_of(command: list[str], look: Look) -> str:
    """What a program says that takes a minute at the most and ends well.

    Raises:
        OSError, subprocess.SubprocessError: there is none, or it does not.
    """
    end = time.monotonic() + _PIP_SECONDS
    none = subprocess.DEVNULL
    with subprocess.Popen(command, text=True, stdin=none, stdout=subprocess.PIPE, stderr=none) as process:
        try:
            while True:
                look()
                try:
                    said, _ = process.communicate(timeout=_LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise
                else:
                    break
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return said


def _unquoted(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value.strip("'\"")


async def find_wheel(config: IndexConfig, wheel: WheelPin) -> Link:
    """Where the first index that has the wheel keeps it.

    Raises:
        DownloadError: no index has it or none can be reached; the text says which was asked.
    """
    problem = _NO_INDEX
    async for shown, found in _pages(config, wheel.project):
        if isinstance(found, str):
            problem = found
        elif (link := found.get(wheel.file_name)) is None:
            problem = f"{shown} does not have {wheel.file_name}"
        elif link.sha256 not in (None, wheel.sha256):
            problem = f"{shown} has another {wheel.file_name} than the pinned one (sha256 {link.sha256})"
        else:
            return link
    raise DownloadError(problem)


async def files_of(config: IndexConfig, project: str) -> dict[str, Link]:
    """Every file of a project at the first index that has any, by name.

    Raises:
        DownloadError: no index has one or none can be reached; the text says which was asked.
    """
    problem = _NO_INDEX
    async for shown, found in _pages(config, project):
        if isinstance(found, str):
            problem = found
        elif found:
            return found
        else:
            problem = f"{shown} has no file"
    raise DownloadError(problem)


async def _pages(config: IndexConfig, project: str) -> AsyncIterator[tuple[str, dict[str, Link] | str]]:
    """Each index's page of a project: its address without a password, and its files by name, or what is wrong."""
    for index in config.indexes:
        page = f"{index.rstrip('/')}/{project}/"
        parts = split(page)
        if parts is None:
            yield "", "an index of pip's configuration is no address"  # it may hold a password
            continue
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        try:
            async with (
                await config.open_client(page) as client,
                client.stream("GET", page, headers={"Accept": _ACCEPT}) as response,
            ):
                data = await first_bytes(response.aiter_bytes(), _LARGEST_PAGE + 1)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            yield shown, f"cannot reach {shown}: {reason(error)}"
            continue
        if response.status_code != 200:
            yield shown, f"{shown} answered {response.status_code} {response.reason_phrase}".rstrip()
            continue
        if len(data) > _LARGEST_PAGE:
            yield shown, f"{shown} has more than {_LARGEST_PAGE} bytes"
            continue
        is_json = "json" in response.headers.get("content-type", "")
        links = await asyncio.to_thread(links_of, data, str(response.url), is_json=is_json)
        yield shown, {name: Link(with_password_of(page, link.url), link.sha256) for name, link in links.items()}


def with_password_of(index: str, url: str) -> str:
    """The URL with the index's user and password when it lies on the same host and names none, as pip does.

    Not where that would send in the clear what goes to the index over HTTPS.
    """
    ours, theirs = split(index), split(url)
    if ours is None or theirs is None or "@" not in ours.netloc or "@" in theirs.netloc:
        return url
    if (ours.hostname, ours.port) != (theirs.hostname, theirs.port) or theirs.scheme not in ("https", ours.scheme):
        return url
    return theirs._replace(netloc=f"{ours.netloc.rpartition('@')[0]}@{theirs.netloc}").geturl()
