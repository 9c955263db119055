"""`bankml diag`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from server.setting_types import Address

_PING: Final = "127.0.0.1:18093"
_TRIES: Final = 3


@click.command(short_help="Print the state of the machine.")
@click.argument("pids", metavar="[PID]...", nargs=-1, type=click.IntRange(min=0))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--full", is_flag=True, help="With the machine's name, and the addresses of every socket.")
@click.option("--ping", "pings", metavar="HOST:PORT", multiple=True, help=f"Connect to it. (default: {_PING})")
@click.option(
    "--sample",
    "sample_ms",
    metavar="MS",
    type=click.IntRange(1, 60_000),
    default=250,
    help="Watch so long. (default: 250)",
)
def diag(pids: tuple[int, ...], as_json: bool, full: bool, pings: tuple[str, ...], sample_ms: int) -> None:
    """Print the state of the machine and of processes: processor, memory, limits, disks, network, connections.

    Without a PID it is that of this command. The keys are those of the server's /bankml/diagnostics.
    """
    import asyncio
    import json

    addresses = [_address(text) for text in pings or (_PING,)]
    found = asyncio.run(_diagnosed(pids or None, full, addresses, sample_ms / 1000))
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(_lines(found)))


def _address(text: str) -> Address:
    from pydantic import TypeAdapter, ValidationError

    from server.setting_types import HostAndPort

    try:
        address: Address = TypeAdapter(HostAndPort).validate_python(text)
    except ValidationError as error:
        raise click.BadParameter(f"'{text}': must be HOST:PORT", param_hint="'--ping'") from error
    return address


async def _diagnosed(
    pids: Iterable[int] | None, full: bool, addresses: Iterable[Address], seconds: float
) -> dict[str, Any]:
    """The report, with what the processes took while they were watched, and how connections went."""
    from server import machine

    used = await machine.usage(pids, seconds)
    percent = {each["pid"]: each["cpu_percent"] for each in used["processes"]}
    found = machine.report(pids, full=full)
    for process in found["processes"]:
        process["cpu_percent"] = percent.get(process["pid"])
    pings = [await _pinged(*address) for address in addresses]
    return found | {"ping": pings, "gpus": [], "energy": None, "sample_ms": used["interval_ms"]}


async def _pinged(host: str, port: int) -> dict[str, Any]:
    """How long connections to an address took, in milliseconds, or why there was none."""
    from server import machine

    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        times = [await machine.connect(host, port) for _ in range(_TRIES)]
    except OSError as error:
        return {"address": shown, "connect_ms": None, "reason": _reason(error)}
    mean = round(sum(times) / len(times), 3)
    return {"address": shown, "connect_ms": {"min": min(times), "avg": mean, "max": max(times)}}


def _reason(error: OSError) -> str:
    """Why there was no connection; asyncio's own text repeats the address."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return "no answer within a second"
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or str(error)


def _lines(value: Any, depth: int = 0) -> Iterator[str]:
    """A tree as text: a name and its value on a line, what is inside it below, farther in."""
    indent = "  " * depth
    for name, inner in (
        value.items() if isinstance(value, Mapping) else ((str(n), each) for n, each in enumerate(value))
    ):
        if isinstance(inner, Mapping | list) and inner:
            yield f"{indent}{name}:"
            yield from _lines(inner, depth + 1)
        else:
            yield f"{indent}{name}: {'-' if inner is None or inner == [] else inner}"
