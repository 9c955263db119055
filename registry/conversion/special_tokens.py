"""Special tokens, what is put around a text, merges and chat templates (gguf-py's `SpecialVocab`, b11192).

They come from `tokenizer.json`, `tokenizer_config.json`, the template's own files and `config.json`, each filling in
what those before it left open.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import Any, Final

from registry.conversion.metadata import Metadata
from registry.conversion.source import SourceDirectory
from registry.errors import ConversionRefused

TOKENIZER: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"

TYPES: Final = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
CODE_LLAMA_TYPES: Final = ("prefix", "suffix", "middle", "eot")

_ID_KEYS: Final = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
}
_ADD_KEYS: Final = ("bos", "eos", "sep")
# A blank in a token is spelt with this letter in a merge.
_BLANK: Final = chr(ord(" ") + 256)


@dataclass(slots=True)
class SpecialTokens:
    """What a directory says of special tokens.

    Args:
        merges: `left right`, in the order of their ranks.
        ids: type -> token.
        add: type -> whether it is put around a text.
        template: the chat template, or several with names.
        lowercase, strip_accents: of the normalizer; None when it has no such step.
    """

    merges: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    add: dict[str, bool] = field(default_factory=dict)
    template: str | list[Any] | None = None
    lowercase: Any = None
    strip_accents: Any = None

    def add_to(self, metadata: Metadata) -> None:
        """The keys, in the converter's order."""
        metadata.array("tokenizer.ggml.merges", self.merges)
        for kind, token in self.ids.items():
            if kind in _ID_KEYS:
                metadata.u32(f"tokenizer.ggml.{_ID_KEYS[kind]}", token)
        for kind, value in self.add.items():
            if kind in _ADD_KEYS:
                metadata.boolean(f"tokenizer.ggml.add_{kind}_token", value)
        _add_template(metadata, self.template)
        for name, value in (("lowercase", self.lowercase), ("strip_accents", self.strip_accents)):
            if value is not None:
                metadata.boolean(f"tokenizer.ggml.normalizer.{name}", value)


class _Reading:
    """The state of one reading: what is known so far of the tokens' texts."""

    def __init__(self, types: Sequence[str], n_vocab: int | None) -> None:
        self.found = SpecialTokens()
        self.types = list(types)
        self.n_vocab = n_vocab
        self.texts: dict[str, Any] = {}
        """Type -> the token's text, or what else the file has under that key; read from tokenizer_config.json, then
        corrected from the post-processor's template."""
        self.has_config = False

    def set_id(self, kind: str, token: Any) -> None:
        if not isinstance(token, int):
            return
        if token < 0:
            raise ConversionRefused(f"the {kind} token is {token}")
        if self.n_vocab is None or token < self.n_vocab:
            self.found.ids.setdefault(kind, int(token))


def read_special_tokens(
    source: SourceDirectory,
    tokenizer: Mapping[str, Any] | None,
    *,
    merges: bool = False,
    types: Sequence[str] = TYPES,
    n_vocab: int | None = None,
) -> SpecialTokens:
    """What a directory says of special tokens.

    Args:
        source: the directory.
        tokenizer: what tokenizer.json holds; None when there is none.
        merges: whether merges are wanted.
        types: which tokens are looked for.
        n_vocab: tokens of the vocabulary, when tokens beyond it do not count.

    Raises:
        ModelFileError: a file cannot be read.
        ConversionRefused: a file is damaged.
    """
    reading = _Reading(types, n_vocab)
    config = source.json_of(TOKENIZER_CONFIG)
    reading.has_config = bool(config)
    try:
        if tokenizer is not None and merges:
            reading.found.merges = _merges(tokenizer.get("model", {}).get("merges"))
        if tokenizer and (normalizer := tokenizer.get("normalizer")):
            _read_normalizer(reading.found, normalizer)
        reading.texts = {kind: (config or {}).get(f"{kind}_token") for kind in (*TYPES, *CODE_LLAMA_TYPES)}
        if tokenizer:
            _read_post_processor(reading, tokenizer.get("post_processor"))
        if config:
            reading.found.template = _template(source, config)
            _read_tokens(reading, config, (tokenizer or {}).get("added_tokens") or [])
        model = source.json_of("config.json") or {}
        for kind in reading.types:
            reading.set_id(kind, model.get(f"{kind}_token_id"))
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        raise ConversionRefused(f"{TOKENIZER} or {TOKENIZER_CONFIG} is damaged ({error})") from error
    return reading.found


def _merges(found: Any) -> list[str]:
    if not isinstance(found, list) or not found:
        return []
    if all(isinstance(merge, str) for merge in found):
        return found
    if all(isinstance(merge, list) and all(isinstance(part, str) for part in merge) for merge in found):
        return [" ".join(part.replace(" ", _BLANK) for part in merge) for merge in found]
    raise ConversionRefused(f"{TOKENIZER}: merges in two forms, or in none that is known")


def _read_normalizer(found: SpecialTokens, normalizer: Any) -> None:
    kind = normalizer.get("type")
    if kind == "Lowercase":
        found.lowercase = True
    elif kind == "StripAccents":
        found.strip_accents = True
    elif kind == "BertNormalizer":
        found.lowercase = normalizer.get("lowercase", found.lowercase)
        found.strip_accents = normalizer.get("strip_accents", found.strip_accents)
    elif kind == "Sequence":
        for each in normalizer.get("normalizers", []):
            _read_normalizer(found, each)


# --- what is put around a text ------------------------------------------------------------------------------------


