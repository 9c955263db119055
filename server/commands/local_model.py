"""A model opened in this process, for the commands that show one stage of an answer each: no server is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from server.settings import Settings

if TYPE_CHECKING:
    from engine.model import Model
    from registry.catalog import Entry
    from slots.residency import Residency

REFUSED: Final = 2
UNREADABLE: Final = 1


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that was verified and is loaded.

    Attributes:
        entry: which one.
        settings: how it was loaded.
        residency: who has it.
        model: the engine's.
    """

    entry: Entry
    settings: Settings
    residency: Residency
    model: Model


def as_file(model: str) -> Path | None:
    """The file that MODEL means, if it is written as a path or names a GGUF file that is there."""
    path = Path(os.path.expanduser(model))
    written_as_path = model.startswith(("/", "./", "../", "~"))
    return path if written_as_path or (model.lower().endswith(".gguf") and path.is_file()) else None


@asynccontextmanager
async def opened(model: str, settings: Settings) -> AsyncIterator[LocalModel]:
    """Loads a model as `bankml serve` does: guard, sha256 of the whole file, pin or first use.

    Args:
        model: a file, or a name of the folder of models or of the default model.
        settings: how to load it; which model they name does not matter.

    Raises:
        ServeError, RegistryError: it is not here, or is refused.
    """
    from registry.catalog import Catalog
    from server.serve import open_residency

    file = as_file(model)
    settings = settings.model_copy(update={"model": file} if file is not None else {"model": None, "fork": None})
    entry = _named(model, settings) if file is None else _given(settings)
    entry.require_usable()
    residency = await open_residency(settings, Catalog([entry]))
    try:
        yield LocalModel(entry, settings, residency, (await residency.current_or_default()).model)
    finally:
        await residency.stop()


def _given(settings: Settings) -> Entry:
    """The file of the settings.

    Raises:
        ServeError: it is not played, or not what it was.
    """
    from server.serve import catalog_of, find_model

    return catalog_of(settings, find_model(settings)).default


def _named(name: str, settings: Settings) -> Entry:
    """The model of this name; the default one is fetched if need be, as only then it is needed.

    Raises:
        RegistryError: there is none, or the folder cannot be read.
    """
    from registry.catalog import Catalog, default_entry
    from registry.folder import ModelFolder
    from registry.fork_file import default_folder
    from server.serve import catalog_of, find_model

    default = default_entry()
    folder = ModelFolder(settings.folder or default_folder())
    entry = Catalog([default], folder).resolve(name)
    if not entry.same_weights(default):
        return entry
    given = catalog_of(settings.model_copy(update={"registry": None}), find_model(settings)).default
    return given if entry is default else entry


@contextmanager
def exit_codes(*, refused: int = REFUSED, unreadable: int = UNREADABLE) -> Iterator[None]:
    """What cannot be done is one line on stderr, and an exit status.

    Args:
        refused: when the model or what is asked of it is refused.
        unreadable: when a file cannot be read.
    """
    from engine.errors import EngineError
    from registry.errors import ForkFileError, ModelFileError, RegistryError
    from server.errors import ApiError, as_api_error
    from server.serve import ServeError
    from server.settings import SettingsError

    try:
        yield
    except (ApiError, EngineError, MemoryError, RegistryError, ServeError, SettingsError) as error:
        text = str(error) if isinstance(error, ServeError | SettingsError) else as_api_error(error).message
        click.echo(f"bankml: {text}", err=True)
        cannot_read = isinstance(error.__cause__ or error, ForkFileError | ModelFileError)
        raise click.exceptions.Exit(unreadable if cannot_read else refused) from error


def standard_input() -> str:
    """What comes in, as text: of no more bytes than the server takes, so that an input without an end has one.

    Raises:
        BadRequest: it is longer, or not UTF-8.
    """
    from server.errors import BadRequest
    from server.guards import MAX_BODY

    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BODY + 1)
    if len(data) > MAX_BODY:
        raise BadRequest(f"the standard input exceeds {MAX_BODY} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"the standard input is not UTF-8: {error.reason} at byte {error.start}") from None


def printer() -> Callable[[str], None]:
    """Writes text as it comes, in UTF-8 whatever the terminal is; nowhere in a process without a standard output."""
    if sys.stdout is None:
        return lambda text: None
    stream = sys.stdout.buffer

    def write(text: str) -> None:
        stream.write(text.encode("utf-8", "replace"))
        stream.flush()

    return write
