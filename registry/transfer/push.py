"""Push: a model out of the folder into a registry, step by step as Ollama does it and says it.

The layers of a model are made from what it is: weights, template, system message, licenses, parameters and messages,
each as Ollama writes it, so that the same layer has the same digest whoever made it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from registry.derived import Layer
from registry.errors import ModelFileChanged
from registry.names import ModelName
from registry.ollama_blobs import go_json, messages_blob, params_blob
from registry.pins import sha256_file
from registry.transfer import manifest
from registry.transfer.client import Registry, open_client, refused
from registry.transfer.connection import FINAL, reason
from registry.transfer.errors import NotThere, TransferError
from registry.transfer.fetch import RETRY_STATUS, Patience, asked_wait
from registry.transfer.manifest import Blob
from registry.transfer.partial import Part, parts_of
from registry.transfer.threads import Look, stoppable
from registry.transfer.ticks import Progress, ticks

_PIECE = 1 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A model to be pushed.

    Args:
        weights: its file.
        layer: what is over it.
        template: the text of the template it was pulled with; None for none.
        config: its configuration, as Ollama has it.
    """

    weights: Path
    layer: Layer
    template: bytes | None
    config: Mapping[str, Any]

    def texts(self) -> list[tuple[str, bytes]]:
        """The media type and bytes of every layer that is not weights, the configuration last."""
        layer = self.layer
        found: list[tuple[str, bytes]] = []
        if self.template is not None:
            found.append((manifest.TEMPLATE, self.template))
        if layer.system:
            found.append((manifest.SYSTEM, layer.system.encode()))
        found += [(manifest.LICENSE, text.encode()) for text in layer.license]
        if params := params_blob(layer):
            found.append((manifest.PARAMS, params))
        if messages := messages_blob(layer):
            found.append((manifest.MESSAGES, messages))
        return [*found, (manifest.CONFIG, go_json(self.config))]


@dataclass(frozen=True, slots=True)
class _Content:
    """A blob's bytes: in memory or in a file."""

    blob: Blob
    data: bytes | Path

    def read(self, start: int, size: int) -> bytes:
        if isinstance(self.data, bytes):
            return self.data[start : start + size]
        with self.data.open("rb") as file:
            file.seek(start)
            return file.read(size)


async def push(
    name: ModelName, model: Outgoing, *, insecure: bool = False, patience: Patience | None = None
) -> AsyncGenerator[Progress, None]:
    """Pushes a model and says how far it is. Closing the generator stops it.

    Args:
        name: what it is called; its host is the registry.
        insecure: HTTP instead of HTTPS.

    Raises:
        TransferError: the registry does not take it.
        ModelFileError, ModelFileChanged: the weights are not there, or others than they were.
    """
    patience = patience or Patience()
    contents = await stoppable(partial(_contents, model))
    async with await open_client(patience) as client:
        registry = Registry(client, name, insecure=insecure)
        for content in contents:
            blob = content.blob
            upload = _Upload(registry, content, patience)
            task = asyncio.create_task(upload.run())
            counted = ticks(partial(getattr, upload, "completed"), task)
            try:
                async with aclosing(counted):
                    async for completed in counted:
                        yield Progress(f"pushing {blob.short}", blob.digest, blob.size, completed)
            finally:
                task.cancel()
                await asyncio.wait({task})
        yield Progress("pushing manifest")
        await _put_manifest(registry, [content.blob for content in contents])
    yield Progress("success")


def _contents(model: Outgoing, look: Look) -> list[_Content]:
    """Every blob of a model, the configuration last.

    Raises:
        ModelFileError, ModelFileChanged: the weights are not there, or others than they were.
    """
    digest = sha256_file(model.weights, look)
    if digest.sha256 != model.layer.base_sha256:
        raise ModelFileChanged(model.weights)
    weights = Blob(manifest.MODEL, f"sha256:{digest.sha256}", digest.identity.size)
    texts = [
        _Content(Blob(media_type, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)), data)
        for media_type, data in model.texts()
    ]
    return [_Content(weights, model.weights), *texts]


async def _put_manifest(registry: Registry, blobs: list[Blob]) -> None:
    *layers, config = blobs
    body = {
        "schemaVersion": 2,
        "mediaType": manifest.MEDIA_TYPE,
        "config": config.as_json(),
        "layers": [layer.as_json() for layer in layers],
    }
    url = f"{registry.base}/manifests/{registry.name.tag}"
    headers = {"Content-Type": manifest.MEDIA_TYPE}
    async with registry.request("PUT", url, headers=headers, content=json.dumps(body, separators=(",", ":")).encode()):
        pass


