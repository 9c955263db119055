"""`bankml serve` and `bankml run`: the commands with llama-server's flags."""

from __future__ import annotations

from typing import Any

import click

from server.commands.flags import FlagCommand, read_settings
from server.commands.version import version_option


@click.command(cls=FlagCommand, params=[version_option()], short_help="Serve a model over HTTP.")
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


@click.command(
    cls=FlagCommand,
    groups=lambda group: group.startswith(_RUN_GROUPS),
    alone=("--think", "--truncate"),
    short_help="Chat in the terminal.",
)
@click.argument("model", metavar="[MODEL]", required=False)
@click.argument("words", metavar="[PROMPT]...", nargs=-1)
@click.option("--keepalive", metavar="DURATION", default="", help="How long the model stays in memory (5m).")
@click.option("--format", "format_", metavar="FORMAT", default="", help="Form of the answer: json, or a JSON schema.")
@click.option("--think", metavar="[=LEVEL]", help="Think before answering: true, false, high, medium, low or max.")
@click.option("--hidethinking", is_flag=True, help="Do not show what was thought.")
@click.option("--verbose", is_flag=True, help="Show what the answer measured.")
@click.option("--nowordwrap", is_flag=True, help="Do not break lines between words.")
@click.option("--insecure", is_flag=True, help="A model that has to be pulled may come over plain HTTP.")
@click.option("--truncate", metavar="[=BOOL]", type=bool, help="Embedding models: cut texts that are too long.")
@click.option("--dimensions", metavar="N", type=int, default=0, help="Embedding models: how many numbers.")
def run(model: str | None, words: tuple[str, ...], **given: Any) -> None:
    """Chat in the terminal.

    MODEL is a GGUF file or a name (default: smollm2); with -m it may be left out. A model that the server does not
    have is pulled. With a PROMPT, or one on standard input, answers it and ends.

    Asks the bankML server that is running. Without one, or with -m or flags for the context or sampling, serves the
    model itself.
    """
    if given["set_model"] is not None and model is not None and not words:
        words, model = (model,), None
    settings = read_settings(given)
    from server.commands.run import RunOptions
    from server.commands.run import run as chat
    from server.serve import ServeError

    names = ("keepalive", "think", "hidethinking", "verbose", "nowordwrap", "insecure", "truncate", "dimensions")
    options = RunOptions(format=given["format_"], **{name: given[name] for name in names})
    try:
        raise click.exceptions.Exit(chat(model, words, settings=settings, options=options))
    except ServeError as error:
        raise click.ClickException(str(error)) from error
