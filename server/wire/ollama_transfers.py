"""Ollama's `POST /api/pull` and `POST /api/push` as pure functions: a body in, a request out; progress in, lines out.

Fields, statuses and texts are those of Ollama's `api/types.go`, `server/routes.go` and `server/images.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.derived import Layer
from registry.names import InvalidModelName, ModelName
from registry.transfer.errors import NotPlayable
from registry.transfer.ticks import Progress
from server.wire.golang import InvalidBody
from server.wire.ollama_fields import fields_of, sourced
from server.wire.ollama_options import parse_options

TRANSFER_FIELDS: Final = {
    "model": "string",
    "insecure": "bool",
    "username": "string",
    "password": "string",
    "stream": "bool",
    "name": "string",
}
"""The fields of both bodies and their Go types. `username` and `password` change nothing, as in Ollama."""
NO_CLOUD: Final = "models that run in Ollama's cloud are not supported"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A pull or a push.

    Attributes:
        name: of the model; its host is the registry.
        insecure: HTTP instead of HTTPS.
        stream: a line for every step, or the last one alone.
    """

    name: ModelName
    insecure: bool
    stream: bool


def parse_pull(body: bytes) -> Transfer:
    """A `POST /api/pull` body.

    Raises:
        InvalidBody: what is wrong with it.
    """
    given, _ = fields_of(body, "PullRequest", TRANSFER_FIELDS)
    return _transfer(given, named(given.get("model") or given.get("name", "")))


def parse_push(body: bytes) -> Transfer:
    """A `POST /api/push` body.

    Raises:
        InvalidBody: what is wrong with it.
    """
    given, _ = fields_of(body, "PushRequest", TRANSFER_FIELDS)
    name = given.get("model") or given.get("name", "")
    if not name:
        raise InvalidBody("model is required")
    return _transfer(given, _parsed(name))


def _transfer(given: Mapping[str, Any], name: ModelName) -> Transfer:
    return Transfer(name, given.get("insecure", False), given.get("stream", True))


def named(text: str) -> ModelName:
    """The name of a model to pull.

    Raises:
        InvalidBody: it is none, or one of a model that runs in Ollama's cloud.
    """
    return _parsed(_without_source(text))


def _parsed(text: str) -> ModelName:
    try:
        return ModelName.parse(text)
    except InvalidModelName as error:
        raise InvalidBody(str(error)) from None


def _without_source(name: str) -> str:
    """A name without the `:local` that may end it.

    Raises:
        InvalidBody: it asks for a model that runs in Ollama's cloud.
    """
    base, source = sourced(name)
    if source == "cloud":
        raise InvalidBody(NO_CLOUD)
    return base


def check_layer(layer: Layer) -> None:
    """That the parameters of a model that is pulled can be applied here.

    Raises:
        NotPlayable: they cannot; the message says why.
    """
    try:
        parse_options({**layer.parameters, **({"stop": list(layer.stop)} if layer.stop else {})})
    except InvalidBody as error:
        raise NotPlayable(f"the model's parameters cannot be applied: {error}") from error


def line(progress: Progress) -> dict[str, Any]:
    """A progress line; what is empty or zero is left out, as Go does."""
    line: dict[str, Any] = {"status": progress.status}
    if progress.digest:
        line["digest"] = progress.digest
    if progress.total:
        line["total"] = progress.total
    if progress.completed:
        line["completed"] = progress.completed
    return line


def config_of(details: Mapping[str, Any], layer: Layer) -> dict[str, Any]:
    """A model's configuration as registries have it, from its `details`."""
    return {
        "model_format": "gguf",
        "model_family": details["family"],
        "model_families": details["families"],
        "model_type": details["parameter_size"],
        "file_type": details["quantization_level"],
        **({"requires": layer.requires} if layer.requires else {}),
        "architecture": "amd64",
        "os": "linux",
    }
