"""Names -> verified files: the file that was started with and, of a folder of models, its pins and its derived models.

A name is looked for in this order, letter case and `:latest` aside: the files' own names and the names of the command
line, derived models, short names (a file's name without its weight type, where no other file has the same), file names.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from registry.derived import Base, DerivedModel, Layer, ManifestRefused
from registry.download import model_path
from registry.errors import (
    ModelFileChanged,
    ModelFileError,
    ModelFileMissing,
    ModelNotFound,
    ModelRefused,
    PinMismatch,
)
from registry.folder import ModelFolder
from registry.fork_file import FilePin, pins_in
from registry.manifests import MANIFEST_ENDING, Unreadable, file_state
from registry.names import InvalidModelName, ModelName, split_source
from registry.pins import DEFAULT_MODEL, Digest, FileIdentity, Pin, sha256_file

# A weight type at the end of a file's stem: -f16, .Q4_1, -q4_k_m, -iq2_xxs, -q2_0_g64, ...
_WEIGHT_TYPE = re.compile(r"[-._](?:b?f16|f32|i?q[0-9](?:_[a-z0-9]+)*|tq[0-9]_[0-9]|mxfp4)$")
PINS = (DEFAULT_MODEL,)


@dataclass(frozen=True, slots=True)
class Entry:
    """A model that can be asked for, and the names it answers to.

    Args:
        name: its own name: a file's stem in lower case, a derived model's name as it was written.
        aliases: other names, in lower case, without `:latest`.
        path: the file of its weights, absolute.
        size: of that file in bytes, 0 while it is not there.
        sha256: of the whole file, hex: what every load checks.
        modified_at: when the file, or the derived model, changed last, UTC.
        identity: the file as it was when it was hashed; None while it was not.
        layer: what a derived model adds to its weights.
        made_of: the name that a derived model's weights were asked for by.
        manifest: a derived model's digest, hex.
        fork: the name of the FORK.json that pins the file; None for a file that was given, and for a blob.
        derived: whether it is a derived model, be its manifest good or bad.
        refused: why it cannot be used, whatever its file says; None when nothing is known against it.
    """

    name: str
    aliases: tuple[str, ...]
    path: Path
    size: int
    sha256: str
    modified_at: datetime
    identity: FileIdentity | None
    layer: Layer | None = None
    made_of: str = ""
    manifest: str = ""
    refused: str | None = None
    fork: str | None = None
    derived: bool = False

    @property
    def shown(self) -> str:
        """The name with its tag, as Ollama lists it."""
        return self.name if ":" in self.name.rpartition("/")[2] else f"{self.name}:latest"

    @property
    def digest(self) -> str:
        """What tells this model from others, hex: its file's sha256, or its manifest's digest."""
        return self.manifest or self.sha256

    @property
    def parent(self) -> str:
        """The name of the model that a derived model was made from, if that is another; else ""."""
        return "" if _key(self.made_of) == _key(self.name) else self.made_of

    @property
    def found(self) -> bool:
        """Whether the file of its weights is there now."""
        return os.path.isfile(self.path)  # of a path that cannot be, too

    def as_derived(self, name: ModelName, created_at: datetime, layer: Layer | None = None) -> DerivedModel:
        """A derived model like this one.

        Args:
            name: what it is to be called.
            created_at: when it was made, UTC.
            layer: another layer than this one's.
        """
        base = Base(self.made_of or self.shown, self.path.name, self.sha256, self.fork, self.path)
        return DerivedModel(name, created_at, base, layer or self.layer or Layer(self.sha256))

    def same_weights(self, other: Entry) -> bool:
        """Whether both are played from one file."""
        return self.path == other.path and self.sha256 == other.sha256

    def require_usable(self) -> None:
        """That it may be loaded.

        Raises:
            ModelRefused: it may not.
            ModelFileMissing: its weights are not on this machine.
        """
        if self.refused is not None:
            raise ModelRefused(self.shown, self.refused)
        if self.identity is None and not self.found:
            raise ModelFileMissing(self.shown, self.path)

    def check(self, identity: FileIdentity | None = None) -> None:
        """That the path still leads to the file that was hashed; one `stat`.

        Args:
            identity: the file as it was when it was hashed last; None for the first time.

        Raises:
            ModelFileError: it is gone.
            ModelFileChanged: it is another, or was written to.
        """
        if FileIdentity.of(self.path) != (identity or self.identity):
            raise ModelFileChanged(self.path)

    def verify(self, *, verified_before: bool = True, on_read: Callable[[int], None] | None = None) -> FileIdentity:
        """That the file's bytes are those that are pinned: reads them all. Before every load but a hashed file's first.

        Args:
            verified_before: they once were, so other bytes are a change.
            on_read: told of the bytes that have been read so far.

        Returns:
            the file as it is now: it may have been touched, or replaced by one with the same bytes.

        Raises:
            ModelFileError: it cannot be read.
            ModelFileChanged: its bytes are others than they were, or it changed while it was read.
            PinMismatch: its bytes are not those that are pinned, and never were.
        """
        digest = sha256_file(self.path, on_read)
        if digest.sha256 == self.sha256:
            return digest.identity
        if verified_before:
            raise ModelFileChanged(self.path)
        raise PinMismatch(self.path.name, digest.sha256, self.sha256)


class Catalog:
    """The models that can be asked for; the first one is the default.

    The folder is read again whenever something in it has changed. Any thread may ask.

    Args:
        entries: files that were given, verified.
        folder: more models; None where nothing but the given files is served.
    """

    def __init__(self, entries: Iterable[Entry], folder: ModelFolder | None = None) -> None:
        self._given = tuple(entries)
        if not self._given:
            raise ValueError("a catalog needs at least one model")
        self.folder = folder
        self._lock = threading.Lock()
        self._seen: object = None
        self._pinned: tuple[str, ...] = ()  # files' names
        self._files: tuple[Entry, ...] = ()
        self._rows: tuple[Entry, ...] = ()
        self._names: dict[str, Entry] = {}
        self.refresh()

    @classmethod
    def of_file(
        cls,
        path: Path,
        *,
        aliases: Iterable[str] = (),
        digest: Digest | None = None,
        folder: ModelFolder | None = None,
    ) -> Catalog:
        """A catalog of one file, and of a folder.

        Args:
            path: the model file.
            aliases: more names for it.
            digest: the file's sha256 when it is known already; else the file is hashed now.
            folder: more models.

        Raises:
            ModelFileError: it cannot be read.
            ModelFileChanged: it changed since `digest` was taken.
            FolderError: the folder is there and cannot be read.
        """
        return cls([entry_of(path, aliases=aliases, digest=digest)], folder)

    @property
    def default(self) -> Entry:
        """The model that answers when no name is given."""
        return self._given[0]

    @property
    def any_name(self) -> bool:
        """Whether one file answers whatever the name, as with llama-server: no folder is served, and no second file."""
        return self.folder is None and len(self._given) == 1

    def entries(self) -> tuple[Entry, ...]:
        """Every model, the default one first. The file of a pinned model that was pulled under its short name goes by
        that one."""
        self._follow()
        return self._rows

    async def find(self, name: str | None) -> Entry:
        """As `resolve`, for an event loop: the folder is looked at in another thread."""
        return await asyncio.to_thread(self.resolve, name) if name and self.folder is not None else self.resolve(name)

    def resolve(self, name: str | None) -> Entry:
        """The model with this name, which may end in `:local`; nothing means the default.

        Raises:
            ModelNotFound: none has it.
        """
        if not name:
            return self.default
        self._follow()
        entry = self._names.get(_key(name.strip()))
        if entry is None:
            base, source = split_source(name)
            entry = self._names.get(_key(base)) if source == "local" else None
        if entry is None:
            raise ModelNotFound(name)
        return entry

    def still(self, entry: Entry) -> Entry:
        """A model that was loaded, or where it was removed since, the first of those that have its weights."""
        entries = self.entries()
        if any(other.name == entry.name and other.same_weights(entry) for other in entries):
            return entry
        return next((other for other in entries if other.same_weights(entry)), entry)

    def file_named(self, name: str) -> Entry | None:
        """The model file whose own name this is, so that no derived model can have it; None when there is none."""
        key = _key(name)
        self._follow()
        return next((entry for entry in self._files if key in (entry.name, *entry.aliases)), None)

    def refresh(self) -> None:
        """Read the folder again.

        Raises:
            FolderError: it is there and cannot be read.
        """
        with self._lock:
            self._read()

    def _follow(self) -> None:
        """Read the folder again if it, or a pinned file beside the first model, is not as it was."""
        if self.folder is not None and self._state(self.folder) != self._seen:
            with self._lock:
                if self._state(self.folder) != self._seen:
                    self._read()

    def _state(self, folder: ModelFolder) -> object:
        return _signature(folder.path), self._beside(self._pinned)

    def _beside(self, names: Iterable[str]) -> list[tuple[int, ...]]:
        """The states of the files with these names beside the first model."""
        return [_state(self._given[0].path.parent / name) for name in names]

    def _read(self) -> None:
        pinned: list[Entry] = []
        derived: list[Entry] = []
        seen: object = None
        if self.folder is not None:
            signature = _signature(self.folder.path)  # before it is looked at: what changes meanwhile is another one
            folders = [self._given[0].path.parent, self.folder.path]
            taken = {entry.name for entry in self._given}
            pins = pins_in(self.folder.path)
            self._pinned = tuple(pin.file_name for pin in pins)
            seen = signature, self._beside(self._pinned)
            pinned += [_entry_of_pin(pin, folders) for pin in pins if model_name(Path(pin.file_name)) not in taken]
            models, unreadable = self.folder.derived()
            derived += [_entry_of_derived(model, self.folder, pins, [*self._given, *pinned]) for model in models]
            derived += [_entry_of_unreadable(each) for each in unreadable]
        files = [*self._given, *pinned]
        self._files = tuple(files)
        self._rows = tuple(_listed(files, derived))
        self._names = dict(_names(files, derived))
        self._seen = seen


def _listed(files: list[Entry], derived: list[Entry]) -> list[Entry]:
    """The models in order, each once: in the place of a pinned model's file what it was pulled as, if it was."""
    rows: list[Entry] = []
    listed: set[str] = set()
    for file in files:
        pulled = [entry for entry in derived if _is_pulled(entry, file)]
        rows += pulled or [file]
        listed.update(entry.name for entry in pulled)
    return rows + [entry for entry in derived if entry.name not in listed]


