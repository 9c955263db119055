"""The converted file: written beside its place, hashed on the way, and moved there when it is whole."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from registry.atomic import writing_whole
from registry.conversion.metadata import Metadata
from registry.conversion.weights import OutputTensor
from registry.errors import ConversionFailed
from registry.progress import Progress

ALIGNMENT: Final = 32


def write_gguf(
    path: Path,
    metadata: Metadata,
    tensors: list[OutputTensor],
    *,
    progress: Progress,
    check: Callable[[], None],
) -> tuple[str, int]:
    """Writes the file.

    Nothing is under `path` before the file is whole and on the disk; then what was there is replaced. What is under way
    lies beside it under a temporary name, and goes when anything fails.

    Args:
        path: where.
        metadata, tensors: what.
        progress: told how many bytes are written.
        check: called when all is written; the file is put in place if it raises nothing.

    Returns:
        its sha256 (hex) and its bytes.

    Raises:
        ConversionFailed: it cannot be written.
        RegistryError: what reading a tensor and `check` raise.
    """
    header = _header(metadata, tensors)
    total = len(header) + sum(tensor.nbytes + -tensor.nbytes % ALIGNMENT for tensor in tensors)
    progress.start(f"converting {path.name}", total)
    digest = hashlib.sha256()
    written = 0
    try:
        with writing_whole(path) as file:
            for part in _parts(header, tensors):
                file.write(part)
                digest.update(part)
                written += len(part)
                progress.update(written)
            check()
    except OSError as error:
        raise ConversionFailed(path, error) from error
    return digest.hexdigest(), written


def _header(metadata: Metadata, tensors: list[OutputTensor]) -> bytes:
    """Everything before the first weight, padding included."""
    infos, offset = [], 0
    for tensor in tensors:
        name = tensor.name.encode()
        extents = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
        infos.append(struct.pack("<Q", len(name)) + name + extents + struct.pack("<IQ", int(tensor.type), offset))
        offset += tensor.nbytes + -tensor.nbytes % ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + metadata.packed() + b"".join(infos)
    return head + bytes(-len(head) % ALIGNMENT)


def _parts(header: bytes, tensors: list[OutputTensor]) -> Iterator[bytes]:
    yield header
    for tensor in tensors:
        yield from tensor.parts()
        yield bytes(-tensor.nbytes % ALIGNMENT)
