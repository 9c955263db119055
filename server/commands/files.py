"""The commands that look at model files: `bankml guard`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
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
    from server.guard import EXIT_CODES, as_text, judge

    try:
        report = judge(file, ModelOptions(cache_type_k=cache_type_k, cache_type_v=cache_type_v), engine)
    except RegistryError as error:
        click.echo(f"bankml: {error}", err=True)
        raise click.exceptions.Exit(1) from error
    click.echo(json.dumps(report.as_json(), ensure_ascii=False) if as_json else as_text(file, report))
    raise click.exceptions.Exit(EXIT_CODES[report.verdict])
