"""`bankml create`: a Modelfile's files sent to the server, and the model made there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from registry.names import InvalidModelName, ModelName
from server.commands.client import Client
from server.commands.errors import CommandError
from server.commands.modelfile import digests, file_names, read_modelfile
from server.commands.progress import Progress, ProgressLines
from server.commands.pulling import status_or

_PIECE = 1 << 20


def create(client: Client, model: str, modelfile: Path | None, quantize: str) -> None:
    """Have the server make a model.

    Args:
        client: of the server.
        model: what it is to be called.
        modelfile: what to make it of; None as `read_modelfile`.
        quantize: the type that its weights are to have, "" as they are.

    Raises:
        CommandError: the Modelfile or its files cannot be used, or the server refuses.
    """
    try:
        ModelName.parse(model)
    except InvalidModelName as error:
        raise CommandError(f"invalid model name: {model}") from error
    asked = read_modelfile(modelfile)
    for warning in asked.warnings:
        click.echo(warning)
    client.get("/api/version")  # that somebody is there is known before anything is hashed
    with Progress(ProgressLines(status_or("pulling"))) as progress:
        progress.step("gathering model components")
        request = {"model": model, **asked.fields}
        for key, files in (("files", asked.files), ("adapters", asked.adapters)):
            if files:
                request[key] = _sent(client, files, progress)
        if quantize:
            request["quantize"] = quantize
        for event in client.stream("/api/create", request):
            progress.take(event)


def _sent(client: Client, files: Iterable[Path], progress: Progress) -> Mapping[str, str]:
    """The files' names and digests, once the server has them all."""
    found = digests(files)
    for file, digest in found.items():
        progress.step(f"copying file {digest} 0%")
        if not client.has_blob(digest):
            try:
                size = file.stat().st_size
                client.send_blob(digest, size, _pieces(file, size, digest, progress))
            except OSError as error:
                raise CommandError(f"cannot read {file}: {error.strerror or error}") from error
        progress.replace(f"copying file {digest} 100%")
    names = file_names(found)
    return {names[file]: digest for file, digest in found.items()}


def _pieces(file: Path, size: int, digest: str, progress: Progress) -> Iterator[bytes]:
    done = 0
    with file.open("rb") as source:
        while piece := source.read(_PIECE):
            yield piece
            done += len(piece)
            progress.replace(f"copying file {digest} {min(100 * done // max(size, 1), 100)}%")
