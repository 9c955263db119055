"""Pulling and pushing a model, through the server or without one, with the progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from server.commands.client import Client
from server.commands.errors import CommandError
from server.commands.progress import Progress, ProgressLines


def pull(client: Client, model: str, *, insecure: bool) -> None:
    """Have the server pull a model.

    Raises:
        ClientError: it cannot.
    """
    _follow(client, "/api/pull", model, insecure, _layers())


def pull_here(model: str, *, insecure: bool) -> None:
    """Pull a model into the folder of models that `bankml serve` has, without a server; it may be started meanwhile.

    Raises:
        CommandError: it cannot be pulled; the text is the one that a server has for it.
    """
    import asyncio
    from contextlib import aclosing

    from engine.errors import EngineError
    from registry.errors import RegistryError
    from registry.folder import ModelFolder
    from registry.fork_file import default_folder
    from registry.transfer.pull import Puller
    from server.wire.golang import InvalidBody
    from server.wire.ollama_transfers import check_layer, line, named

    async def follow() -> None:
        puller = Puller(ModelFolder(default_folder()), check=check_layer)
        with Progress(_layers()) as progress:
            async with aclosing(puller.pull(named(model), insecure=insecure)) as lines:
                async for each in lines:
                    progress.take(line(each))

    try:
        asyncio.run(follow())
    except (InvalidBody, RegistryError, EngineError) as error:
        raise CommandError(str(error)) from error


def _layers() -> ProgressLines:
    """The lines of a pull. An object with no byte done only announces a layer; its bar comes when the layer does."""
    return ProgressLines(_pulling, lambda event: bool(event.get("completed")))


def push(client: Client, model: str, *, insecure: bool) -> None:
    """Have the server push a model.

    Raises:
        ClientError: it cannot.
    """
    _follow(client, "/api/push", model, insecure, ProgressLines(status_or("pushing")))


def _follow(client: Client, path: str, model: str, insecure: bool, lines: ProgressLines) -> None:
    with Progress(lines) as progress:
        for event in client.stream(path, {"model": model, "insecure": insecure}):
            progress.take(event)


def _pulling(event: Mapping[str, Any]) -> str:
    """What the bar of a layer that comes is called."""
    digest = str(event["digest"])
    name = digest.removeprefix("sha256:").strip()
    return f"pulling {name[:12] if digest.startswith('sha256:') else name}:"


def status_or(verb: str) -> Callable[[Mapping[str, Any]], str]:
    """A bar is called what its first object's status says, or by the verb and the digest."""

    def name(event: Mapping[str, Any]) -> str:
        return str(event.get("status") or f"{verb} {str(event['digest'])[7:19]}...")

    return name
