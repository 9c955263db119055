"""`bankml help`: what `--help` says."""

from __future__ import annotations

import click

from server.commands.errors import CommandError


@click.command("help", short_help="Show what --help says, of a command or of all.")
@click.argument("verb", metavar="[COMMAND]", required=False)
@click.pass_context
def help_command(ctx: click.Context, verb: str | None) -> None:
    """Show what --help says of a command, or of all."""
    at = ctx.parent
    assert at is not None
    if verb is not None:
        assert isinstance(at.command, click.Group)
        found = at.command.get_command(at, verb)
        if found is None:
            raise CommandError(f'unknown help topic "{verb}"')
        at = click.Context(found, parent=at, info_name=verb)
    click.echo(at.get_help())
