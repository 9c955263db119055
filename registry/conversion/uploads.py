"""A set of safetensors and their JSON files that came as blobs, made into one blob of GGUF."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from registry.conversion.conversion import ConversionReport, convert
from registry.errors import ConversionRefused
from registry.folder import ModelFolder


def convert_blobs(folder: ModelFolder, blobs: Mapping[str, Path], name: str) -> ConversionReport:
    """Converts files under the names they were uploaded with.

    Args:
        folder: where the blobs are, and where the new one goes.
        blobs: file name -> its blob.
        name: what the directory counts as being called; the model's metadata has it.

    Returns:
        the report; its `output` is the new blob.

    Raises:
        ConversionRefused: a name leads elsewhere, or what `convert` refuses.
        RegistryError: what else `convert` raises; the folder cannot be written.
    """
    for file in blobs:
        if file in ("", ".", "..") or any(char in file for char in "/\\\0"):
            raise ConversionRefused(f"{file!r} is not a plain file name")
    with _workspace(folder) as workspace:
        directory = workspace / name
        try:
            directory.mkdir()
            for file, blob in blobs.items():
                (directory / file).symlink_to(blob.absolute())
        except OSError as error:
            raise folder.error(error) from error
        report = convert(directory, workspace / "converted.gguf")
        output = folder.adopt_blob(report.output, f"sha256:{report.sha256}")
    return replace(report, output=output)


@contextmanager
def _workspace(folder: ModelFolder) -> Iterator[Path]:
    """A directory for what is under way; the lock on it tells a sweep that somebody is at work."""
    path = folder.partial_path(f"convert-{secrets.token_hex(8)}")
    try:
        path.mkdir()
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise folder.error(error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