class _Upload:
    """One blob on its way to a registry.

    Args:
        registry: where to.
        content: the blob.
        patience: how long the registry is waited for.
    """

    def __init__(self, registry: Registry, content: _Content, patience: Patience) -> None:
        self._registry = registry
        self._content = content
        self._patience = patience
        self._parts = parts_of(content.blob.size, patience.smallest_part)

    @property
    def completed(self) -> int:
        """Bytes that were sent."""
        return sum(part.done for part in self._parts)

    async def run(self) -> None:
        """Sends the blob, if the registry does not have it.

        Raises:
            TransferError: the registry does not take it.
        """
        if await self._is_there():
            for part in self._parts:
                part.done = part.size
            return
        place = await self._begin()
        sums = hashlib.md5(usedforsecurity=False)
        for part in self._parts:
            place = await self._send(place, part, sums)
        await self._commit(place, f"{sums.hexdigest()}-{len(self._parts)}")

    async def _is_there(self) -> bool:
        try:
            async with self._registry.request("HEAD", f"{self._registry.base}/blobs/{self._content.blob.digest}"):
                return True
        except NotThere:
            return False

    async def _begin(self) -> str:
        """Where the first part goes."""
        async with self._registry.request("POST", f"{self._registry.base}/blobs/uploads/") as response:
            return _next_place(response)

    async def _send(self, place: str, part: Part, sums: Any) -> str:
        """Sends a part, again where it may help.

        Returns:
            where the next one goes.
        """
        problem, wait = "", 0.0
        for failures in range(self._patience.attempts):
            if failures:
                await asyncio.sleep(self._patience.wait(failures, wait))
            try:
                place, part_sum = await self._send_once(place, part)
            except FINAL as error:
                raise TransferError(f"{self._registry.host} cannot be followed: {reason(error)}") from error
            except httpx.HTTPError as error:
                problem, wait = reason(error), 0.0
            except _Again as again:
                problem, wait = str(again), again.wait
            else:
                sums.update(part_sum)
                return place
        raise TransferError(f"max retries exceeded: {problem}")

    async def _send_once(self, place: str, part: Part) -> tuple[str, bytes]:
        """One try; gives where the next part goes, and the MD5 of this one."""
        sums = hashlib.md5(usedforsecurity=False)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(part.size),
            "X-Redirect-Uploads": "1",
            "Content-Range": f"{part.offset}-{part.end - 1}",
        }

        async def pieces() -> AsyncIterator[bytes]:
            nonlocal sums
            sums, part.done = hashlib.md5(usedforsecurity=False), 0
            while part.done < part.size:
                size = min(_PIECE, part.size - part.done)
                piece = await asyncio.to_thread(self._content.read, part.start, size)
                if len(piece) != size:
                    raise TransferError("the file was cut meanwhile")
                sums.update(piece)
                yield piece
                part.done += size

        async with self._registry.send("PATCH", place, headers=headers, content=pieces, redirects=False) as response:
            if response.status_code >= 300 and response.status_code != 307:  # the bytes were not taken
                raise await _problem(response)
            next_place = _next_place(response)
            target = _place_at(response, response.headers.get("location", ""))
        if response.status_code == 307:  # the bytes go to another place; the registry only counts them
            async with self._registry.send_elsewhere(target, part.size, pieces) as response:
                if response.status_code >= 300:
                    raise await _problem(response)
        return next_place, sums.digest()

    async def _commit(self, place: str, etag: str) -> None:
        query = httpx.QueryParams({"digest": self._content.blob.digest, "etag": etag})
        url = str(httpx.URL(place).copy_merge_params(query))
        headers = {"Content-Type": "application/octet-stream", "Content-Length": "0"}
        async with self._registry.request("PUT", url, headers=headers):
            pass


class _Again(Exception):
    """An answer that another try may change.

    Args:
        text: what it says.
        wait: seconds after which it says to come again.
    """

    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


def _next_place(response: httpx.Response) -> str:
    """Where an upload goes on.

    Raises:
        TransferError: the registry does not say.
    """
    location = response.headers.get("docker-upload-location") or response.headers.get("location") or ""
    if not location:
        raise TransferError("the registry does not say where to send a blob")
    return _place_at(response, location)


def _place_at(response: httpx.Response, location: str) -> str:
    """The address that an answer names.

    Raises:
        TransferError: it is none.
    """
    try:
        place = response.url.join(location)
    except httpx.InvalidURL as error:
        raise TransferError(f"the registry names a place that is none: {error}") from error
    if place.scheme not in ("http", "https") or not place.host:
        raise TransferError(f"the registry names a place that is none: {place}")
    return str(place)


async def _problem(response: httpx.Response) -> Exception:
    """An upload's refusal, as Ollama says it; `_Again` where another try may change it."""
    text = str(await refused(response)).partition(": ")[2]
    told = f"http status {response.status_code} {response.reason_phrase}: {text}"
    return _Again(told, asked_wait(response)) if response.status_code in RETRY_STATUS else TransferError(told)
