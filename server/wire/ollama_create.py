"""Ollama's `POST /api/create` as pure functions: a body, or a Modelfile in it, in; a `Recipe` out.

Fields, their types and the texts of errors are those of Ollama's `api/types.go`, `server/create.go` and
`parser/parser.go`. What would make another model than the one asked for is refused.

Every function that reads raises `InvalidBody`, a 400, whose text is Go's or Ollama's where they have one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.conversion.uploads import is_valid_path
from registry.creation import Recipe
from registry.derived import Message
from registry.modelfile import Command, ModelfileError, parse
from registry.names import InvalidModelName, ModelName, split_source
from registry.parameters import DEPRECATED, FORMS, ParameterError, parse_parameters
from server.wire.golang import InvalidBody, mismatch, quote
from server.wire.ollama_fields import fields_of
from server.wire.ollama_options import parse_options
from server.wire.ollama_transfers import NO_CLOUD

CREATE_FIELDS: Final = {
    "model": "string",
    "modelfile": "string",
    "stream": "bool",
    "quantize": "string",
    "draft_quantize": "string",
    "from": "string",
    "remote_host": "string",
    "files": "map[string]string",
    "draft_files": "map[string]string",
    "adapters": "map[string]string",
    "template": "string",
    "license": "interface {}",
    "system": "string",
    "parameters": "map[string]interface {}",
    "messages": "[]api.Message",
    "renderer": "string",
    "parser": "string",
    "requires": "string",
    "info": "map[string]interface {}",
    "name": "string",
    "quantization": "string",
}
"""The fields of `POST /api/create` and their Go types; `modelfile` is that of older clients."""

_AT_LEAST: Final = {
    **dict.fromkeys(("temperature", "top_p", "min_p", "typical_p"), 0),
    "num_ctx": 1,
    "num_predict": -2,
    "repeat_last_n": -1,
}
"""The smallest values that mean something."""
_VERSION: Final = re.compile(
    r"v?(0|[1-9]\d*)(\.(0|[1-9]\d*)(\.(0|[1-9]\d*)"
    r"(-((0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)?)?",
    re.ASCII,
)
"""A version as Go's `semver` package takes it, with or without its `v`."""
_REFUSED: Final = {
    "adapters": "adapters are not supported: merge the LoRA into the weights it is for, and create from those",
    "draft_files": "draft models are not supported",
    "draft_quantize": "draft models are not supported",
    "remote_host": "models of another host are not supported",
    "renderer": "renderer is not supported: the weights' own chat template is used",
    "parser": "parser is not supported: how an answer is read follows from the weights' own chat template",
    "info": "info is not supported: what a model is, is read from its weights",
}
_DIGEST: Final = "invalid digest format"


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A `POST /api/create` that may run.

    Attributes:
        recipe: what to make.
        stream: NDJSON lines, or the last of them alone.
        warnings: status lines for what was left out.
    """

    recipe: Recipe
    stream: bool = True
    warnings: tuple[str, ...] = ()


def parse_create(body: bytes) -> CreateRequest:
    """The request in a `POST /api/create` body."""
    given, _ = fields_of(body, "CreateRequest", CREATE_FIELDS)
    for field in ("files", "draft_files"):
        for file, digest in given.get(field, {}).items():
            if not is_valid_path(file):
                raise InvalidBody("file path must be relative")
            if not digest:
                raise InvalidBody(_DIGEST)
    if given.get("draft_quantize") and not given.get("draft_files"):
        raise InvalidBody("--draft-quantize requires a DRAFT model")
    if not all(given.get("adapters", {}).values()):
        raise InvalidBody(_DIGEST)
    try:
        name = ModelName.parse(given.get("model") or given.get("name", ""))
    except InvalidModelName as error:
        raise InvalidBody(str(error)) from None
    warnings: tuple[str, ...] = ()
    stream = given.get("stream", True)
    if given.get("modelfile"):
        read, warnings = _of_modelfile(given["modelfile"])
        given = {**read, **{field: value for field, value in given.items() if value}}
    for field, reason in _REFUSED.items():
        if given.get(field):
            raise InvalidBody(reason)
    if not given.get("from") and "files" not in given:
        raise InvalidBody("neither 'from' or 'files' was specified")
    return CreateRequest(_recipe(name, given), stream, warnings)


def create_fields(commands: Iterable[Command]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a Modelfile asks of `POST /api/create`, as Ollama's client has it; and warnings for what it leaves out.

    FROM, ADAPTER and DRAFT are left to the caller, who knows which of them name files.
    """
    fields: dict[str, Any] = {}
    parameters: list[tuple[str, str]] = []
    warnings: list[str] = []
    for command in commands:
        name, args = command.name, command.args
        if name in ("template", "system", "renderer", "parser"):
            fields[name] = args
        elif name == "license":
            fields.setdefault("license", []).append(args)
        elif name == "requires":
            if _VERSION.fullmatch(args) is None:
                raise InvalidBody("requires must be a valid semver (e.g. 0.14.0)")
            fields["requires"] = args.removeprefix("v")
        elif name == "message":
            role, _, content = args.partition(": ")
            fields.setdefault("messages", []).append({"role": role, "content": content})
        elif name in DEPRECATED:
            warnings.append(f"warning: parameter {name} is deprecated")
        elif name not in ("model", "adapter", "draft"):
            parameters.append((name, args))
    try:
        found = parse_parameters(parameters)
    except ParameterError as error:
        raise InvalidBody(str(error)) from None
    if found:
        fields["parameters"] = found
    return fields, tuple(warnings)