def _read_post_processor(reading: _Reading, post_processor: Any) -> None:
    texts = reading.texts
    if reading.has_config:
        # A classifier's tokens stand in for the ends of a text.
        for kind, other in (("bos", "cls"), ("eos", "sep")):
            if not texts[kind] and texts[other]:
                texts[kind] = texts[other]
    if not post_processor:
        return
    for processor in post_processor.get("processors", [post_processor]):
        kind = processor.get("type")
        if kind == "ByteLevel":
            reading.found.add.setdefault("bos", False)
            reading.found.add.setdefault("eos", False)
        elif kind == "RobertaProcessing":
            reading.found.add.update(bos=True, eos=True, sep=True)
            for name, other in (("cls", "bos"), ("sep", "eos")):
                if not texts[name] and reading.has_config:
                    texts[name] = processor.get(name, [texts[other]])[0]
        elif kind == "TemplateProcessing":
            _read_template(reading, processor)


def _special(part: Mapping[str, Any]) -> Any:
    return part.get("SpecialToken", {}).get("id")


def _read_template(reading: _Reading, processor: Mapping[str, Any]) -> None:
    """Whether a post-processor's template begins and ends a text with special tokens."""
    single, texts = processor.get("single", []), reading.texts
    first = last = None
    if len(single) > 1:
        first, last = _special(single[0]) or None, _special(single[-1]) or None
        if first:
            _read_first(reading, first)
        if last:
            _read_last(reading, last)
    pair = processor.get("pair", [])
    if not pair:
        return
    start = 1 if first and _special(pair[0]) == first else 0
    stop = len(pair) - 1 if last and _special(pair[-1]) == last else len(pair)
    inner = pair[start:stop]
    if not inner:
        return
    ends = (inner[0].get("Sequence", {}).get("id"), inner[-1].get("Sequence", {}).get("id"))
    between = inner[1:-1]
    if ends != ("A", "B") or not between:
        return
    entry = _special(between[0])
    add_sep = bool(entry) and entry in (texts["sep"], texts["eos"]) and not last
    if len(between) == 2:
        second = _special(between[1])
        add_sep = add_sep or (bool(second) and second in (texts["sep"], texts["eos"]))
    reading.found.add["sep"] = add_sep
    if add_sep and not texts["sep"] and reading.has_config:
        # The text in tokenizer_config.json alone is set: what templates are compared with stays as it was.
        reading.texts["late_sep"] = texts["eos"]


def _read_first(reading: _Reading, first: Any) -> None:
    texts = reading.texts
    if not reading.has_config:
        texts["bos"] = first
    elif first not in (texts["bos"], texts["cls"]):
        for kind in ("bos", "cls"):
            if not texts[kind]:
                texts[kind] = first
    reading.found.add["bos"] = first in (texts["bos"], texts["cls"])


def _read_last(reading: _Reading, last: Any) -> None:
    """The token at the end: where it is another than eos, that one ends a turn (or a message), and this one a text."""
    texts = reading.texts
    if reading.has_config and last != texts["eos"]:
        for kind in ("eot", "eom"):
            if kind not in reading.types:
                reading.types.append(kind)
                texts[kind] = texts["eos"]
                break
    texts["eos"] = last
    reading.found.add["eos"] = True


def _read_tokens(reading: _Reading, config: Mapping[str, Any], added: Sequence[Any]) -> None:
    """The special tokens by their texts; only added tokens have numbers here."""
    if "late_sep" in reading.texts:
        reading.texts["sep"] = reading.texts["late_sep"]
    for kind in reading.types:
        wanted = config.get(f"add_{kind}_token")
        if isinstance(wanted, bool):
            reading.found.add.setdefault(kind, wanted)
        entry = reading.texts.get(kind)
        text = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(text, str):
            reading.set_id(kind, next((token.get("id") for token in added if token.get("content") == text), None))


# --- chat templates -----------------------------------------------------------------------------------------------


def _template(source: SourceDirectory, config: Mapping[str, Any]) -> str | list[Any] | None:
    """The template of tokenizer_config.json, else the one in a file of its own."""
    other: Any = None
    if source.has("chat_template.jinja"):
        other = source.text_of("chat_template.jinja")
        folder = source.path / "additional_chat_templates"
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        if any(name.endswith(".jinja") for name in names):
            raise ConversionRefused("additional_chat_templates: several chat templates in files are not converted")
    elif source.has("chat_template.json"):
        other = (source.json_of("chat_template.json") or {}).get("chat_template")
    found = config.get("chat_template", other)
    return found if isinstance(found, (str, list)) else None


def _add_template(metadata: Metadata, template: str | list[Any] | None) -> None:
    if template is None or isinstance(template, str):
        metadata.string("tokenizer.chat_template", template)
        return
    default = None
    names: dict[str, None] = {}
    for choice in template:
        if not isinstance(choice, dict) or not isinstance(choice.get("name", ""), str):
            raise ConversionRefused(f"{TOKENIZER_CONFIG}: a chat template without a name")
        text = choice.get("template")
        name = "".join(char if char in ascii_letters + digits else "_" for char in choice.get("name", ""))
        if not name or text is None:
            continue
        if name == "default":
            default = text
        else:
            names[name] = None
            metadata.string(f"tokenizer.chat_template.{name}", text)
    if len(names) > 1:
        # llama.cpp's converter lists them in the order of a set, another one each time.
        raise ConversionRefused(f"{TOKENIZER_CONFIG}: {len(names)} chat templates with names are not converted")
    metadata.array("tokenizer.chat_templates", list(names))
    metadata.string("tokenizer.chat_template", default)
