"""Create: a derived model out of weights that are here (a model, a blob, files that came as blobs) and a layer.

The steps, what each says of itself, and what a new model takes over from the one it is made from, are those of
Ollama's `server/create.go`. Nothing is written before the last step, and that is one rename.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from engine.model import ModelOptions
from registry.blobs import InvalidDigest, hex_of
from registry.catalog import Catalog, Entry
from registry.conversion.uploads import converted
from registry.derived import Base, DerivedModel, Layer, Message
from registry.errors import CreateRefused, ModelNotFound, RegistryError
from registry.folder import FolderError, ModelFolder
from registry.fork_file import pins_in
from registry.gguf_guard import Report, judge
from registry.names import ModelName
from registry.ollama_blobs import messages_blob, params_blob

_MAGIC: Final = b"GGUF"
_TEMPLATE: Final = "tokenizer.chat_template"
_FLOATS: Final = {0: "F32", 1: "F16", 32: "BF16"}
"""`general.file_type` of weights that Ollama would quantize, by number."""
_QUANTIZED: Final = ("F32", "F16", "BF16", "Q8_0", "Q4_K_S", "Q4_K_M", "Q4_K")
"""What Ollama quantizes to."""
_MOST_TEXTS: Final = 10_000
"""Licences and messages of a model at most."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a new model is made of.

    Args:
        name: what it is called.
        source: a model's name, a blob's digest, or the path of a model's file that is here; "" where there are files.
        files: names and digests of blobs: one GGUF file, or a set of safetensors.
        system: the system message; "" for the source's.
        template: the weights' own chat template; "" for the source's.
        license: added to the source's.
        parameters: over the source's, one by one; all but `stop`.
        stop: instead of the source's; None for the source's.
        messages: instead of the source's, if there are any.
        requires: "" for the source's.
        quantize: the type the weights are to have; "" for the one they have.
    """

    name: ModelName
    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    template: str = ""
    license: tuple[str, ...] = ()
    parameters: Mapping[str, bool | int | float] = field(default_factory=dict)
    stop: tuple[str, ...] | None = None
    messages: tuple[Message, ...] = ()
    requires: str = ""
    quantize: str = ""


Pull = Callable[[ModelName], AsyncGenerator[Mapping[str, Any], None]]
"""Fetches a model that is not here, and says how far it is."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """The weights of a new model, and the layer it takes over.

    Attributes:
        base: what the manifest says of the weights.
        below: the layer.
        path: where they lie now.
        is_new: whether they are yet to be made a blob.
    """

    base: Base
    below: Layer
    path: Path
    is_new: bool = False


class Creator:
    """Makes models in the folder of a catalog.

    Args:
        catalog: the models that are here; has a folder.
        options: how files are opened, which decides whether they are played.
        pull: fetches a source that is not here; None: it is an error then.
    """

    def __init__(self, catalog: Catalog, options: ModelOptions, pull: Pull | None = None) -> None:
        if catalog.folder is None:
            raise ValueError("the catalog has no folder")
        self._catalog = catalog
        self._folder: ModelFolder = catalog.folder
        self._options = options
        self._pull = pull

    async def create(self, recipe: Recipe) -> AsyncGenerator[Mapping[str, Any], None]:
        """Makes a model and says how far it is, as Ollama's progress objects (`status` and, of a pull, more).

        Closing the generator stops what is under way and leaves nothing of it but what a pull goes on with.

        Raises:
            CreateRefused, ConversionRefused: it cannot be made so.
            ModelNotFound: the source, or a blob, is not here.
            RegistryError: the source is not to be used; the folder cannot be written.
        """
        recipe = replace(recipe, name=await asyncio.to_thread(self._free_name, recipe.name))
        if recipe.source:
            async with aclosing(self._bring(recipe.source)) as pulled:
                async for line in pulled:
                    yield line
            origin = await asyncio.to_thread(self._from, recipe.source)
            async for line in self._made(recipe, origin):
                yield line
            return
        async with AsyncExitStack() as kept:
            blobs = await asyncio.to_thread(self._blobs, recipe.files)
            if any(name.endswith(".safetensors") for name in blobs):
                yield {"status": "converting model"}
                origin = await self._converted(blobs, recipe.name.model, kept)
            else:
                signs = await asyncio.to_thread(_gguf_signs, blobs)
                yield {"status": "parsing GGUF"}
                name = _only_gguf(signs)
                origin = _over_blob(blobs[name], hex_of(recipe.files[name]), name)
            async for line in self._made(recipe, origin):
                yield line

    async def _made(self, recipe: Recipe, origin: _Origin) -> AsyncGenerator[Mapping[str, Any], None]:
        """The last steps: the model over weights that are here."""
        report = await asyncio.to_thread(judge, origin.path, self._options)
        if report.verdict != "play":
            raise CreateRefused(f"these weights are not played: {'; '.join(report.reasons)}")
        _check_quantize(recipe.quantize, report)
        layer = _layer(recipe, origin.below, report)
        known = await asyncio.to_thread(self._known)
        for digest in _parts(layer, recipe, origin.below):
            yield {"status": f"{'using existing' if digest in known else 'creating new'} layer sha256:{digest}"}
        yield {"status": "writing manifest"}
        model = DerivedModel(recipe.name, datetime.now(UTC), origin.base, layer)
        await asyncio.to_thread(self._write, model, origin)
        yield {"status": "success"}

    def _free_name(self, name: ModelName) -> ModelName:
        """The name as a new model bears it.

        Raises:
            CreateRefused: it would never be asked for by it: a file that is here has this name.
        """
        if (file := self._catalog.file_named(name.shown)) is not None:
            raise CreateRefused(f"'{name.shown}' is the name of the file {file.path.name}: take another")
        return self._folder.existing_name(name)

    async def _bring(self, source: str) -> AsyncGenerator[Mapping[str, Any], None]:
        """Pulls a source that is not here, where that is possible."""
        if self._pull is None or await asyncio.to_thread(self._file_of, source) is not None:
            return
        try:
            await self._catalog.find(source)
        except ModelNotFound:
            async with aclosing(self._pull(ModelName.parse(source))) as lines:
                async for line in lines:
                    if line.get("status") != "success":  # of the pull: what was asked for is not done yet
                        yield line

    def _from(self, source: str) -> _Origin:
        """The weights and the layer of a source that is here."""
        found = self._file_of(source)
        if isinstance(found, Path):
            return _over_blob(found, found.name.removeprefix("sha256-"), found.name)
        name = found.shown if found else ModelName.parse(source).shown
        entry = found or self._catalog.resolve(name)
        entry.require_usable()
        derived = None if entry.layer is None else self._folder.find(ModelName.parse(entry.shown))
        if derived is not None:
            return _Origin(replace(derived.base, name=name), derived.layer, entry.path)
        pins = pins_in(self._folder.path)
        pin = next((pin for pin in pins if (pin.file_name, pin.sha256) == (entry.path.name, entry.sha256)), None)
        base = Base(name, entry.path.name, entry.sha256, None if pin is None else pin.fork.name, entry.path)
        return _Origin(base, Layer(entry.sha256), entry.path)

    def _file_of(self, source: str) -> Path | Entry | None:
        """What a source that is no name means: a blob of the folder, or the model whose file lies at this path."""
        if source.startswith("/"):
            path = Path(source)
            if path.parent == self._folder.blobs and path.is_file():
                return path
            return next((entry for entry in self._catalog.entries() if entry.path == path), None)
        try:
            return self._blob(source.removeprefix("@")) if source.startswith(("sha256:", "@sha256:")) else None
        except InvalidDigest:
            return None

    def _blob(self, digest: str) -> Path:
        """Where a blob lies.

        Raises:
            InvalidDigest: `digest` is none.
            CreateRefused: it is not here.
        """
        path = self._folder.blob_path(digest)
        if not path.is_file():
            raise CreateRefused(f'blob "{digest}" not found')
        return path

    def _blobs(self, files: Mapping[str, str]) -> dict[str, Path]:
        """Where the blobs of files lie, by the files' names; errors as `_blob`."""
        return {name: self._blob(digest) for name, digest in sorted(files.items())}

    async def _converted(self, blobs: Mapping[str, Path], name: str, kept: AsyncExitStack) -> _Origin:
        """The weights that safetensors become; they lie where they do as long as `kept` is open."""
        report = await kept.enter_async_context(converted(self._folder, blobs, name))
        blob = self._folder.blob_path(report.sha256)
        base = Base(f"{name}.gguf", blob.name, report.sha256, None, blob)
        return _Origin(base, Layer(report.sha256), report.output, is_new=True)

    def _known(self) -> set[str]:
        """The digests of everything that models here are made of."""
        known = {entry.sha256 for entry in self._catalog.entries()}
        for model in self._folder.derived()[0]:
            known.update(_contents(model.layer))
        return known | {path.name.removeprefix("sha256-") for path in self._folder.blobs.glob("sha256-*")}

    def _write(self, model: DerivedModel, origin: _Origin) -> None:
        before = self._folder.find(model.name)
        if origin.is_new:
            self._folder.adopt_blob(origin.path, model.base.sha256)
        try:
            self._folder.write(model)
        except RegistryError:
            if origin.is_new:
                self._folder.drop_unused(model)
            raise
        if before is not None:
            self._folder.drop_unused(before)
        self._catalog.refresh()


