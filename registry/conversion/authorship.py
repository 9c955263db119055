"""Who made a model, from what, under which licence: the keys under `general.`, in the converter's order.

Where each comes from, first to last: the model card's front matter (`README.md`), `_name_or_path` of `config.json`, the
directory's name (gguf-py's `Metadata`, b11192). `generation_config.json` gives the samplers' defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from registry.conversion.metadata import Metadata
from registry.conversion.model_names import NameParts, name_parts, size_label, title
from registry.conversion.source import SourceDirectory
from registry.errors import ConversionRefused

CARD: Final = "README.md"
GENERATION: Final = "generation_config.json"
MAX_CARD: Final = 4 << 20
MAX_FRONT: Final = 512 << 10
"""Characters of the card's front matter at the most: YAML is read slowly."""

_NAMED: Final = ("author", "version", "organization", "finetune", "basename", "description", "size_label")
# The card's keys that each field is taken from; the first one that is there counts.
_CARD_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "model_name"),
    "author": ("author", "model_author", "model_creator"),
    "version": ("version", "model_version"),
    "organization": ("organization", "model_organization"),
    "description": ("description", "model_description"),
    "finetune": ("finetune", "model_finetune"),
    "basename": ("basename", "model_basename", "model_type"),
    "size_label": ("size_label", "model_size_label"),
    "source.url": ("url", "model_url"),
    "source.doi": ("doi", "model_doi"),
    "source.uuid": ("uuid", "model_uuid"),
    "source.repo_url": ("repo_url", "model_repo_url"),
    "license": ("license",),
    "license.name": ("license_name",),
    "license.link": ("license_link",),
}
_SAMPLING: Final = (
    ("string", "sequence", ("sequence",)),
    ("i32", "top_k", ("top_k",)),
    ("f32", "top_p", ("top_p",)),
    ("f32", "min_p", ("min_p",)),
    ("f32", "xtc_probability", ("xtc_probability",)),
    ("f32", "xtc_threshold", ("xtc_threshold",)),
    ("f32", "temp", ("temperature",)),
    ("i32", "penalty_last_n", ("penalty_last_n",)),
    ("f32", "penalty_repeat", ("penalty_repeat", "repetition_penalty")),
    ("i32", "mirostat", ("mirostat",)),
    ("f32", "mirostat_tau", ("mirostat_tau",)),
    ("f32", "mirostat_eta", ("mirostat_eta",)),
)
_SOURCE_KEYS: Final = ("name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url")
_HUB: Final = re.compile(r"https?://huggingface.co/([^/]+/[^/]+)$")


@dataclass(frozen=True, slots=True)
class Authorship:
    """The fields.

    Args:
        fields: field -> value, of `_CARD_KEYS`; None for what nothing says.
        sampling: what generation_config.json says.
        base_models, datasets: one mapping each, of `_SOURCE_KEYS`; None when the card has no such key.
        tags, languages: None when the card has none.
    """

    fields: Mapping[str, Any]
    sampling: Mapping[str, Any]
    base_models: list[Mapping[str, Any]] | None
    datasets: list[Mapping[str, Any]] | None
    tags: list[Any] | None
    languages: list[Any] | None

    @property
    def name(self) -> Any:
        """`general.name`."""
        return self.fields["name"]


def read_authorship(
    source: SourceDirectory, config: Mapping[str, Any], n_params: int, *, name: str | None, use_card: bool
) -> Authorship:
    """A directory's authorship.

    Args:
        source: the directory; its own name counts.
        config: config.json as it is in the file.
        n_params: weights of the model.
        name: beats every other name.
        use_card: whether README.md is read.

    Raises:
        ModelFileError: a file cannot be read.
        ConversionRefused: the card is no YAML, or says what no key can hold.
    """
    card = _card(source) if use_card else {}
    fields = {field: _first(card, keys) for field, keys in _CARD_KEYS.items()}
    path = config.get("_name_or_path")
    if path is not None and not isinstance(path, str):
        raise ConversionRefused(f"config.json: _name_or_path is {path!r}")
    if path is not None and path.count("/") <= 1:
        _fill(fields, name_parts(path, n_params))
    _fill(fields, name_parts(source.path.name, n_params))
    if name is not None:
        fields["name"] = name
    if fields["name"] is None:
        fields["name"] = source.path.name
    if fields["size_label"] is None and n_params > 0:
        fields["size_label"] = size_label(n_params)
    return Authorship(
        fields,
        _generation(source),
        _sources(card, ("base_model", "base_models", "base_model_sources"), n_params),
        _sources(card, ("datasets", "dataset", "dataset_sources"), n_params),
        _list(card, ("tags", "pipeline_tag")),
        _list(card, ("languages", "language")),
    )


