"""`bankml serve` and `bankml run`: the commands with llama-server's flags."""

from __future__ import annotations

from typing import Any

import click

from server.commands.flags import FlagCommand, read_settings
from server.commands.version import version_option


@click.command(cls=FlagCommand, params=[version_option], short_help="Serve a model over HTTP.")
@click.argument("file", metavar="[FILE]", required=False)
def serve(file: str | None, **given: Any) -> None:
    """Serve a model over HTTP: llama-server's, OpenAI's and Ollama's endpoints.

    FILE is the model, as with -m. The flags are llama-server's. A flag beats its environment variable, named in
    brackets, which beats the default.
    """
    if file is not None:
        if given["set_model"] is not None:
            raise click.ClickException("FILE and --model are both given")
        given["set_model"] = file
    settings = read_settings(given)
    from server.serve import ServeError
    from server.serve import serve as start

    try:
        start(settings)
    except ServeError as error:
        raise click.ClickException(str(error)) from error


_RUN_GROUPS = ("Model", "Context", "Sampling")


@click.command(cls=FlagCommand, groups=lambda group: group.startswith(_RUN_GROUPS), short_help="Chat in the terminal.")
@click.argument("model_name", metavar="[MODEL]", required=False)
@click.argument("prompt", required=False)
def run(model_name: str | None, prompt: str | None, **given: Any) -> None:
    """Chat in the terminal.

    MODEL is a GGUF file or a name (default: smollm2); with -m it may be left out. With a PROMPT, or one on standard
    input, answers it and ends.

    Asks the bankML server that is running. Without one, or with -m or flags for the context or sampling, serves the
    model itself.
    """
    if given["set_model"] is not None and prompt is None:
        model_name, prompt = None, model_name
    settings = read_settings(given)
    from server.run import run as chat

    raise click.exceptions.Exit(chat(model_name, prompt, settings=settings))
