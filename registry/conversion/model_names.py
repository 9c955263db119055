"""What a model's name says: organization, base name, size, fine-tuning and version.

The rules are gguf-py's (`Metadata.get_model_id_components`, b11192), kept to the letter where they surprise: the bytes
of a converted file, and so its hash, hang on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_VERSION: Final = re.compile(r"(v|iter)?\d+([.]\d+)*", re.IGNORECASE)
_TYPE: Final = re.compile(r"i?q\d(_\w)*|b?fp?(16|32)", re.IGNORECASE)
_SIZE: Final = re.compile(r"(([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl)", re.IGNORECASE)
_FINETUNE: Final = re.compile(r"chat|instruct|vision|lora", re.IGNORECASE)
_KEEPS_CASE: Final = re.compile(r"v\d+(?:\.\d+)*|\d.*")


@dataclass(frozen=True, slots=True)
class NameParts:
    """What a name is made of; None for what it does not say."""

    name: str | None = None
    organization: str | None = None
    basename: str | None = None
    finetune: str | None = None
    version: str | None = None
    size_label: str | None = None


@dataclass(slots=True)
class _Part:
    """A part between hyphens and what it may be."""

    text: str
    kinds: set[str] = field(default_factory=set)


def name_parts(model_id: str, n_params: int) -> NameParts:
    """The parts of `organization/name-of-the-model` or of a folder's name.

    Args:
        model_id: the name.
        n_params: weights of the model; a size that is far from it is taken for a context length.
    """
    if " " in model_id:  # a sentence
        return NameParts(name=model_id)
    organization: str | None
    organization, slash, name = model_id.partition("/")
    if not slash:
        organization, name = None, model_id
    elif organization.startswith("."):
        organization = None
    parts = [_Part(text) for text in name.split("-") if text]
    for index, part in enumerate(parts):
        _mark(part, index, n_params)
    _drop_worded_sizes(parts)
    _mark_basename(parts)

    def joined(wanted: Callable[[_Part], bool]) -> str | None:
        return "-".join(part.text for part in parts if wanted(part)) or None

    basename = joined(lambda part: "basename" in part.kinds)
    sizes = dict.fromkeys(part.text for part in parts if "size_label" in part.kinds)
    size_label = "-".join(sizes) or None
    finetune = joined(lambda part: "finetune" in part.kinds)
    version = joined(lambda part: "version" in part.kinds and "basename" not in part.kinds)
    if size_label is None and finetune is None and version is None:
        basename = None  # too little to go by
    return NameParts(name, organization, basename, finetune, version, size_label)


def _mark(part: _Part, index: int, n_params: int) -> None:
    if _VERSION.fullmatch(part.text):
        part.kinds.add("version")
    elif _TYPE.fullmatch(part.text):
        part.kinds.add("type")
        part.text = part.text.upper()
    elif index > 0 and _SIZE.fullmatch(part.text):
        _mark_size(part, n_params)
    elif index > 0 and _FINETUNE.fullmatch(part.text):
        part.kinds.add("finetune")


def _mark_size(part: _Part, n_params: int) -> None:
    text = part.text.replace("_", ".")
    if text[-1].isdecimal():  # 7b1 is 7.1b
        text = f"{text[:-2]}.{text[-1]}{text[-2]}"
    if len(text) > 1 and text[-2].isdecimal() and text[-1] in "kmbt":
        text = text[:-1] + text[-1].upper()
    if n_params != 0:
        try:
            stated = float(text[:-1]) * pow(1000, " KMBT".find(text[-1]))
        except ValueError:  # a word, or 8x7B
            pass
        else:
            if abs(stated - n_params) > 7 * n_params // 8:
                part.kinds.add("finetune")
                text = text[:-1] + text[-1].lower()
    if not part.kinds:
        part.kinds.add("size_label")
    part.text = text


def _drop_worded_sizes(parts: list[_Part]) -> None:
    """A size in words does not count beside one in digits."""
    sizes = [part for part in parts if "size_label" in part.kinds]
    if any(char.isdecimal() for part in sizes for char in part.text):
        for part in sizes:
            if part.text.isalpha():
                part.kinds.remove("size_label")


def _mark_basename(parts: list[_Part]) -> None:
    """The base name is what comes first, up to anything that is known; what is left over is fine-tuning."""
    at_start = True
    for part in parts:
        if at_start and ("version" in part.kinds or (not part.kinds and part.text[0].isalpha())):
            part.kinds.add("basename")
        else:
            at_start = False
            if not part.kinds:
                part.kinds.add("finetune")
    for part in reversed(parts):  # a version at its end is no part of it
        if "basename" not in part.kinds or len(part.kinds) == 1:
            break
        part.kinds.remove("basename")


def title(name: str) -> str:
    """A name for people: hyphens become spaces, lower-case words begin with a capital, versions stay."""
    words = name.strip().replace("-", " ").split()
    return " ".join(word.title() if word.islower() and not _KEEPS_CASE.fullmatch(word) else word for word in words)


def size_label(n_params: int) -> str:
    """A count of weights in two digits or more: `135M`, `1.5B`."""
    for least, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if n_params > least:
            scaled = n_params * {"T": 1e-12, "B": 1e-9, "M": 1e-6}[suffix]
            break
    else:
        scaled, suffix = n_params * 1e-3, "K"
    digits = max(2 - len(str(round(scaled)).lstrip("0")), 0)
    return f"{scaled:.{digits}f}{suffix}"
