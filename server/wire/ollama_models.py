"""What Ollama's `/api/tags`, `/api/ps` and `/api/show` say of a model. Pure functions over its entry and header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.catalog import Entry
from registry.derived import Layer
from registry.headers import Header
from registry.modelfile import Command, write
from registry.names import DEFAULT_NAMESPACE, InvalidModelName, ModelName
from server.wire.golang import InvalidBody, format_time, human_number, json_value, quote, show_value
from server.wire.ollama_capabilities import capabilities
from server.wire.ollama_fields import Fields, checked_name, fields_of, sourced

MAX_DURATION_S: Final = (2**63 - 1) / 1e9
"""Seconds in Go's longest duration, about 292 years: how far ahead Ollama dates what never expires."""

SHOW_FIELDS: Final[Fields] = {
    "model": "string",
    "name": "string",
    "system": "string",
    "template": "string",
    "verbose": "bool",
    "options": "map[string]interface {}",
}
"""The fields of `POST /api/show` and their Go types."""

COPY_FIELDS: Final[Fields] = {"source": "string", "destination": "string"}
"""The fields of `POST /api/copy` and their Go types."""

DELETE_FIELDS: Final[Fields] = {"model": "string", "name": "string"}
"""The fields of `DELETE /api/delete` and their Go types."""

_FILE_TYPES: Final = {
    **dict(enumerate(("F32", "F16", "Q4_0", "Q4_1"))),
    **dict(enumerate(("Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L"), 7)),
    **dict(enumerate(("Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S"), 14)),
    **dict(enumerate(("IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M"), 22)),
    **dict(enumerate(("IQ4_XS", "IQ1_M", "BF16"), 30)),
    **dict(enumerate(("TQ1_0", "TQ2_0", "MXFP4_MOE", "NVFP4", "Q1_0", "Q2_0"), 36)),
}
"""`general.file_type` (llama.cpp's `llama_ftype`) by number."""


def details(header: Header | None, parent: str = "", *, lengths: bool = False) -> dict[str, Any]:
    """The `details` object; empty values for a file that cannot be read.

    Args:
        parent: the model it was made from.
        lengths: with the context and the embedding lengths, where the header has them.
    """
    family = header.architecture if header else ""
    file_type = header.metadata.get("general.file_type") if header else None  # anything, in a file of bad faith
    found = {"context_length": header.n_ctx_train, "embedding_length": header.n_embd} if header and lengths else {}
    return {
        "parent_model": parent,
        "format": "gguf",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": human_number(header.n_params) if header else "",
        "quantization_level": _FILE_TYPES.get(file_type, "unknown") if isinstance(file_type, int) else "unknown",
        **{name: value for name, value in found.items() if value},
    }


def capabilities_of(header: Header | None) -> list[str]:
    """What a model can do; nothing for a file that is not played."""
    if header is None or header.reason is not None:
        return []
    return capabilities(header.template, pools=header.pools, fills_gaps=header.fills_gaps)


def listed(entry: Entry, header: Header | None, reason: str | None) -> dict[str, Any]:
    """One model of `/api/tags`.

    Args:
        reason: why it cannot be played, None when it can.
    """
    can = capabilities_of(header)
    return {
        "name": entry.shown,
        "model": entry.shown,
        "modified_at": format_time(int(entry.modified_at.timestamp() * 1e6) * 1000),
        "size": entry.size,
        "digest": entry.digest,
        "details": details(header, entry.parent, lengths=True),
        **({"capabilities": can} if can else {}),
        "bankml": {"native": reason is None, "reason": reason, "file": entry.path.name, "found": entry.found},
    }


def running(entry: Entry, header: Header | None, *, n_ctx: int, expires_at: float, now: float) -> dict[str, Any]:
    """One model of `/api/ps`.

    Args:
        n_ctx: its context in tokens.
        expires_at, now: Unix time in seconds; infinity when it never expires.
    """
    return {
        "name": entry.shown,
        "model": entry.shown,
        "size": entry.size,
        "digest": entry.digest,
        "details": details(header, entry.parent),
        "expires_at": format_time(int(min(expires_at, now + MAX_DURATION_S) * 1e6) * 1000),
        "size_vram": 0,
        "context_length": n_ctx,
    }


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """What a `POST /api/show` asks.

    Attributes:
        model: the name.
        verbose: with the values of the header's arrays.
        system, options: what the Modelfile shall have instead of, and besides, the model's own.
    """

    model: str
    verbose: bool
    system: str
    options: Mapping[str, Any]


def parse_show(body: bytes) -> ShowRequest:
    """The request in a `POST /api/show` body.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, _ = fields_of(body, "ShowRequest", SHOW_FIELDS)
    name = checked_name(given.get("model") or given.get("name", ""))
    return ShowRequest(name, given.get("verbose", False), given.get("system", ""), given.get("options", {}))


def parse_copy(body: bytes) -> tuple[ModelName, ModelName, str]:
    """The two names in a `POST /api/copy` body, and the first as it was written.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, _ = fields_of(body, "CopyRequest", COPY_FIELDS)
    names = []
    for part in ("source", "destination"):
        try:
            names.append(ModelName.parse(given.get(part, "")))
        except InvalidModelName:
            raise InvalidBody(f"{part} {quote(given.get(part, ''))} is invalid") from None
    return names[0], names[1], given.get("source", "")