def add_authorship(metadata: Metadata, authorship: Authorship) -> None:
    """The keys, in the converter's order (`Metadata.set_gguf_meta_model`)."""
    for kind, key, names in _SAMPLING:
        given = next((name for name in names if name in authorship.sampling), None)
        value = None if given is None else authorship.sampling[given]
        if value is not None:
            getattr(metadata, kind)(f"general.sampling.{key}", value)
    fields = authorship.fields
    for field in ("name", *_NAMED):
        metadata.string(f"general.{field}", fields[field])
    licence = fields["license"]
    if isinstance(licence, list):
        if not all(isinstance(each, str) for each in licence):
            raise ConversionRefused(f"{CARD}: a licence that is no text")
        licence = ",".join(licence)
    metadata.string("general.license", licence)
    for field in ("license.name", "license.link", "source.url", "source.doi", "source.uuid", "source.repo_url"):
        metadata.string(f"general.{field}", fields[field])
    for what, entries in (("base_model", authorship.base_models), ("dataset", authorship.datasets)):
        if entries is not None:
            metadata.u32(f"general.{what}.count", len(entries))
            for number, entry in enumerate(entries):
                for key in _SOURCE_KEYS:
                    metadata.string(f"general.{what}.{number}.{key}", entry.get(key))
    metadata.array("general.tags", authorship.tags or [])
    metadata.array("general.languages", authorship.languages or [])


def _card(source: SourceDirectory) -> dict[str, Any]:
    """The model card's front matter; empty when there is none."""
    if not source.has(CARD):
        return {}
    lines = source.text_of(CARD, MAX_CARD).splitlines()
    if not lines or lines[0] != "---":
        return {}
    end = lines.index("---", 1) if "---" in lines[1:] else len(lines)
    front = "\n".join(lines[1:end]) + "\n"
    if len(front) > MAX_FRONT:
        raise ConversionRefused(f"{CARD}: the front matter has more than {MAX_FRONT} characters")
    # Norway's code is no boolean, and a tab is two spaces.
    front = front.replace("- no\n", '- "no"\n').replace("\t", "  ")
    try:
        card = yaml.load(front, _NoAliases)
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise ConversionRefused(f"{CARD}: the front matter is not YAML ({_one_line(error)})") from error
    return card if isinstance(card, dict) else {}


class _NoAliases(yaml.SafeLoader):
    """YAML in which nothing stands for something else: a few lines of aliases may stand for more than memory holds."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _generation(source: SourceDirectory) -> Mapping[str, Any]:
    """generation_config.json; empty when there is none or it is not JSON."""
    if not source.has(GENERATION):
        return {}
    try:
        values = json.loads(source.text_of(GENERATION, MAX_CARD))
    except json.JSONDecodeError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ConversionRefused(f"{GENERATION} is not JSON that is read") from error
    if not isinstance(values, dict):
        if values:
            raise ConversionRefused(f"{GENERATION} is not a JSON object")
        return {}
    return values


def _first(card: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((card[key] for key in keys if card.get(key) is not None), None)


def _fill(fields: dict[str, Any], parts: NameParts) -> None:
    """Takes from a name what is not known yet."""
    found = {
        "name": None if parts.name is None else title(parts.name),
        "organization": None if parts.organization is None else title(parts.organization),
        "basename": parts.basename,
        "finetune": parts.finetune,
        "version": parts.version,
        "size_label": parts.size_label,
    }
    for field, value in found.items():
        if fields[field] is None:
            fields[field] = value


def _list(card: Mapping[str, Any], keys: tuple[str, ...]) -> list[Any] | None:
    """What two keys of the card list, one after the other; a text counts as a list of one."""
    found: list[Any] | None = None
    for key in keys:
        value = card.get(key)
        if value is None:
            continue
        found = found or []
        if isinstance(value, str):
            found = [*found, value]
        elif isinstance(value, list):
            found = [*found, *value]
    return found


def _sources(card: Mapping[str, Any], keys: tuple[str, ...], n_params: int) -> list[Mapping[str, Any]] | None:
    """The base models or datasets that a card names."""
    given = [key for key in keys if key in card]
    if not given:
        return None
    value = card[given[0]]
    entries = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return [_source(entry, n_params) for entry in entries]


def _source(entry: Any, n_params: int) -> Mapping[str, Any]:
    """A base model or dataset: a name at the hub, an address, or a mapping of its own."""
    if isinstance(entry, dict):
        return entry
    if not isinstance(entry, str):
        return {}
    if entry.startswith(("http://", "https://", "ssh://")):
        hub = _HUB.match(entry)
        named = _of_name(name_parts(hub.group(1), n_params)) if hub else {}
        return {"repo_url": entry, **named}
    parts = name_parts(entry, n_params)
    named = _of_name(parts)
    if parts.organization is not None and parts.name is not None:
        named["repo_url"] = f"https://huggingface.co/{parts.organization}/{parts.name}"
    return named


def _of_name(parts: NameParts) -> dict[str, Any]:
    found = {
        "name": None if parts.name is None else title(parts.name),
        "organization": None if parts.organization is None else title(parts.organization),
        "version": parts.version,
    }
    return {key: value for key, value in found.items() if value is not None}