def _over_blob(path: Path, sha256_hex: str, name: str) -> _Origin:
    return _Origin(Base(name, path.name, sha256_hex, None, path), Layer(sha256_hex), path)


def _gguf_signs(blobs: Mapping[str, Path]) -> dict[str, bool]:
    """Whether each file begins as a GGUF file does.

    Raises:
        CreateRefused: none does, nor is named like one.
    """
    signs = {name: _is_gguf(path) for name, path in blobs.items()}
    if not any(name.endswith(".gguf") or sign for name, sign in signs.items()):
        raise CreateRefused("unknown type")
    return signs


def _only_gguf(signs: Mapping[str, bool]) -> str:
    """The name of the one file.

    Raises:
        CreateRefused: it is not GGUF, or not the only one.
    """
    if not all(signs.values()):
        raise CreateRefused("supplied file was not in GGUF format")
    if len(signs) > 1:
        raise CreateRefused("weights in several GGUF files are not supported: merge them into one")
    return next(iter(signs))


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise FolderError(f"cannot read {path}: {error.strerror or error}") from error


def _check_quantize(asked: str, report: Report) -> None:
    """That the weights have the type that is asked for."""
    if not asked:
        return
    wanted = asked.upper()
    if wanted not in _QUANTIZED:
        supported = "F32, F16, Q4_K_S, Q4_K_M, Q8_0"
        raise CreateRefused(f"unsupported quantization type {wanted} - supported types are {supported}")
    metadata = report.header.metadata if report.header else {}
    has = _FLOATS.get(metadata.get("general.file_type", -1))
    if has is None:
        raise CreateRefused("quantization is only supported for F16, BF16 and F32 models")
    if has != wanted:
        raise CreateRefused(f"quantizing {has} weights to {wanted} is not supported: make the file with llama-quantize")


