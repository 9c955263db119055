"""`bankml pull`."""

from __future__ import annotations

import click


@click.command()
def pull() -> None:
    """Fetch the default model into the cache, if it is not there, and print its path."""
    from registry.download import ensure
    from registry.errors import RegistryError
    from registry.progress import OnTerminal

    progress = OnTerminal()
    try:
        path, _ = ensure(progress=progress)
    except RegistryError as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.close()
    click.echo(path)
