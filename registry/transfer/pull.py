"""Pull: a model out of a registry into the folder, step by step as Ollama does it and says it.

The manifest says what there is; each layer is fetched, checked and, when it is weights, judged from its header; then
the manifest of ours is written. Until then the model is what it was before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from registry.derived import Base, DerivedModel, Layer
from registry.folder import ModelFolder
from registry.gguf_guard import judge
from registry.names import ModelName
from registry.transfer import manifest
from registry.transfer.blobs import Arrivals, Arriving
from registry.transfer.client import Registry, open_client
from registry.transfer.errors import NotPlayable, TransferError
from registry.transfer.fetch import Patience
from registry.transfer.manifest import Manifest
from registry.transfer.ticks import Progress, ticks


def no_check(layer: Layer) -> None:
    """Takes every layer."""


class Puller:
    """Pulls into one folder; pulls of the same blobs share them.

    Args:
        folder: where models go.
        check: raises when a layer cannot be applied here.
        patience: how long a peer is waited for.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        check: Callable[[Layer], None] = no_check,
        patience: Patience | None = None,
    ) -> None:
        self._folder = folder
        self._check = check
        self._patience = patience or Patience()
        self._arrivals = Arrivals(folder, judged, self._patience)

    async def pull(self, name: ModelName, *, insecure: bool = False) -> AsyncGenerator[Progress, None]:
        """Pulls a model and says how far it is. Closing the generator stops it; the next pull goes on.

        Args:
            name: which; its host is the registry.
            insecure: HTTP instead of HTTPS.

        Raises:
            DownloadError: it does not come, or is not what the manifest says.
            NotPlayable: it is not played here.
            FolderError: the folder does not take it.
        """
        yield Progress("pulling manifest")
        async with await open_client(self._patience) as client:
            registry = Registry(client, name, insecure=insecure)
            try:
                found = manifest.parse(await registry.manifest())
            except NotPlayable:
                raise
            except TransferError as error:
                raise TransferError(f"pull model manifest: {error}") from error
            async for line in self._bring(name, registry, found):
                yield line

    async def _bring(self, name: ModelName, registry: Registry, found: Manifest) -> AsyncGenerator[Progress, None]:
        """Everything behind the manifest."""
        async with AsyncExitStack() as stack:
            under_way: list[Arriving] = []
            for blob in found.blobs:
                arriving = await stack.enter_async_context(self._arrivals.of(blob, registry.blob(blob)))
                under_way.append(arriving)
                counted = ticks(partial(_completed, arriving), arriving.task, arriving.arrived)
                async with aclosing(counted):
                    async for completed in counted:
                        yield Progress(f"pulling {blob.short}", blob.digest, blob.size, completed)
            yield Progress("verifying sha256 digest")
            texts = [(arriving.blob, await asyncio.shield(arriving.task)) for arriving in under_way]
            layer = manifest.layer_of(found.weights, [each for each in texts if not each[0].is_weights])
            self._check(layer)
            yield Progress("writing manifest")
            before = await asyncio.to_thread(self._write, name, layer)
        if before is not None and before.digest != layer.digest:
            yield Progress("removing unused layers")
            await asyncio.to_thread(self._folder.drop_unused, before)
        yield Progress("success")

    def _write(self, name: ModelName, layer: Layer) -> DerivedModel | None:
        """Writes the model's manifest.

        Returns:
            what had the name before.
        """
        folder, path = self._folder, self._folder.blob_path(layer.base_sha256)
        before = folder.find(name)
        base = Base(name=name.shown, file=path.name, sha256=layer.base_sha256, fork=None, path=path)
        folder.write(DerivedModel(name, datetime.now(UTC), base, layer))
        if not path.is_file():
            raise TransferError(f"{path} was removed meanwhile; pull again")
        return before


def _completed(arriving: Arriving) -> int:
    return arriving.completed


def judged(path: Path) -> None:
    """That a file of weights is played here, by its header.

    Raises:
        NotPlayable: it is not; the reasons are named.
    """
    report = judge(path)
    if report.verdict != "play":
        raise NotPlayable(f"the model cannot be played: {'; '.join(report.reasons)}")
