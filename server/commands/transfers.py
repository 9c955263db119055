"""`bankml create`, `bankml pull` and `bankml push`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from server.commands.usage_errors import OllamaCommand

if TYPE_CHECKING:
    from registry.names import ModelName

_insecure = click.option("--insecure", is_flag=True, help="The registry may be reached over plain HTTP.")


@click.command(cls=OllamaCommand, short_help="Make a model out of a Modelfile.")
@click.argument("model")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="The Modelfile (default: Modelfile, else the model here)."
)
@click.option("-q", "--quantize", metavar="TYPE", default="", help="The type that the weights have (Q4_K_M).")
def create(model: str, file: Path | None, quantize: str) -> None:
    """Make a model out of a Modelfile: another one, or files, with a system message, parameters, a licence."""
    from server.commands.client import Client
    from server.commands.creating import create as make

    with Client.from_environment() as client:
        make(client, model, file, quantize)


@click.command(cls=OllamaCommand, short_help="Fetch a model from a registry.")
@click.argument("model", required=False)
@_insecure
@click.option("--offline", is_flag=True, envvar="LLAMA_ARG_OFFLINE", help="Fetch nothing: only say what is here.")
def pull(model: str | None, insecure: bool, offline: bool) -> None:
    """Have the server fetch MODEL from a registry; without a server, fetch it into the folder of models.

    Without MODEL: fetches the default model into the cache, if it is not there, and prints its path.
    """
    if model is None:
        _pull_default(offline)
        return
    if offline:
        raise click.ClickException(f"--offline forbids fetching '{model}'")
    from server.commands.address import is_here
    from server.commands.client import Client, NoServer
    from server.commands.pulling import pull as follow
    from server.commands.pulling import pull_here

    with Client.from_environment() as client:
        try:
            client.get("/api/version")
        except NoServer:
            if not is_here(client.url):
                raise
        else:
            follow(client, model, insecure=insecure)
            return
    pull_here(model, insecure=insecure)


def _pull_default(offline: bool) -> None:
    from registry.download import ensure
    from registry.errors import RegistryError
    from registry.progress import OnTerminal

    progress = OnTerminal()
    try:
        path, _ = ensure(progress=progress, offline=offline)
    except RegistryError as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.close()
    click.echo(path)


@click.command(cls=OllamaCommand)
@click.argument("model")
@_insecure
def push(model: str, insecure: bool) -> None:
    """Send a model to a registry."""
    from registry.names import InvalidModelName, ModelName
    from server.commands.client import Client, ClientError
    from server.commands.errors import CommandError
    from server.commands.pulling import push as follow

    try:
        name = ModelName.parse(model)
    except InvalidModelName as error:
        raise CommandError(str(error)) from error
    with Client.from_environment() as client:
        try:
            follow(client, model, insecure=insecure)
        except ClientError as error:
            if any(words in str(error).lower() for words in ("access denied", "unauthorized")):
                text = "you are not authorized to push to this namespace, create the model under a namespace you own"
                raise ClientError(text, error.status) from error
            raise
    click.echo(f"\nYou can find your model at:\n\n\t{destination(name)}")


def destination(name: ModelName) -> str:
    """Where a pushed model is to be found."""
    if name.host.lower().endswith((".ollama.ai", ".ollama.com")):
        return f"https://ollama.com/{name.shown.removesuffix(':latest')}"
    return name.full