def _layer(recipe: Recipe, below: Layer, report: Report) -> Layer:
    """The new model's layer over that of its source."""
    template = below.template_sha256
    if recipe.template:
        own = report.header.metadata.get(_TEMPLATE) if report.header else None
        if recipe.template != own:
            raise CreateRefused(
                "TEMPLATE is not supported unless it is the chat template of the weights: "
                "Ollama's are programs in Go's template language, and the weights' own (Jinja) is used here"
            )
        template = _sha256(recipe.template.encode())
    license = (*below.license, *recipe.license)
    for what, parts in (("licenses", license), ("messages", recipe.messages)):
        if len(parts) > _MOST_TEXTS:
            raise CreateRefused(f"a model has at most {_MOST_TEXTS} {what}")
    return Layer(
        base_sha256=below.base_sha256,
        system=recipe.system or below.system,
        parameters={**below.parameters, **recipe.parameters},
        stop=below.stop if recipe.stop is None else recipe.stop,
        template_sha256=template,
        license=license,
        messages=recipe.messages or below.messages,
        requires=recipe.requires or below.requires,
    )


def _parts(layer: Layer, recipe: Recipe, below: Layer) -> Iterator[str]:
    """SHA-256 of the layers Ollama would give the new model, in its order: what stays, then what is new."""
    texts = [("template", recipe.template), ("system", recipe.system)]
    new = {name for name, text in texts if text} | ({"messages"} if recipe.messages else set())
    yield layer.base_sha256
    for is_new in (False, True):
        if layer.template_sha256 and ("template" in new) == is_new:
            yield layer.template_sha256
        if layer.system and ("system" in new) == is_new:
            yield _sha256(layer.system.encode())
        yield from (_sha256(text.encode()) for text in (recipe.license if is_new else below.license))
        if is_new and (params := params_blob(layer)):  # written anew each time
            yield _sha256(params)
        if layer.messages and ("messages" in new) == is_new:
            yield _sha256(messages_blob(layer))


def _contents(layer: Layer) -> Iterator[str]:
    """SHA-256 of everything Ollama would keep of a layer as a blob of its own."""
    yield layer.base_sha256
    texts = [text.encode() for text in (layer.system or "", *layer.license)]
    yield from (_sha256(blob) for blob in (*texts, params_blob(layer), messages_blob(layer)) if blob)
    if layer.template_sha256:
        yield layer.template_sha256


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()
