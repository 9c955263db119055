"""Names -> verified files. One model file or several, each with the names it answers to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from registry.errors import ModelFileChanged, ModelNotFound
from registry.pins import DEFAULT_MODEL, Digest, FileIdentity, Pin, sha256_file

# A weight type at the end of a file's stem: -f16, .Q4_1, -q4_k_m, -iq2_xxs, -q2_0_g64, ...
_WEIGHT_TYPE = re.compile(r"[-._](?:b?f16|f32|i?q[0-9](?:_[a-z0-9]+)*|tq[0-9]_[0-9]|mxfp4)$")
PINS = (DEFAULT_MODEL,)


@dataclass(frozen=True, slots=True)
class Entry:
    """A model file that was hashed, and the names it answers to.

    Args:
        name: its own name: the file's stem in lower case.
        aliases: other names, in lower case, without `:latest`.
        path: the file, absolute.
        size: bytes.
        sha256: of the whole file, hex.
        modified_at: the file's time of change, UTC.
        source: where it comes from, for people: `command line`, or the wheel's name and version.
        identity: the file as it was when it was hashed.
    """

    name: str
    aliases: tuple[str, ...]
    path: Path
    size: int
    sha256: str
    modified_at: datetime
    source: str
    identity: FileIdentity

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

    def verify(self) -> FileIdentity:
        """That the file's bytes are still those that were hashed: reads them all. Before every load but the first.

        Returns:
            the file as it is now: it may have been touched, or replaced by one with the same bytes.

        Raises:
            ModelFileError: it cannot be read.
            ModelFileChanged: its bytes are others.
        """
        digest = sha256_file(self.path)
        if digest.sha256 != self.sha256:
            raise ModelFileChanged(self.path)
        return digest.identity


class Catalog:
    """The models that can be asked for; the first one is the default."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = tuple(entries)
        if not self._entries:
            raise ValueError("a catalog needs at least one model")
        self._names: dict[str, Entry] = {}
        # A model's own name beats any model's alias; among equals the first entry wins.
        for entry in self._entries:
            self._names.setdefault(entry.name, entry)
        for entry in self._entries:
            for alias in entry.aliases:
                self._names.setdefault(alias, entry)

    @classmethod
    def of_file(cls, path: Path, *, aliases: Iterable[str] = (), digest: Digest | None = None) -> Catalog:
        """A catalog of one file.

        Args:
            path: the model file.
            aliases: more names for it.
            digest: the file's sha256 when it is known already; else the file is hashed now.

        Raises:
            ModelFileError: it cannot be read.
            ModelFileChanged: it changed since `digest` was taken.
        """
        return cls([entry_of(path, aliases=aliases, digest=digest)])

    @property
    def default(self) -> Entry:
        """The model that answers when no name is given."""
        return self._entries[0]

    def entries(self) -> tuple[Entry, ...]:
        """Every model, the default one first."""
        return self._entries

    def resolve(self, name: str | None) -> Entry:
        """The model with this name: letter case does not matter, `:latest` may follow, nothing means the default.

        Raises:
            ModelNotFound: none has it.
        """
        if not name:
            return self.default
        entry = self._names.get(name.lower().removesuffix(":latest"))
        if entry is None:
            raise ModelNotFound(name)
        return entry


def entry_of(path: Path, *, aliases: Iterable[str] = (), digest: Digest | None = None) -> Entry:
    """One file's entry; arguments and errors as `Catalog.of_file`."""
    path = Path(os.path.expanduser(path)).absolute()
    if digest is None:
        digest = sha256_file(path)
    elif FileIdentity.of(path) != digest.identity:
        raise ModelFileChanged(path)
    pin = pin_of(digest.sha256)
    name = model_name(path)
    names = [path.name, base_name(name), *(pin.aliases if pin else ()), *aliases]
    lowered = dict.fromkeys(other.lower().removesuffix(":latest") for other in names)
    return Entry(
        name=name,
        aliases=tuple(other for other in lowered if other and other != name),
        path=path,
        size=digest.identity.size,
        sha256=digest.sha256,
        modified_at=datetime.fromtimestamp(digest.identity.mtime_ns / 1e9, UTC),
        source=f"{pin.wheel.project} {pin.wheel.version}" if pin else "command line",
        identity=digest.identity,
    )


def pin_of(sha256: str) -> Pin | None:
    """The pin with these bytes, if there is one."""
    return next((pin for pin in PINS if pin.sha256 == sha256), None)


def model_name(path: Path) -> str:
    """A file's own name: its stem in lower case."""
    return path.name.lower().removesuffix(".gguf")


def base_name(name: str) -> str:
    """A name without the weight type at its end: `smollm2-135m-instruct.q4_1` -> `smollm2-135m-instruct`."""
    return _WEIGHT_TYPE.sub("", name)
