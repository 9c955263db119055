"""`bankml convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from registry.conversion import ConversionReport
    from registry.fork_file import ForkFile


@click.command(short_help="Make a GGUF file of a directory of safetensors.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("-o", "--outfile", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option("--outtype", metavar="f16", default="f16", help="The type of the weights; no other is written.")
@click.option("--model-name", metavar="NAME", help="The model's name, instead of what its files and folder say.")
@click.option("--fork", type=click.Path(path_type=Path), help="Also write a FORK.json that pins the file.")
@click.option("--source", metavar="TEXT", help="Where the directory came from, for the FORK.json. (default: its path)")
@click.option("--ignore-model-card", is_flag=True, help="Do not read README.md; llama.cpp's converter would.")
def convert(
    directory: Path,
    outfile: Path,
    outtype: str,
    model_name: str | None,
    fork: Path | None,
    source: str | None,
    ignore_model_card: bool,
) -> None:
    """Make a GGUF file of a directory of safetensors (Llama, Qwen2, Qwen3), byte for byte as llama.cpp b11192 does.

    Prints the file's sha256 and name. Exits with 2 and the reason when the directory is not converted, with 1 when a
    file cannot be read or written.
    """
    from registry.conversion import ConversionOptions
    from registry.conversion import convert as run
    from registry.errors import ConversionRefused, RegistryError
    from registry.progress import OnTerminal

    progress = OnTerminal()
    try:
        if outtype != "f16":
            raise ConversionRefused(f"--outtype {outtype} is not written, only f16 is")
        report = run(directory, outfile, ConversionOptions(model_name, ignore_model_card), progress=progress)
        if fork is not None:
            _fork_file(report, source or str(directory.resolve())).write(fork)
    except ConversionRefused as error:
        click.echo(f"bankml convert: refuse: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    except RegistryError as error:
        click.echo(f"bankml convert: {error}", err=True)
        raise click.exceptions.Exit(1) from error
    finally:
        progress.close()
    click.echo(
        f"{report.name}: {report.architecture}, {report.n_tensors} tensors, {report.n_keys} keys, "
        f"{report.n_params:,} weights, {report.size:,} bytes",
        err=True,
    )
    click.echo(f"{report.sha256}  {outfile}")


def _fork_file(report: ConversionReport, source: str) -> ForkFile:
    """The pin of the converted file, and what it was made of."""
    from datetime import UTC, datetime

    from registry.fork_file import ForkFile, PinnedFile
    from server.commands.version import version_text

    return ForkFile(
        files=(PinnedFile(report.output.name, report.sha256, report.size),),
        record={
            "kind": "converted",
            "source": source,
            "converter": f"bankml {version_text()}, as llama.cpp b11192",
            "converted_at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "inputs": [{"path": name, "bytes": size, "sha256": sha256} for name, size, sha256 in report.inputs],
        },
    )