def _of_modelfile(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    try:
        commands = parse(text)
    except ModelfileError as error:
        raise InvalidBody(str(error)) from None
    sources = [command.args for command in commands if command.name == "model"]
    if len(sources) > 1:
        raise InvalidBody("more than one FROM is not supported")
    for name in ("adapter", "draft"):
        if any(command.name == name for command in commands):
            raise InvalidBody(_REFUSED["adapters" if name == "adapter" else "draft_files"])
    fields, warnings = create_fields(commands)
    return {"from": sources[0], **fields}, warnings


def _recipe(name: ModelName, given: Mapping[str, Any]) -> Recipe:
    parameters, stop = _parameters(given.get("parameters", {}))
    return Recipe(
        name=name,
        source=_source(given.get("from", "").strip()),
        files={} if given.get("from") else given.get("files", {}),
        system=given.get("system", ""),
        template=given.get("template", ""),
        license=_license(given.get("license")),
        parameters=parameters,
        stop=stop,
        messages=tuple(map(_message, given.get("messages", ()))),
        requires=given.get("requires", ""),
        quantize=given.get("quantize") or given.get("quantization", ""),
    )


def _source(text: str) -> str:
    """What a model is made from, without the `:local` that may end a model's name."""
    base, place = split_source(text)
    if place and split_source(base)[1]:
        raise InvalidBody("invalid model name")
    if place == "cloud":
        raise InvalidBody(NO_CLOUD)
    return base


def _parameters(given: Mapping[str, Any]) -> tuple[dict[str, bool | int | float], tuple[str, ...] | None]:
    """The parameters that a request's `options` may have, with values they may have; and `stop`."""
    values = {name: value for name, value in given.items() if value is not None}
    options = parse_options(values)  # refuses what no request may ask for
    stop = None if values.pop("stop", None) is None else options.stop
    for name, least in _AT_LEAST.items():
        if values.get(name, least) < least:
            raise InvalidBody(f"parameter {quote(name)} must be at least {least}")
    if values.get("repeat_penalty", 1) <= 0:
        raise InvalidBody('parameter "repeat_penalty" must be more than 0')
    return {name: int(value) if FORMS.get(name) == "int" else value for name, value in values.items()}, stop


def _license(value: object) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise mismatch(value, "[]string")
    for text in value:
        if not isinstance(text, str):
            raise mismatch(text, "string")
    return tuple(value)


def _message(given: Mapping[str, Any]) -> Message:
    role = str(given.get("role", "")).lower()
    if role not in ("system", "user", "assistant"):
        raise InvalidBody('message role must be one of "system", "user", or "assistant"')
    for name, value in given.items():
        if value and name not in ("role", "content"):
            raise InvalidBody(f"messages with {name} are not supported in a model")
    return Message(role, given.get("content", ""))
