"""The commands that look at model files: `bankml guard`, `sha256`, `pin`, `verify`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

if TYPE_CHECKING:
    from registry.errors import RegistryError
    from registry.gguf_guard import Engine

_ENGINE = click.option(
    "--engine",
    type=click.Choice(["mainline", "prism"]),
    default="mainline",
    help="Whose rules: llama.cpp's as this engine follows them, or those of PrismML's fork. (default: mainline)",
)


@click.command(short_help="Say whether a model file is played.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-ctk", "--cache-type-k", metavar="TYPE", default="f16", help="Type of the cached keys. (default: f16)")
@click.option("-ctv", "--cache-type-v", metavar="TYPE", default="f16", help="Type of the cached values. (default: f16)")
@_ENGINE
def guard(file: Path, as_json: bool, cache_type_k: str, cache_type_v: str, engine: Engine) -> None:
    """Say whether a GGUF file is played, refused, or needs more bytes, and why. Reads its header only.

    Exits with 0 for play, 2 for refuse, 3 for need more, 1 when the file cannot be read.
    """
    from engine.model import ModelOptions
    from registry.errors import RegistryError
    from registry.gguf_guard import judge
    from server.commands.verdicts import EXIT_CODES, as_text

    try:
        report = judge(file, ModelOptions(cache_type_k=cache_type_k, cache_type_v=cache_type_v), engine)
    except RegistryError as error:
        click.echo(f"bankml: {error}", err=True)
        raise click.exceptions.Exit(1) from error
    click.echo(json.dumps(report.as_json(), ensure_ascii=False) if as_json else as_text(file, report))
    raise click.exceptions.Exit(EXIT_CODES[report.verdict])


_FORK = click.option(
    "--fork",
    "given_fork",
    metavar="FORK",
    type=click.Path(path_type=Path),
    help="The FORK.json. (default: FILE.FORK.json, where `pin --write` writes it)",
)
_UNREADABLE: Final = 1
_REFUSED: Final = 2


@contextmanager
def _unreadable() -> Iterator[None]:
    """A file that cannot be read is one line on stderr and exit status 1."""
    from registry.errors import ForkFileError, ModelFileChanged, ModelFileError

    try:
        yield
    except (ForkFileError, ModelFileChanged, ModelFileError) as error:
        click.echo(f"bankml: {error}", err=True)
        raise click.exceptions.Exit(_UNREADABLE) from error


@click.command(short_help="Print a file's sha256.")
@click.argument("file", type=click.Path(path_type=Path))
def sha256(file: Path) -> None:
    """Print the sha256 of a whole file and its name, as sha256sum does. Exits with 1 when it cannot be read."""
    from registry.pins import sha256_file

    with _unreadable():
        digest = sha256_file(file)
    click.echo(f"{digest.sha256}  {file}")


@click.command(short_help="Say whether a file is the one that is pinned.")
@click.argument("file", type=click.Path(path_type=Path))
@_FORK
@click.option("--write", is_flag=True, help="Pin the file as it is: write the FORK.json.")
def pin(file: Path, given_fork: Path | None, write: bool) -> None:
    """Say whether a file has the sha256 that a FORK.json records for its name.

    Exits with 0 when it has, 2 when it has not or the FORK.json does not name it, 1 when one of the two cannot be read.
    """
    from registry.errors import RegistryError
    from registry.fork_file import ForkFile
    from registry.gate import check_pin, pin_file

    with _unreadable():
        try:
            if write:
                digest = pin_file(file, given_fork or _beside(file))
            else:
                digest = check_pin(file, ForkFile.read(_fork_of(file, given_fork)))
        except RegistryError as error:
            _exit_refused(error)
    click.echo(f"pinned {digest.sha256}")


@click.command(short_help="Say whether a file is played and pinned.")
@click.argument("file", type=click.Path(path_type=Path))
@_FORK
@_ENGINE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(file: Path, given_fork: Path | None, engine: Engine, as_json: bool) -> None:
    """Say whether a file passes the guard and has the sha256 that a FORK.json records for its name.

    Exits with 0 when it does, 2 when it is refused, 3 when it is cut short, 1 when one of the two cannot be read.
    """
    from registry.errors import RegistryError
    from registry.fork_file import ForkFile
    from registry.gate import verify as pass_gate
    from server.commands.verdicts import refusal_json, verified_json

    with _unreadable():
        try:
            verified = pass_gate(file, ForkFile.read(_fork_of(file, given_fork)), engine)
        except RegistryError as error:
            _exit_refused(error, json.dumps(refusal_json(error), ensure_ascii=False) if as_json else None)
    said = verified_json(verified)
    click.echo(json.dumps(said, ensure_ascii=False) if as_json else f"play pinned {verified.digest.sha256}")


def _beside(file: Path) -> Path:
    from registry.fork_file import SUFFIX

    return file.with_name(file.name + SUFFIX)


def _fork_of(file: Path, given: Path | None) -> Path:
    """The FORK.json that pins a file: the one given, else the one beside it, as `serve` takes them."""
    fork = given or _beside(file)
    if given is None and not os.path.lexists(fork):
        click.echo(
            f"bankml: {file} has no {fork.name} beside it: --fork names another, `pin --write` makes one",
            err=True,
        )
        raise click.exceptions.Exit(_UNREADABLE)
    return fork


def _exit_refused(error: RegistryError, said: str | None = None) -> NoReturn:
    """Ends with what a refusal says; what cannot be read is none, and goes on as it is."""
    from registry.errors import GuardRefused, NotPinned, PinMismatch

    if not isinstance(error, GuardRefused | NotPinned | PinMismatch):
        raise error
    click.echo(said or f"refuse: {error}")
    needs_more = isinstance(error, GuardRefused) and error.needed is not None
    raise click.exceptions.Exit(3 if needs_more else _REFUSED) from error
