"""Derived models: what `create`, `copy` and `pull` make. A manifest puts a layer over weights that are pinned.

A manifest is a small file, `NAME.MODEL.json`; it holds no weights. Its `digest` is the SHA-256 of the layer, and the
layer names its base by the SHA-256 of the whole file. So the same layer over the same weights has the same digest
whatever it is called and whenever it was made, and a manifest that was edited by hand is known by it, and refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from registry.errors import RegistryError
from registry.json_size import too_much_structure
from registry.names import InvalidModelName, ModelName

KIND: Final = "bankml derived model"
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_ROLES: Final = ("system", "user", "assistant")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half a pair: JSON can say it, and no text of Unicode can have it."""


class ManifestRefused(RegistryError):
    """A manifest that is not used; the message says why, and is fit for one line."""


@dataclass(frozen=True, slots=True)
class Message:
    """A turn that a model's conversations begin with.

    Args:
        role: `system`, `user` or `assistant`.
        content: its text.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Base:
    """The weights under a layer.

    Args:
        name: the name they were asked for by.
        file: the file's plain name.
        sha256: of the whole file, 64 lower-case hexadecimal digits.
        fork: name of the FORK.json that pins the file; None for a blob of the folder.
        path: where the file lay when the model was made. A blob is looked for in the folder first.
    """

    name: str
    file: str
    sha256: str
    fork: str | None
    path: Path


@dataclass(frozen=True)
class Layer:
    """What a derived model adds to its weights. Two with the same digest are equal.

    Args:
        base_sha256: of the weights, hex.
        system: the system message; None for none.
        parameters: Ollama's options that are defaults of its requests, all but `stop`.
        stop: strings that end an answer; empty for none of its own.
        template_sha256: of the template it was made with, as UTF-8: the weights' own chat template, or a template of a
            pulled model, which is kept as a blob and not run. None where none was given.
        license: texts, in order.
        messages: turns before those of a request.
        requires: the version of Ollama it asks for; recorded.
    """

    base_sha256: str
    system: str | None = None
    parameters: Mapping[str, bool | int | float] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    template_sha256: str | None = None
    license: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    requires: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The layer as its manifest has it; keys in the manifest's order."""
        return {
            "base_sha256": self.base_sha256,
            "system": self.system,
            "parameters": dict(self.parameters),
            "stop": list(self.stop),
            "template_sha256": self.template_sha256,
            "license": list(self.license),
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "requires": self.requires,
        }

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """`sha256:` and the SHA-256 of the layer as JSON: keys in order of their code points, nothing but ASCII, no
        space between."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class DerivedModel:
    """A name, weights, and a layer over them.

    Args:
        name: what it is called.
        created_at: when it was made, UTC.
        base: its weights.
        layer: what it adds.
    """

    name: ModelName
    created_at: datetime
    base: Base
    layer: Layer

    def __post_init__(self) -> None:
        if self.base.sha256 != self.layer.base_sha256:
            raise ValueError("the layer is over other weights than the model's")

    @property
    def digest(self) -> str:
        """The layer's: `sha256:` and 64 hexadecimal digits."""
        return self.layer.digest

    def check_pin(self, sha256: str) -> None:
        """That the file this model's weights were taken from is still pinned to the same bytes.

        Args:
            sha256: what the fork file says now, hex.

        Raises:
            ManifestRefused: it says something else.
        """
        if sha256.lower() != self.base.sha256:
            raise ManifestRefused(
                f"'{self.name.shown}' was made over another '{self.base.file}' than the one that is pinned now: "
                f"sha256 {self.base.sha256[:16]}..., pinned {sha256.lower()[:16]}..."
            )

    def to_json(self, version: str) -> bytes:
        """The manifest, indented, UTF-8; `version` is the program's."""
        base = self.base
        manifest = {
            "kind": KIND,
            "bankml": version,
            "name": self.name.shown,
            "created_at": self.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "base": {
                "name": base.name,
                "file": base.file,
                "sha256": base.sha256,
                "fork": base.fork,
                "path": str(base.path),
            },
            "layer": self.layer.as_json(),
            "digest": self.digest,
        }
        return json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> DerivedModel:
        """The model of a manifest.

        Raises:
            ManifestRefused: it is no manifest, a value has the wrong type, or its digest is not its content's.
        """
        if reason := too_much_structure(data, "it"):
            raise ManifestRefused(f"not a manifest: {reason}")
        try:
            manifest = json.loads(data)
        except (ValueError, RecursionError):
            raise ManifestRefused("not a manifest: not JSON") from None
        fields = _Fields(manifest, "the manifest")
        if fields.text("kind") != KIND:
            raise ManifestRefused(f"not a manifest: its kind is not '{KIND}'")
        try:
            name = ModelName.parse(fields.text("name"))
            created_at = datetime.fromisoformat(fields.text("created_at")).astimezone(UTC)
        except InvalidModelName:
            raise ManifestRefused("not a manifest: its name is none") from None
        except (ValueError, OverflowError):
            raise ManifestRefused("not a manifest: created_at is no time") from None
        base, layer = _base(fields.object("base")), _layer(fields.object("layer"))
        if base.sha256 != layer.base_sha256 or fields.text("digest") != layer.digest:
            raise ManifestRefused("edited by hand, refused: create it again")
        return cls(name, created_at, base, layer)