def parse_delete(body: bytes) -> tuple[ModelName, str]:
    """The name in a `DELETE /api/delete` body, and as it was written.

    Raises:
        InvalidBody: with Go's or Ollama's text for what is wrong with it.
    """
    given, _ = fields_of(body, "DeleteRequest", DELETE_FIELDS)
    written = given.get("model") or given.get("name", "")
    if not written.strip():
        raise InvalidBody("model is required")
    base, source = sourced(written)
    try:
        return ModelName.parse(base if source == "local" else written.strip()), written
    except InvalidModelName:
        raise InvalidBody(f"name {quote(written)} is invalid") from None


def described(entry: Entry, header: Header, asked: ShowRequest, *, n_ctx: int | None) -> dict[str, Any]:
    """The `/api/show` object.

    Args:
        n_ctx: the context it is served with, None while it is not loaded.
    """
    layer = entry.layer
    system = asked.system or (layer.system if layer and layer.system else "")
    info = {name: json_value(value) for name, value in header.metadata.items() if name not in _NOT_INFO}
    info["general.parameter_count"] = header.n_params
    shown: dict[str, Any] = {
        "license": "\n".join(_licenses(entry, header)),
        "modelfile": modelfile(entry, header, system, asked.options),
        "parameters": "\n".join(_parameters(layer)),
        "template": _template(header),
        "system": system,
        "details": details(header, entry.parent),
        "messages": [{"role": turn.role, "content": turn.content} for turn in layer.messages] if layer else [],
        "model_info": dict(sorted(info.items())),
        "tensors": [{"name": name, "type": kind, "shape": shape} for name, kind, shape in header.tensors],
        "capabilities": capabilities_of(header),
        "modified_at": format_time(int(entry.modified_at.timestamp() * 1e6) * 1000),
        "requires": layer.requires if layer and layer.requires else "",
    }
    shown = {name: value for name, value in shown.items() if value not in ("", []) or name == "model_info"}
    shown["bankml"] = {"sha256": entry.sha256, "native": header.reason is None, "n_ctx": n_ctx}
    if layer is not None:
        base = {"sha256": layer.base_sha256, "file": entry.path.name, "fork": entry.fork}
        shown["bankml"]["layer"] = {"digest": f"sha256:{entry.digest}", "base": base}
    return shown


_NOT_INFO: Final = ("general.name", "tokenizer.chat_template")
"""What Ollama leaves out of `model_info`."""


def modelfile(entry: Entry, header: Header, system: str = "", options: Mapping[str, Any] | None = None) -> str:
    """The Modelfile that makes the same model again.

    Args:
        system: its system message.
        options: parameters besides the model's own, or in their place.
    """
    layer = entry.layer
    parameters: dict[str, Any] = {} if layer is None else {**layer.parameters, "stop": list(layer.stop)}
    commands = [Command("model", str(entry.path))]
    commands += [Command("template", _template(header))] if _template(header) else []
    commands += [Command("system", system)] if system else []
    for name, value in sorted({**parameters, **(options or {})}.items()):
        values = value if isinstance(value, list) else [value]
        commands += [Command(name, show_value(each)) for each in values]
    if layer is not None:
        commands += [Command("license", text) for text in layer.license]
        commands += [Command("message", f"{turn.role}: {turn.content}") for turn in layer.messages]
    return (
        '# Modelfile generated by "ollama show"\n'
        "# To build a new Modelfile based on this, replace FROM with:\n"
        f"# FROM {entry.shown}\n\n{write(commands)}"
    )


def _template(header: Header) -> str:
    return header.template or str(header.metadata.get("tokenizer.chat_template", ""))


def _licenses(entry: Entry, header: Header) -> tuple[str, ...]:
    """The licences of a model, else what its file says of one."""
    own = entry.layer.license if entry.layer else ()
    return own or (str(header.metadata.get("general.license", "")),)


def _parameters(layer: Layer | None) -> list[str]:
    """The lines of `parameters`: a name, and what it is, as Go prints it."""
    if layer is None:
        return []
    found = {name: [show_value(value)] for name, value in layer.parameters.items()}
    found |= {"stop": [quote(stop) for stop in layer.stop]}
    return [f"{name:<30} {value}" for name, values in sorted(found.items()) for value in values]


def model_of_openai(entry: Entry, name: str) -> dict[str, Any]:
    """OpenAI's model object as Ollama makes it.

    Args:
        name: what the client called it.
    """
    try:
        owner = ModelName.parse(name).namespace
    except InvalidModelName:
        owner = DEFAULT_NAMESPACE
    return {"id": name, "object": "model", "created": int(entry.modified_at.timestamp()), "owned_by": owner}
