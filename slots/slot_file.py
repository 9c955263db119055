"""The slot on disk: what the KV cache holds, saved under a plain name in one folder and read back.

A file is our own, not llama-server's: a line that names the format, the model and the cache's shape, the cache's bytes,
the tokens, and a SHA-256 of all of it. It is written beside its place and moved there whole, so a crash leaves no half
file. A file that is damaged, longer or shorter than it says, or of another model or shape is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import tempfile
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from engine.model import Model
from slots.prompt_cache import State
from slots.slot import Slot

MAGIC: Final = b"bankML slot v1\n"
_PART_PREFIX: Final = ".slot-"  # then the writer's process id
_PART_SUFFIX: Final = ".part"
_HEADER: Final = struct.Struct("<32s4I8s8sI")
_DIGEST: Final = hashlib.sha256().digest_size
_MAX_NAME: Final = 255
_FORBIDDEN: Final = frozenset('/\\:*?"<>|\x7f\uff0e\u2215\u2216\ufffd\ufeff')


class SlotFileRefused(Exception):
    """A slot file that cannot be read or written; the text says why."""


def is_valid_name(name: str) -> bool:
    """Whether a name is plain, in the folder (llama.cpp's common.cpp: `fs_validate_filename`), and none of ours."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False
    if name.startswith(_PART_PREFIX) or not 0 < size <= _MAX_NAME or ".." in name or name[0] == " " or name[-1] in " .":
        return False
    return not any(
        character in _FORBIDDEN or ord(character) < 0x20 or 0x80 <= ord(character) < 0xA0 for character in name
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """What a saved state fits: the model, to the byte, and how its KV cache is laid out.

    Attributes:
        model_sha256: 32 bytes.
        n_ctx, n_layer, n_head_kv, head_size: numbers.
        cache_type_k, cache_type_v: names of types.
    """

    model_sha256: bytes
    n_ctx: int
    n_layer: int
    n_head_kv: int
    head_size: int
    cache_type_k: bytes
    cache_type_v: bytes

    @classmethod
    def of(cls, model: Model, model_sha256: str) -> Shape:
        """The shape of a loaded model's slot."""
        options = model.options
        types = (options.cache_type_k.encode(), options.cache_type_v.encode())
        sizes = (model.n_ctx, model.n_layer, model.n_head_kv, model.head_size)
        return cls(bytes.fromhex(model_sha256), *sizes, *types)

    @property
    def cache_types(self) -> str:
        """The types as text, whatever a damaged file says."""
        return b"/".join((self.cache_type_k, self.cache_type_v)).decode(errors="replace")

    def check(self, other: Shape) -> None:
        """Raises SlotFileRefused if `other`, a file's shape, is not this one."""
        if other.model_sha256 != self.model_sha256:
            raise SlotFileRefused("the file is of another model")
        if other.n_ctx != self.n_ctx:
            raise SlotFileRefused(f"the file is of a context of {other.n_ctx} tokens, this one has {self.n_ctx}")
        if other.cache_types != self.cache_types:
            raise SlotFileRefused(f"the file's cache types are {other.cache_types}, here they are {self.cache_types}")
        if other != self:
            raise SlotFileRefused("the file is of another layer shape")


class SlotFolder:
    """The folder of `--slot-save-path`. Nothing outside is opened: a name is plain, a link is not followed.

    Args:
        path: the folder; made if it is not there.

    Raises (from the constructor):
        OSError: it cannot be made, or is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        for part in filter(_is_orphan, path.glob(f"{_PART_PREFIX}*{_PART_SUFFIX}")):
            with contextlib.suppress(OSError):
                part.unlink()

    def save(self, name: str, model: Model, model_sha256: str, slot: Slot) -> int:
        """Write a slot; what was there under the name is replaced. Returns the file's bytes.

        Raises:
            SlotFileRefused: the name is taken by something that is no slot file.
            OSError: it cannot be written; nothing has changed.
        """
        target = self.path / name
        _check_replaceable(target)
        shape, n_tokens = Shape.of(model, model_sha256), len(slot.tokens)
        header = _HEADER.pack(*astuple(shape), n_tokens)
        parts = (MAGIC, header, model.cache_state(n_tokens).data, np.asarray(slot.tokens, dtype="<i4").data)
        descriptor, part = tempfile.mkstemp(prefix=f"{_PART_PREFIX}{os.getpid()}-", suffix=_PART_SUFFIX, dir=self.path)
        try:
            with open(descriptor, "wb") as file:
                n_written = _write(file, parts)
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        return n_written

    def restore(self, name: str, model: Model, model_sha256: str, slot: Slot) -> int:
        """Fill a slot from a file. On any error it is left empty. Returns the file's bytes.

        Raises:
            SlotFileRefused: the file is not there, or is not what was saved from such a slot.
        """
        slot.clear()
        try:
            with open(self.path / name, "rb", opener=_open_here) as file:
                tokens, state = _read(file, Shape.of(model, model_sha256), model)
                n_read = file.tell()
        except OSError as error:
            raise SlotFileRefused(error.strerror or str(error)) from None
        slot.restore(tokens, state)
        return n_read


def _is_orphan(part: Path) -> bool:
    """Whether the process that wrote a temporary file is gone: it was killed while it wrote."""
    process_id = part.name.removeprefix(_PART_PREFIX).partition("-")[0]
    return not (process_id.isdecimal() and psutil.pid_exists(int(process_id)))


def _check_replaceable(target: Path) -> None:
    """Raises SlotFileRefused where something is that a save must not take the place of."""
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise SlotFileRefused(f"{target.name} is not a regular file")
    if target.exists():
        with target.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise SlotFileRefused(f"{target.name} is not a slot file")


def _open_here(path: str, flags: int) -> int:
    """Opens a file that is one: no link, and no pipe to wait for."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SlotFileRefused("it is not a regular file")
    return descriptor


def _write(file: BufferedWriter, parts: Iterable[bytes | memoryview]) -> int:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        file.write(part)
    file.write(digest.digest())
    return file.tell()


def _read(file: BufferedReader, shape: Shape, model: Model) -> tuple[list[int], State]:
    """The tokens and the KV cache's bytes, once everything about the file is as it should be."""
    digest = hashlib.sha256()
    head = file.read(len(MAGIC) + _HEADER.size)
    digest.update(head)
    if not head.startswith(MAGIC) or len(head) < len(MAGIC) + _HEADER.size:
        raise SlotFileRefused("it is not a slot file")
    sha256, n_ctx, n_layer, n_head_kv, head_size, type_k, type_v, n_tokens = _HEADER.unpack_from(head, len(MAGIC))
    types = (type_k.rstrip(b"\0"), type_v.rstrip(b"\0"))
    shape.check(Shape(sha256, n_ctx, n_layer, n_head_kv, head_size, *types))
    if n_tokens > model.n_ctx:
        raise SlotFileRefused("it has more tokens than the context")
    state = np.empty(model.state_bytes(n_tokens), dtype=np.uint8)
    packed = np.empty(n_tokens, dtype="<i4")
    size = len(head) + state.nbytes + packed.nbytes + _DIGEST
    if os.fstat(file.fileno()).st_size != size:
        raise SlotFileRefused("it is longer or shorter than what it holds")
    for part in (state, packed):
        file.readinto(part.data)
        digest.update(part.data)
    if file.read() != digest.digest():
        raise SlotFileRefused("it is damaged: its checksum does not match")
    if n_tokens and not (packed.min() >= 0 and packed.max() < model.n_vocab):
        raise SlotFileRefused("it has tokens that are not in the vocabulary")
    return packed.tolist(), state