def _is_pulled(entry: Entry, file: Entry) -> bool:
    """Whether a derived model is a pinned file and nothing else, under one of the short names of the pin."""
    pin = pin_of(file.sha256)
    if pin is None or file.aliases or file.name != model_name(Path(pin.file_name)):
        return False
    return entry.layer == Layer(file.sha256) and entry.same_weights(file) and _key(entry.name) in pin.aliases


def _names(files: list[Entry], derived: list[Entry]) -> Iterator[tuple[str, Entry]]:
    """Every name and its entry, the least important first: a later one takes an earlier one's place."""
    bases = Counter(base_name(entry.name) for entry in files)
    for entry in reversed(files):
        yield entry.path.name.lower(), entry
    for entry in reversed(files):
        if bases[base := base_name(entry.name)] == 1:
            yield base, entry
        pin = pin_of(entry.sha256)
        yield from ((alias, entry) for alias in (pin.aliases if pin else ()))
    for entry in reversed(derived):
        yield _key(entry.name), entry
    for entry in reversed(files):
        yield from ((alias, entry) for alias in entry.aliases)
    for entry in reversed(files):
        yield entry.name, entry


def _key(name: str) -> str:
    """The same text for every way to write a name."""
    try:
        return ModelName.parse(name).shown.lower().removesuffix(":latest")
    except InvalidModelName:  # a file may be called what no model of Ollama's may
        return name.lower().removesuffix(":latest")