class _Fields:
    """A JSON object whose values are taken by name and type.

    Args:
        value: the object, or anything else, which is refused.
        where: what it is, for the message.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ManifestRefused(f"not a manifest: {where} is not an object")
        self._values: dict[str, Any] = value
        self._where = where

    def _refuse(self, name: str, what: str) -> ManifestRefused:
        return ManifestRefused(f"not a manifest: {name} of {self._where} is not {what}")

    def object(self, name: str) -> _Fields:
        return _Fields(self._values.get(name), name)

    def text(self, name: str) -> str:
        if (found := self.text_or_none(name)) is None:
            raise self._refuse(name, "a text")
        return found

    def text_or_none(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not _is_text(value):
            raise self._refuse(name, "a text")
        return value

    def sha256(self, name: str) -> str:
        if _HEX.fullmatch(value := self.text(name)) is None:
            raise self._refuse(name, "a sha256")
        return value

    def sha256_or_none(self, name: str) -> str | None:
        return None if self._values.get(name) is None else self.sha256(name)

    def list(self, name: str) -> list[Any]:
        value = self._values.get(name)
        if not isinstance(value, list):
            raise self._refuse(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.list(name)
        if not all(map(_is_text, values)):
            raise self._refuse(name, "a list of texts")
        return tuple(values)

    def numbers(self, name: str) -> dict[str, bool | int | float]:
        """An object whose values are numbers or booleans."""
        values = self._values.get(name)
        numbers = isinstance(values, dict) and all(map(_is_text, values)) and all(map(_is_number, values.values()))
        if not isinstance(values, dict) or not numbers:
            raise self._refuse(name, "an object of numbers")
        return values


def _is_text(value: object) -> bool:
    return isinstance(value, str) and (value.isascii() or _SURROGATE.search(value) is None)


def _is_number(value: object) -> bool:
    """Whether it is a number that a float64 can be, or a boolean."""
    return isinstance(value, int | float) and -sys.float_info.max <= value <= sys.float_info.max


def _base(fields: _Fields) -> Base:
    file = fields.text("file")
    if not file or "/" in file or "\0" in file:
        raise ManifestRefused("not a manifest: file of base is not a plain name")
    path = fields.text("path")
    if not path.startswith("/") or "\0" in path:
        raise ManifestRefused("not a manifest: path of base is not an absolute path")
    return Base(
        name=fields.text("name"),
        file=file,
        sha256=fields.sha256("sha256"),
        fork=fields.text_or_none("fork"),
        path=Path(path),
    )


def _layer(fields: _Fields) -> Layer:
    turns = [_Fields(value, "a message") for value in fields.list("messages")]
    messages = tuple(Message(turn.text("role"), turn.text("content")) for turn in turns)
    if any(message.role not in _ROLES for message in messages):
        raise ManifestRefused("not a manifest: a message has a role that is none")
    return Layer(
        base_sha256=fields.sha256("base_sha256"),
        system=fields.text_or_none("system"),
        parameters=fields.numbers("parameters"),
        stop=fields.texts("stop"),
        template_sha256=fields.sha256_or_none("template_sha256"),
        license=fields.texts("license"),
        messages=messages,
        requires=fields.text_or_none("requires"),
    )
