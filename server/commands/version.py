"""`bankml version`, and `--version` of the commands that have it."""

from __future__ import annotations

import click


def version_text() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("bankml")
    except PackageNotFoundError:
        return "unknown"


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"bankml {version_text()}")
        ctx.exit()


def version_option(*short: str) -> click.Option:
    """`--version`, and its short names, `-V` always."""
    return click.Option(
        ["--version", "-V", *short],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Show the version.",
    )


@click.command()
def version() -> None:
    """Show the version."""
    click.echo(f"bankml {version_text()}")
