"""Names of models, as Ollama reads and shows them: `[host/][namespace/]model[:tag]` (its `types/model/name.go`).

`mario` is `registry.ollama.ai/library/mario:latest`, and is shown as `mario:latest`. Two names that differ in letter
case only are one name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from registry.errors import RegistryError

DEFAULT_HOST: Final = "registry.ollama.ai"
DEFAULT_NAMESPACE: Final = "library"
DEFAULT_TAG: Final = "latest"

# Lengths are in bytes; what passes is ASCII, so they are those of the text too.
_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
_MODEL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
_TAG: Final = _MODEL
_LONGEST_FILE_STEM: Final = 200  # bytes; a file system takes 255, and the ending and a temporary name need theirs


class InvalidModelName(RegistryError):
    """A text that is no model's name; the message is Ollama's."""

    def __init__(self, text: str) -> None:
        super().__init__("invalid model name")
        self.text = text


def split_source(text: str) -> tuple[str, str]:
    """A name without what says where its model runs, and that: `local`, `cloud` (Ollama's), or "" where it does not say
    (Ollama's `internal/modelref`)."""
    text = text.strip()
    base, colon, tag = text.rpartition(":")
    tag = tag.strip()
    if colon and tag.lower() in ("local", "cloud"):
        return base, tag.lower()
    if colon and "/" not in tag and tag.lower().endswith("-cloud"):
        return f"{base}:{tag[: -len('-cloud')]}", "cloud"
    return text, ""


@dataclass(frozen=True, slots=True, eq=False)
class ModelName:
    """A whole, valid name.

    Args:
        host: the registry's host, with its port when it has one.
        namespace: whose model it is.
        model: the model.
        tag: which of its versions.
        scheme: `http` or `https` when the name was written with one; no part of what the name names.
    """

    host: str
    namespace: str
    model: str
    tag: str
    scheme: str = ""

    def __post_init__(self) -> None:
        for part, form in ((self.host, _HOST), (self.namespace, _NAMESPACE), (self.model, _MODEL), (self.tag, _TAG)):
            if form.fullmatch(part) is None:
                raise InvalidModelName(self.full)

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """The name in `text`, with Ollama's defaults for what it leaves out.

        Raises:
            InvalidModelName: a part is empty, too long, or has a character that it may not have.
        """
        tag = ""
        if text.rfind(":") > text.rfind("/"):  # a tag has no slash: that colon was of the host's port
            text, _, tag = text.rpartition(":")
            if not text or not tag:
                raise InvalidModelName(text)
        rest, slash, model = text.rpartition("/")
        if not slash:
            return cls(DEFAULT_HOST, DEFAULT_NAMESPACE, model, tag or DEFAULT_TAG)
        rest, slash, namespace = rest.rpartition("/")
        if not slash:
            return cls(DEFAULT_HOST, namespace, model, tag or DEFAULT_TAG)
        scheme, separator, host = rest.partition("://")
        if not separator:
            scheme, host = "", rest
        return cls(host or (DEFAULT_HOST if separator else ""), namespace, model, tag or DEFAULT_TAG, scheme)

    @property
    def shown(self) -> str:
        """The shortest text that means this name, always with its tag: what Ollama lists (`mario:latest`)."""
        if self.host.lower() != DEFAULT_HOST:
            return f"{self.host}/{self.namespace}/{self.model}:{self.tag}"
        if self.namespace.lower() != DEFAULT_NAMESPACE:
            return f"{self.namespace}/{self.model}:{self.tag}"
        return f"{self.model}:{self.tag}"

    @property
    def full(self) -> str:
        """All four parts: `registry.ollama.ai/library/mario:latest`."""
        return f"{self.host}/{self.namespace}/{self.model}:{self.tag}"

    @property
    def key(self) -> str:
        """The same text for every way to write the name: `full` in lower case."""
        return self.full.lower()

    @property
    def file_stem(self) -> str:
        """A file's stem for the name, in one folder: `shown` without `:latest`, percent-encoded.

        A name too long for a file keeps its beginning, and ends in `%%` (which encodes nothing) and a digest of it.
        """
        stem = quote(self.shown.removesuffix(f":{DEFAULT_TAG}"), safe="")
        if len(stem) <= _LONGEST_FILE_STEM:
            return stem
        return f"{stem[:100].rpartition('%')[0] or stem[:100]}%%{sha256(self.shown.encode()).hexdigest()}"

    def __str__(self) -> str:
        return self.shown

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, ModelName) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)
