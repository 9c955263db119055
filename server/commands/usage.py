"""`bankml usage`."""

from __future__ import annotations

from typing import Final

import click

_SAMPLE_SECONDS: Final = 0.5


@click.command(short_help="Print what the machine and processes use.")
@click.argument("pids", metavar="[PID]...", nargs=-1, type=click.IntRange(min=0))
def usage(pids: tuple[int, ...]) -> None:
    """Print memory, cores and, over half a second, the processor time of processes, as one JSON object.

    Without a PID it is that of this command. The keys are those of the server's /bankml/usage: bytes, and 100 percent
    for one busy core. A process that does not live is left out.
    """
    import asyncio
    import json

    from server import machine

    used = asyncio.run(machine.usage(pids or None, _SAMPLE_SECONDS))
    click.echo(json.dumps(used, ensure_ascii=False))
