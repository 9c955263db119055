"""The commands about the models a server has: `list`, `ps`, `show`, `cp`, `rm`, `stop`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from server.commands.errors import CommandError
from server.commands.usage_errors import OllamaCommand

if TYPE_CHECKING:
    from server.commands.client import Client

_LISTED = ("NAME", "ID", "SIZE", "MODIFIED")
_RUNNING = ("NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL")
_PARTS = ("license", "modelfile", "parameters", "system", "template")
"""Parts of a model that `show` can print alone."""
_ZERO = datetime(1, 1, 1, tzinfo=UTC)


@click.command("list", cls=OllamaCommand, short_help="List the models of the server.")
@click.argument("prefixes", metavar="[PREFIX]", nargs=-1)
def list_models(prefixes: tuple[str, ...]) -> None:
    """List the models of the server, or those whose names begin with PREFIX."""
    from server.commands.client import Client

    with Client.from_environment() as client:
        models = client.models()
    click.echo(listing(models, "".join(prefixes[:1]), datetime.now(UTC)), nl=False)


def listing(models: list[dict[str, Any]], prefix: str, now: datetime) -> str:
    """The table of `bankml list`.

    Args:
        models: as `Client.models` has them.
        prefix: what a name begins with, letter case aside.
        now: the present.

    Raises:
        CommandError: a time is none.
    """
    from server.commands.human import human_bytes, human_time
    from server.commands.tables import table

    rows = [
        [model["name"], model["digest"][:12], human_bytes(model["size"]), human_time(_time(model["modified_at"]), now)]
        for model in models
        if model["name"].lower().startswith(prefix.lower())
    ]
    return table(rows, _LISTED)


@click.command("ps", cls=OllamaCommand)
@click.argument("prefixes", metavar="[PREFIX]", nargs=-1)
def list_running(prefixes: tuple[str, ...]) -> None:
    """List the models in memory."""
    from server.commands.client import Client

    with Client.from_environment() as client:
        models = client.running()
    click.echo(running(models, "".join(prefixes[:1]), datetime.now(UTC)), nl=False)


def running(models: list[dict[str, Any]], prefix: str, now: datetime) -> str:
    """The table of `bankml ps`; arguments and errors as of `listing`, the models as `Client.running` has them."""
    from server.commands.human import human_bytes, human_time
    from server.commands.tables import table

    rows = []
    for model in models:
        if not model["name"].startswith(prefix):
            continue
        expires_at = _time(model["expires_at"])
        until = "Stopping..." if expires_at < now else human_time(expires_at, now)
        size = human_bytes(model["size"])
        context = str(model["context_length"])
        rows.append([model["name"], model["digest"][:12], size, _processor(model), context, until])
    return table(rows, _RUNNING)


def _processor(model: Mapping[str, Any]) -> str:
    """Where a model is: the shares of processor and graphics card."""
    size, on_gpu = model["size"], model["size_vram"]
    if on_gpu == 0:
        return "100% CPU"
    if on_gpu == size:
        return "100% GPU"
    if on_gpu > size or size == 0:
        return "Unknown"
    on_cpu = int((size - on_gpu) / size * 100 + 0.5)
    return f"{on_cpu}%/{100 - on_cpu}% CPU/GPU"


def _time(text: str) -> datetime:
    """A time as Go writes it into JSON; of its nanoseconds the last three digits go."""
    if text.startswith("0001-"):
        return _ZERO
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise CommandError(f"the server gives a time that is none: {text!r}") from error


@click.command(cls=OllamaCommand)
@click.argument("model")
@click.option("--license", is_flag=True, help="Only its licence.")
@click.option("--modelfile", is_flag=True, help="Only its Modelfile.")
@click.option("--parameters", is_flag=True, help="Only its parameters.")
@click.option("--system", is_flag=True, help="Only its system message.")
@click.option("--template", is_flag=True, help="Only its template.")
@click.option("-v", "--verbose", is_flag=True, help="With its metadata and tensors.")
def show(model: str, verbose: bool, **parts: bool) -> None:
    """Show what a model is: architecture, parameters, licence."""
    from server.commands.client import Client

    wanted = [name for name in _PARTS if parts[name]]
    if len(wanted) > 1:
        named = ", ".join(f"'--{name}'" for name in _PARTS[:-1])
        raise CommandError(f"only one of {named}, or '--{_PARTS[-1]}' can be specified")
    with Client.from_environment() as client:
        shown = client.post("/api/show", {"model": model, "verbose": verbose})
    if wanted:
        # As with Ollama's command, what is one text is printed as it is.
        click.echo(shown.get(wanted[0], ""), nl=wanted[0] not in ("system", "template"))
        return
    from server.commands.show import sections

    click.echo(sections(shown, verbose=verbose), nl=False)


@click.command(cls=OllamaCommand, short_help="Copy a model to another name.")
@click.argument("source")
@click.argument("destination")
def cp(source: str, destination: str) -> None:
    """Copy a model: the same weights and layer under another name."""
    from server.commands.client import Client

    with Client.from_environment() as client:
        client.post("/api/copy", {"source": source, "destination": destination})
    click.echo(f"copied '{source}' to '{destination}'")


@click.command(cls=OllamaCommand)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def rm(models: tuple[str, ...]) -> None:
    """Remove models; weights that no other model uses go too."""
    from server.commands.client import Client, ClientError, NoServer

    with Client.from_environment() as client:
        for model in models:
            try:
                unload(client, model)
            except NoServer:
                raise
            except ClientError as error:
                if not error.not_found:
                    click.echo(f"Warning: unable to stop model '{model}'", err=True)
            client.delete("/api/delete", {"model": model})
            click.echo(f"deleted '{model}'")


@click.command(cls=OllamaCommand)
@click.argument("model")
def stop(model: str) -> None:
    """Unload a model from memory."""
    from server.commands.client import Client, ClientError

    with Client.from_environment() as client:
        try:
            unload(client, model)
        except ClientError as error:
            if error.not_found:
                raise ClientError(f'couldn\'t find model "{model}" to stop') from error
            raise


def unload(client: Client, model: str) -> None:
    """Have a model leave memory. Errors as `Client.get`."""
    client.show(model)
    client.load(model, keep_alive=0)
