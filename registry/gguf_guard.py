"""Play, refuse or need more: what becomes of a model file, from its header alone.

The rules are the loader's own (`engine.model.check_header`), so that what is said here is what loading does. No weight
is read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import EngineError, InvalidModelFile, ModelFileLost, TruncatedModelFile, UnplayableModel
from engine.gguf import VERSION, GGUFHeader, read_header
from engine.model import ModelOptions, check_header
from registry.errors import ModelFileError
from registry.pins import FileIdentity

Verdict = Literal["play", "refuse", "need_more"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a header says, and the verdict on it.

    Args:
        verdict: `refuse` beats `need_more`: what is not played is not played when it is whole either.
        reasons: why it is not `play`; each names a tensor or key.
        size: bytes of the file.
        bytes_needed: bytes the file must have at the least; None when they are all there, or not known.
        header: what could be read of it; None when that is not a whole header.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    size: int
    bytes_needed: int | None = None
    header: GGUFHeader | None = None

    @property
    def arch(self) -> str | None:
        """`general.architecture`."""
        return self._text("general.architecture")

    @property
    def name(self) -> str | None:
        """`general.name`."""
        return self._text("general.name")

    @property
    def types(self) -> dict[str, int]:
        """How many tensors have each type, by the types' numbers."""
        tensors = self.header.tensors.values() if self.header else ()
        counted = Counter(info.type for info in tensors)
        return {kind.name: counted[kind] for kind in sorted(counted)}

    @property
    def kv_f16_bytes_per_token(self) -> int | None:
        """Bytes that a token takes in an f16 KV cache; None when the header does not say."""
        return _kv_bytes(self.header.metadata) if self.header else None

    def _text(self, key: str) -> str | None:
        value = self.header.metadata.get(key) if self.header else None
        return value if isinstance(value, str) else None

    def as_json(self) -> dict[str, Any]:
        """The report under the names that clients of `bankml guard --json` read."""
        report: dict[str, Any] = {
            "gguf_version": VERSION if self.header else None,
            "arch": self.arch,
            "name": self.name,
            "tensors": len(self.header.tensors) if self.header else None,
            "types": self.types,
            "engine": "mainline",  # the rules are those of llama.cpp, and of no fork
            "reasons": list(self.reasons),
            "kv_f16_bytes_per_token": self.kv_f16_bytes_per_token,
            "bytes": self.size,
            "bytes_needed": self.bytes_needed,
            "verdict": self.verdict,
        }
        return {key: value for key, value in report.items() if value is not None}


def check(path: Path, options: ModelOptions) -> None:
    """What loading a file would refuse it for, before the file is hashed.

    Raises:
        EngineError: what loading raises.
    """
    header = read_header(path)
    check_header(header, options)
    header.check_whole()


def judge(path: Path, options: ModelOptions | None = None) -> Report:
    """Whether a file would be loaded with these options.

    Raises:
        ModelFileError: it cannot be read.
    """
    size = _size(path)
    try:
        header = read_header(path)
    except TruncatedModelFile as error:
        return Report("need_more", (_unnamed(path, error),), size, error.needed)
    except InvalidModelFile as error:
        return Report("refuse", (_unnamed(path, error),), size)
    except ModelFileLost as error:
        raise ModelFileError(path, "it changed meanwhile") from error
    needed = header.needed if header.needed > size else None
    try:
        check_header(header, options or ModelOptions())
        header.check_whole()
    except TruncatedModelFile as error:
        return Report("need_more", (str(error),), size, needed, header)
    except UnplayableModel as error:
        return Report("refuse", error.reasons, size, needed, header)
    except InvalidModelFile as error:
        return Report("refuse", (str(error),), size, needed, header)
    return Report("play", (), size, None, header)


def _size(path: Path) -> int:
    """The bytes of a file that can be read."""
    try:
        # Not blocking: opening a pipe would wait for whoever writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return FileIdentity.of_stat(path, os.fstat(descriptor)).size
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ModelFileError(path, error.strerror or str(error)) from error


def _unnamed(path: Path, error: EngineError) -> str:
    return str(error).removeprefix(f"{path}: ")


def _kv_bytes(metadata: Mapping[str, Any]) -> int | None:
    prefix = metadata.get("general.architecture")

    def count(key: str, default: int = 0) -> int:
        value = metadata.get(f"{prefix}.{key}", default)
        return value if type(value) is int and value > 0 else 0

    n_head = count("attention.head_count")
    usual = count("embedding_length") // n_head if n_head else 0
    sizes = count("attention.key_length", usual), count("attention.value_length", usual)
    n_rows = count("block_count") * count("attention.head_count_kv", n_head)
    return n_rows * sum(sizes) * 2 if n_rows and all(sizes) else None
