"""Pulling and pushing a model through the server, with its progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from server.commands.client import Client
from server.commands.progress import Progress, ProgressLines


def pull(client: Client, model: str, *, insecure: bool) -> None:
    """Have the server pull a model.

    Raises:
        ClientError: it cannot.
    """
    # An object with no byte done only announces a layer; its bar comes when the layer does.
    lines = ProgressLines(_pulling, lambda event: bool(event.get("completed")))
    _follow(client, "/api/pull", model, insecure, lines)


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