def _signature(folder: Path) -> object:
    """What is different once a folder has changed: the names in it, and the state of its JSON and model files."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, *(_state(entry) if _is_read(entry.name) else ())) for entry in entries)
    except OSError:
        return None


def _is_read(file_name: str) -> bool:
    return file_name.lower().endswith((".json", ".gguf"))


def _state(file: os.DirEntry[str] | Path) -> tuple[int, ...]:
    """What tells a file's states apart; nothing for one that is not there."""
    try:
        return file_state(file.stat())
    except (OSError, ValueError):  # a FORK.json may name what no file can be called
        return ()


def entry_of(path: Path, *, aliases: Iterable[str] = (), digest: Digest | None = None) -> Entry:
    """One file's entry; arguments and errors as `Catalog.of_file`."""
    path = Path(os.path.expanduser(path)).absolute()
    if digest is None:
        digest = sha256_file(path)
    elif FileIdentity.of(path) != digest.identity:
        raise ModelFileChanged(path)
    name = model_name(path)
    lowered = dict.fromkeys(other.lower().removesuffix(":latest") for other in aliases)
    return Entry(
        name=name,
        aliases=tuple(other for other in lowered if other and other != name),
        path=path,
        size=digest.identity.size,
        sha256=digest.sha256,
        modified_at=_time_of(digest.identity),
        identity=digest.identity,
    )


