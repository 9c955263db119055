"""What model files' headers say, read once a state of the file: for lists, for descriptions, and for the guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.errors import EngineError, UnplayableModel
from engine.gguf import read_header
from engine.model import ModelOptions, check_header
from engine.pooling import Pooling
from registry import gguf_guard
from registry.catalog import Entry
from registry.errors import ModelFileMissing, ModelRefused, RegistryError
from registry.pins import FileIdentity

_KEPT: Final = 256  # files


@dataclass(frozen=True, slots=True)
class Header:
    """What a model file's header says.

    Attributes:
        metadata: its keys and values; 32-bit floats are numpy's, which tell how many digits they have. Arrays are None
            unless they were asked for, as Ollama shows them.
        n_params: elements of all its tensors.
        tensors: name, type and shape of each.
        reason: why it is not played; None when it is.
        template: the chat template it is played with.
        pools: it says how its rows become a vector: it is for embeddings.
        fills_gaps: its vocabulary has the tokens that mark a gap.
    """

    metadata: Mapping[str, Any]
    n_params: int
    tensors: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    reason: str | None = None
    template: str = ""
    pools: bool = False
    fills_gaps: bool = False

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    @property
    def n_ctx_train(self) -> int:
        return self._count("context_length")

    @property
    def n_embd(self) -> int:
        return self._count("embedding_length")

    def _count(self, key: str) -> int:
        value = self.metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, int) else 0


def look(entry: Entry, options: ModelOptions, *, arrays: bool = False) -> tuple[Header | None, str | None]:
    """A model's header, and why it is not played; None for the one that cannot be told, or does not exist.

    Args:
        arrays: with the values of arrays. They are long, and not kept.
    """
    try:
        entry.require_usable()
        read = _read if arrays else _kept
        header = read(entry.path, FileIdentity.of(entry.path), options)
    except (ModelRefused, ModelFileMissing) as error:
        return None, error.reason
    except (RegistryError, EngineError) as error:
        return None, str(error)
    return header, header.reason


@lru_cache(maxsize=_KEPT)
def guard(path: Path, identity: FileIdentity, options: ModelOptions) -> None:
    """As `gguf_guard.check`, once a state of a file; `identity` tells its states apart."""
    gguf_guard.check(path, options)


@lru_cache(maxsize=_KEPT)
def _kept(path: Path, identity: FileIdentity, options: ModelOptions) -> Header:
    return _read(path, identity, options, arrays=False)


def _read(path: Path, identity: FileIdentity, options: ModelOptions, arrays: bool = True) -> Header:
    """The header of a file.

    Raises:
        EngineError: it cannot be read.
    """
    read = read_header(path)
    tensors = tuple((info.name, info.type.name, info.shape) for info in read.tensors.values())
    metadata = {
        name: np.float32(value) if name in read.singles else value if arrays or not _is_array(value) else None
        for name, value in read.metadata.items()
    }
    header = Header(metadata, sum(prod(shape) for _, _, shape in tensors), tensors)
    try:
        checked = check_header(read, options)
    except UnplayableModel as error:
        return replace(header, reason="; ".join(error.reasons))
    except EngineError as error:
        return replace(header, reason=str(error))
    special = checked.tokenizer.special
    return replace(
        header,
        template=checked.template.source,
        pools=checked.config.pooling is not Pooling.NONE,
        fills_gaps=None not in (special.fim_pre, special.fim_suf, special.fim_mid),
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, list | np.ndarray)
