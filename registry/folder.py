"""The folder of models on disk: manifests, the weights that came as blobs, and what is under way.

    DIR/NAME.MODEL.json      a derived model (`registry.derived`)
    DIR/blobs/sha256-HEX     weights, by the SHA-256 of the whole file
    DIR/partial/             what is being written; never read as a model

Whatever appears under a name that is read was written whole under another one, synced to the disk, and renamed: a
process that is killed, or a disk that fills, leaves something in `partial/` at the most. A file under way is locked by
whoever writes it, so that another process that starts on the same folder tells what is being written from what was
left behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from registry.blobs import UPLOAD, BlobWriter, hex_of
from registry.derived import DerivedModel, ManifestRefused
from registry.errors import ModelNotFound, RegistryError
from registry.manifests import LARGEST_MANIFEST, MANIFEST_ENDING, Manifests, Unreadable, manifest_name
from registry.names import ModelName
from registry.transfer.partial import arrived

_BLOB: Final = re.compile(r"sha256-[0-9a-f]{64}")
CONVERSION: Final = "convert-"
"""How the names of conversions in `partial/` begin."""
_OURS: Final = (UPLOAD, "manifest-", CONVERSION)
"""How names in `partial/` begin that nobody goes on with after a kill; what a pull left goes on."""

_IN_USE: Final[dict[Path, int]] = {}
"""Descriptors of the folders this process uses, with a shared lock each: while it is held no other process prunes blobs
at its start, for a blob may have come for a model that is still to be made."""
_USING: Final = threading.Lock()
"""Held by whoever looks at these: uploads begin in threads of their own."""


class FolderError(RegistryError):
    """The folder cannot be read or written; the message says why."""


class ModelFolder:
    """One folder of models.

    Args:
        path: the folder; made by whatever first writes to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.expanduser(path)).absolute()
        self.blobs = self.path / "blobs"
        self.partial = self.path / "partial"
        self._manifests = Manifests()

    # Blobs

    def blob_path(self, digest: str) -> Path:
        """Where the blob with this SHA-256 lies, whether it is there or not.

        Raises:
            InvalidDigest: it is no digest.
        """
        return self.blobs / f"sha256-{hex_of(digest)}"

    def has_blob(self, digest: str) -> bool:
        """Whether the blob is there; nothing is hashed, for it got its name by its bytes.

        Raises:
            InvalidDigest: it is no digest.
        """
        return self.blob_path(digest).is_file()

    def blob_writer(self, digest: str) -> BlobWriter:
        """A blob to be written piece by piece, under a context manager.

        Raises:
            InvalidDigest: it is no digest.
            FolderError: the folder cannot be written.
        """
        return BlobWriter(self, hex_of(digest))

    def add_blob(self, digest: str, pieces: Iterable[bytes]) -> Path:
        """Writes a blob; one that is there already is written again and replaced by the same bytes.

        Raises:
            InvalidDigest: `digest` is none.
            DigestMismatch: the bytes have another.
            FolderError: it cannot be written.
        """
        with self.blob_writer(digest) as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.commit()

    def adopt_blob(self, part: Path, digest: str) -> Path:
        """Makes a whole file in the folder a blob, by a rename. The caller has checked that its bytes have the digest.

        Raises:
            InvalidDigest: `digest` is none.
            FolderError: it cannot be renamed.
        """
        path = self.blob_path(digest)
        with self._explained():
            _make(self.blobs)
            _sync(part)
            part.rename(path)
            _sync(self.blobs)
        return path

    def partial_path(self, name: str) -> Path:
        """A place in `partial/` for a plain file name, with the folder made.

        Raises:
            FolderError: the folder cannot be made.
        """
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(f"{name!r} is not a plain file name")
        with self._explained():
            _make(self.partial)
            self._use()
        return self.partial / name

    # Manifests

    def derived(self) -> tuple[list[DerivedModel], list[Unreadable]]:
        """Every manifest that can be used, by name, and every one that cannot, with its reason.

        Raises:
            FolderError: the folder is there and cannot be read.
        """
        return self._manifests.read_all(self._manifest_paths())

    def existing_name(self, name: ModelName) -> ModelName:
        """The name as Ollama calls it: each part in the letter case that some model here has it in."""
        for other in (model.name for model in self.derived()[0]):
            same = {part: getattr(other, part) for part in ("host", "namespace", "model", "tag")}
            same = {part: text for part, text in same.items() if text.lower() == getattr(name, part).lower()}
            name = replace(name, **same)
        return name

    def find(self, name: ModelName) -> DerivedModel | None:
        """The derived model of this name, letter case aside; None when there is none that can be used."""
        return next((model for model in self.derived()[0] if model.name == name), None)

    def write(self, model: DerivedModel) -> Path:
        """Writes a model's manifest; one of the same name is replaced, letter case aside.

        Raises:
            FolderError: it cannot be written, or its blob went away meanwhile; what was there still is.
        """
        path = self.path / manifest_name(model.name)
        manifest = model.to_json(version("bankml"))
        if len(manifest) > LARGEST_MANIFEST:  # a chain of licences, say: it would not be read again
            raise FolderError(f"the model's manifest would have more than {LARGEST_MANIFEST} bytes")
        with self.locked():
            blob = self.blob_path(model.base.sha256)
            if model.base.file == blob.name and not blob.is_file():
                raise FolderError(f"{blob} is not there any more")
            # In the place of one whose name differs in letter case only: a rename is one step, a removal would be two.
            path = next((other for other in self._manifest_paths() if _same_file_name(other, path)), path)
            part = self.partial_path(f"manifest-{secrets.token_hex(8)}")
            with self._explained():
                try:
                    with open(part, "xb") as file:
                        fcntl.flock(file, fcntl.LOCK_EX)
                        file.write(manifest)
                        file.flush()
                        os.fsync(file.fileno())
                        part.rename(path)
                finally:
                    part.unlink(missing_ok=True)
                _sync(self.path)
        return path

    def delete(self, name: ModelName) -> None:
        """Removes a derived model, and its weights when they are a blob that no other model uses.

        Raises:
            ModelNotFound: there is no manifest of this name.
            FolderError: it cannot be removed.
        """
        wanted = self.path / manifest_name(name)
        with self.locked():
            paths = [path for path in self._manifest_paths() if _same_file_name(path, wanted)]
            if not paths:
                raise ModelNotFound(name.shown)
            removed = [model for path in paths if (model := self._read_or_none(path)) is not None]
            with self._explained():
                for path in paths:
                    path.unlink()
                _sync(self.path)
            self._drop_unused(blob for model in removed for blob in self._blobs_of(model))

    def drop_unused(self, model: DerivedModel) -> None:
        """Removes the blobs of a model that was replaced, where no other uses them and `OLLAMA_NOPRUNE` is not set.

        Raises:
            FolderError: they cannot be removed.
        """
        if not _says_yes(os.environ.get("OLLAMA_NOPRUNE", "")):
            with self.locked():
                self._drop_unused(self._blobs_of(model))

    def require_space(self, size: int) -> None:
        """That the disk has room for so many bytes.

        Raises:
            FolderError: it has not, or there is no telling.
        """
        with self._explained():
            _make(self.path)
            free = shutil.disk_usage(self.path).free
        if free < size:
            raise FolderError(f"no space left in {self.path}: {size} bytes needed, {free} free")

    def _use(self) -> int:
        """Says for as long as this process lives that it uses the folder, which is there; a descriptor of it."""
        with _USING:
            descriptor = _IN_USE.get(self.path)
            if descriptor is not None and not os.path.samestat(os.fstat(descriptor), self.path.stat()):
                os.close(_IN_USE.pop(self.path))
                descriptor = None  # the folder was removed and made again
            if descriptor is None:
                descriptor = _IN_USE[self.path] = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            return descriptor

    def _used_by_others(self) -> bool:
        """Whether another process uses the folder too."""
        descriptor = self._use()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder's lock: one process or thread at a time writes or removes manifests and blobs.

        Raises:
            FolderError: the folder cannot be made or written.
        """
        with self._explained():
            _make(self.path)
            # Not blocking: opening a pipe would wait for whoever reads from it.
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path / ".lock", flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    # At start

    def sweep(self) -> list[str]:
        """Clears away what was left half done by a process that is gone; lines for people about what there was.

        A file that its writer still holds is left alone, and so is what a pull can go on with. Blobs that no model uses
        go, unless a manifest cannot be read (it may be theirs), another process uses the folder (which may be about to
        make a model of one), or `OLLAMA_NOPRUNE` is set, as with Ollama.

        Raises:
            FolderError: the folder cannot be read or written.
        """
        if not self.path.is_dir():
            return []
        found: list[str] = []
        with self.locked():
            for part in _names_in(self.partial):
                found += self._sweep_part(part)
            models, unreadable = self.derived()
            found += [f"{each.path}: {each.reason}" for each in unreadable]
            kept = unreadable or self._used_by_others() or _says_yes(os.environ.get("OLLAMA_NOPRUNE", ""))
            if not kept:
                dropped = self._drop_unused(self._own_blobs(), models)
                found += [f"removed {path}: no model uses it" for path in dropped]
        return found

    def _own_blobs(self) -> list[Path]:
        """The blobs that are this program's to remove: what has another name is not one, and in a folder of Ollama's
        models (which has `manifests/`) they are Ollama's."""
        if (self.path / "manifests").exists():
            return []
        return [path for path in _files(self.blobs) if _BLOB.fullmatch(path.name)]

    def _sweep_part(self, part: Path) -> list[str]:
        try:
            mode = part.lstat().st_mode
            if not part.name.startswith(_OURS):
                if not stat.S_ISREG(mode):
                    return [f"{part}: not a file; left alone"]
                n_bytes = arrived(part)
                return [f"{part}: {n_bytes} bytes of a pull that did not end; it goes on when asked for again"]
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                part.unlink()  # a link, a pipe: nobody writes to one
            elif not _removed_unless_locked(part):
                return []  # somebody is writing it
        except OSError as error:  # of one thing, which is never read as a model: no reason not to start
            return [f"{part}: cannot be removed: {error.strerror or error}"]
        return [f"removed {part}: it was never made whole"]

    def _drop_unused(self, blobs: Iterable[Path], models: Iterable[DerivedModel] | None = None) -> list[Path]:
        """Removes those of the blobs that no manifest and no link of the folder leads to; the folder is locked."""
        if models is None:
            models, unreadable = self.derived()
            if unreadable:
                return []
        used = {blob for model in models for blob in self._blobs_of(model)}
        used |= {path.resolve() for path in _files(self.path) if path.is_symlink()}
        dropped = [blob for blob in blobs if blob not in used and blob.resolve() not in used and blob.is_file()]
        with self._explained():
            for blob in dropped:
                blob.unlink(missing_ok=True)
        return dropped

    def _blobs_of(self, model: DerivedModel) -> Iterator[Path]:
        """Where a model's blobs lie, were they blobs of this folder."""
        yield self.blob_path(model.base.sha256)
        if model.layer.template_sha256 is not None:
            yield self.blob_path(model.layer.template_sha256)

    def _manifest_paths(self) -> list[Path]:
        return [path for path in _files(self.path) if path.name.endswith(MANIFEST_ENDING)]

    def _read_or_none(self, path: Path) -> DerivedModel | None:
        try:
            return self._manifests.read(path)
        except ManifestRefused:
            return None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what the system refuses into one line."""
        try:
            yield
        except OSError as error:
            raise self.error(error) from error

    def error(self, error: OSError) -> FolderError:
        """One line for what the system refused here."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return FolderError(f"no space left in {self.path}")
        return FolderError(f"cannot write to {self.path}: {error.strerror or error}")


def _files(folder: Path) -> list[Path]:
    """The files of a folder, by name; nothing when it is not there.

    Raises:
        FolderError: it cannot be read.
    """
    return [path for path in _names_in(folder) if not path.is_dir()]


def _names_in(folder: Path) -> list[Path]:
    """What lies in a folder, folders too; errors as `_files`."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FolderError(f"cannot read {folder}: {error.strerror or error}") from error


def _removed_unless_locked(part: Path) -> bool:
    """Removes a file or a folder that nobody holds a lock on; says whether it did."""
    descriptor = os.open(part, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _same_file_name(one: Path, other: Path) -> bool:
    return one.name.lower() == other.name.lower()


def _make(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)


def _sync(path: Path) -> None:
    """Waits until the disk has a file's bytes, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _says_yes(value: str) -> bool:
    """As Ollama reads a switch from its environment: Go's false words and nothing mean no, all else yes."""
    return value.strip().strip("\"'") not in ("", "0", "f", "F", "false", "FALSE", "False")