def default_entry() -> Entry:
    """The entry of the default model where it lies once it is fetched; it is not looked at."""
    pin, path = DEFAULT_MODEL, model_path()
    return Entry(
        name=model_name(path),
        aliases=(),
        path=path,
        size=pin.size,
        sha256=pin.sha256,
        modified_at=_time_of(None),
        identity=None,
    )


def _entry_of_pin(pin: FilePin, folders: Sequence[Path]) -> Entry:
    """A pinned file's entry; the file is looked for in `folders`, in order."""
    paths = [folder / pin.file_name for folder in folders]
    path = next((path for path in paths if os.path.isfile(path)), paths[-1])
    identity = _identity_or_none(path)
    return Entry(
        name=model_name(path),
        aliases=(),
        path=path,
        size=identity.size if identity else 0,
        sha256=pin.sha256 or "",
        modified_at=_time_of(identity),
        identity=None,
        refused=pin.problem,
        fork=pin.fork.name,
    )


def _entry_of_derived(
    model: DerivedModel, folder: ModelFolder, pins: Iterable[FilePin], files: Sequence[Entry]
) -> Entry:
    """A derived model's entry: over a blob of the folder, a file that is pinned, or the file it was made over."""
    base, refused = model.base, None
    path = folder.blob_path(base.sha256)
    if not path.is_file():
        here = next((entry for entry in files if entry.sha256 == base.sha256 and entry.found), None)
        path = base.path if here is None else here.path
        refused = None if base.fork is None else _broken_pin(model, pins)
    identity = _identity_or_none(path)
    return Entry(
        name=model.name.shown.removesuffix(":latest"),
        aliases=(),
        path=path,
        size=identity.size if identity else 0,
        sha256=base.sha256,
        modified_at=model.created_at,
        identity=None,
        layer=model.layer,
        made_of=base.name,
        manifest=model.digest.removeprefix("sha256:"),
        refused=refused,
        fork=base.fork,
        derived=True,
    )


def _broken_pin(model: DerivedModel, pins: Iterable[FilePin]) -> str | None:
    """Why the pin of a derived model's weights does not hold any more; None when it holds."""
    pin = next((pin for pin in pins if pin.file_name == model.base.file), None)
    if pin is None or pin.sha256 is None:
        return f"its weights '{model.base.file}' are not pinned any more"
    try:
        model.check_pin(pin.sha256)
    except ManifestRefused as error:
        return str(error)
    return None


def _entry_of_unreadable(manifest: Unreadable) -> Entry:
    """The entry of a manifest that is not used, so that whoever asks for it reads why."""
    return Entry(
        name=unquote(manifest.path.name.removesuffix(MANIFEST_ENDING)),
        aliases=(),
        path=manifest.path,
        size=0,
        sha256="",
        modified_at=_time_of(_identity_or_none(manifest.path)),
        identity=None,
        refused=manifest.reason,
        derived=True,
    )


def _identity_or_none(path: Path) -> FileIdentity | None:
    try:
        return FileIdentity.of(path)
    except ModelFileError:
        return None


def _time_of(identity: FileIdentity | None) -> datetime:
    """When a file was changed last; the beginning of time for one that is not there."""
    return datetime.fromtimestamp(identity.mtime_ns / 1e9 if identity else 0, UTC)


def pin_of(sha256: str) -> Pin | None:
    """The pin with these bytes, if there is one."""
    return next((pin for pin in PINS if pin.sha256 == sha256), None)


def model_name(path: Path) -> str:
    """A file's own name: its stem in lower case."""
    return path.name.lower().removesuffix(".gguf")


def base_name(name: str) -> str:
    """A name without the weight type at its end: `smollm2-135m-instruct.q4_1` -> `smollm2-135m-instruct`."""
    return _WEIGHT_TYPE.sub("", name)
