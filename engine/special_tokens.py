"""Which tokens have which role: what llama.cpp b11192 makes of a file's keys and of the texts of its tokens
(`llama_vocab::impl::load` in `src/llama-vocab.cpp`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntFlag
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidModelFile, UnplayableModel
from engine.kernels._kernels import Vocabulary


class Attribute(IntFlag):
    """What a token is (`llama_token_attr`)."""

    UNKNOWN = 1 << 0
    UNUSED = 1 << 1
    NORMAL = 1 << 2
    CONTROL = 1 << 3
    USER_DEFINED = 1 << 4
    BYTE = 1 << 5
    LSTRIP = 1 << 7
    RSTRIP = 1 << 8


# token type in the file (llama_token_type) -> Attribute
_TYPE_ATTRIBUTES: Final = np.array(
    [
        0,
        Attribute.NORMAL,
        Attribute.UNKNOWN,
        Attribute.CONTROL,
        Attribute.USER_DEFINED,
        Attribute.UNUSED,
        Attribute.BYTE,
    ],
    dtype=np.uint16,
)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The token of each role, or None where the vocabulary has none."""

    bos: int | None = None
    eos: int | None = None
    eot: int | None = None
    eom: int | None = None
    unk: int | None = None
    sep: int | None = None
    pad: int | None = None
    mask: int | None = None
    fim_pre: int | None = None
    fim_suf: int | None = None
    fim_mid: int | None = None
    fim_pad: int | None = None
    fim_rep: int | None = None
    fim_sep: int | None = None


_ID_KEYS: Final[Sequence[tuple[str, str]]] = (
    ("bos_token_id", "bos"),
    ("eos_token_id", "eos"),
    ("eot_token_id", "eot"),
    ("eom_token_id", "eom"),
    ("unknown_token_id", "unk"),
    ("seperator_token_id", "sep"),  # spelt so in the format
    ("padding_token_id", "pad"),
    ("mask_token_id", "mask"),
    ("fim_pre_token_id", "fim_pre"),
    ("fim_suf_token_id", "fim_suf"),
    ("fim_mid_token_id", "fim_mid"),
    ("fim_pad_token_id", "fim_pad"),
    ("fim_rep_token_id", "fim_rep"),
    ("fim_sep_token_id", "fim_sep"),
    # Older names; they win where a file has both.
    ("prefix_token_id", "fim_pre"),
    ("suffix_token_id", "fim_suf"),
    ("middle_token_id", "fim_mid"),
)

# Role -> the texts by which a token is taken for it when the file names none.
_ROLE_TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "eot": (
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "<｜end▁of▁sentence｜>",  # noqa: RUF001
        "<end_of_utterance>",
    ),
    "eom": ("<|eom_id|>",),
    "fim_pre": (
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<｜fim▁begin｜>",  # noqa: RUF001
        "<PRE>",
        "▁<PRE>",
        "<|code_prefix|>",
        "<|prefix|>",
    ),
    "fim_suf": (
        "<|fim_suffix|>",
        "<fim-suffix>",
        "<fim_suffix>",
        "<｜fim▁hole｜>",  # noqa: RUF001
        "<SUF>",
        "▁<SUF>",
        "<|code_suffix|>",
        "<|suffix|>",
    ),
    "fim_mid": (
        "<|fim_middle|>",
        "<fim-middle>",
        "<fim_middle>",
        "<｜fim▁end｜>",  # noqa: RUF001
        "<MID>",
        "▁<MID>",
        "<|code_middle|>",
        "<|middle|>",
    ),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}

# Texts that end a generation whatever the file says.
_EOG_TEXTS: Final = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001
    "[e~[",
)

# Texts that are always shown: the marks of gpt-oss's channels.
_SHOWN_TEXTS: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


def check_roles(
    metadata: Mapping[str, Any], tokens: Sequence[str], defaults: Mapping[str, int]
) -> Mapping[str, int | None]:
    """What the keys say of the tokens' roles, and whether `Roles` can be made of it: role -> token.

    Raises:
        InvalidModelFile: a key has the wrong type, or a byte token names no byte.
        UnplayableModel: the model's name asks for tokens that are not there.
    """
    attributes = _attributes(metadata, len(tokens))
    for token in np.flatnonzero(attributes & np.uint16(Attribute.BYTE)).tolist():
        if 0 < len(tokens[token].partition("\0")[0].encode()) < 3:  # an empty one gets a text
            raise InvalidModelFile(f"tokenizer.ggml.tokens: the byte token {token} does not name a byte")
    if _is_phi_3(metadata) and not {*_PHI_3_TEXTS} <= {*kept_texts(tokens)}:
        raise UnplayableModel(f"a model named Phi-3 lacks one of the tokens {', '.join(_PHI_3_TEXTS)}")
    return _stated_ids(metadata, len(tokens), defaults)


class Roles:
    """The roles and attributes of a vocabulary's tokens, whose keys `check_roles` passed.

    Args:
        vocabulary: the tokens.
        metadata: the file's keys.
        n_vocab: number of tokens.
        defaults: role -> the token that has it where the file names none; one outside the vocabulary is none.

    Attributes:
        special: the token of each role.
        eog: the tokens that end a generation.
        attributes: `Attribute` of each token, uint16 of shape (n_vocab,).

    Raises:
        InvalidModelFile: a key has the wrong type.
    """

    def __init__(
        self, vocabulary: Vocabulary, metadata: Mapping[str, Any], n_vocab: int, defaults: Mapping[str, int]
    ) -> None:
        self._vocabulary = vocabulary
        self.attributes = _attributes(metadata, n_vocab)
        found = _stated_ids(metadata, n_vocab, defaults)
        for role, texts in _ROLE_TEXTS.items():
            if found[role] is None:
                found[role] = self._first(texts)
        self.special = SpecialTokens(**found)
        self._mark_unused(metadata["tokenizer.ggml.tokens"])
        self.eog = self._find_eog()
        self._strip_spaces(metadata)

    def _first(self, texts: Sequence[str]) -> int | None:
        """The first of these tokens in the reference's order, which it then takes for a control token."""
        for token in self._vocabulary.in_map_order(list(texts)):
            self.attributes[token] |= Attribute.CONTROL
            return token
        return None

    def _ids(self, texts: Iterable[str]) -> dict[str, int]:
        return {text: token for text in texts if (token := self._vocabulary.find(text)) >= 0}

    def _mark_unused(self, tokens: Sequence[str]) -> None:
        for token in np.flatnonzero(self.attributes & np.uint16(Attribute.CONTROL)).tolist():
            if "unused" in tokens[token]:
                self.attributes[token] |= Attribute.UNUSED

    def _find_eog(self) -> frozenset[int]:
        special = self.special
        named = self._ids(_EOG_TEXTS)
        for token in named.values():
            self.attributes[token] |= Attribute.CONTROL
        roles = (special.fim_pad, special.fim_rep, special.fim_sep, special.eos, special.eot, special.eom)
        eog = set(named.values()) | {token for token in roles if token is not None}
        for token in self._ids(_SHOWN_TEXTS).values():
            self.attributes[token] = Attribute.USER_DEFINED
        ends = {text for text, token in named.items() if token in eog}
        # Vocabularies with tool calls (gpt-oss, solar-open) end a message part with <|end|>, not the answer.
        calls = bool(ends & {"<|call|>", "<|calls|>"})
        if "<|end|>" in ends and calls and ends & {"<|return|>", "<|flush|>"}:
            eog.discard(named["<|end|>"])
            self.attributes[named["<|end|>"]] = Attribute.USER_DEFINED
        if {"<|tool_response>", "</s>"} <= ends:
            eog.discard(named["</s>"])
            self.attributes[named["</s>"]] = Attribute.NORMAL
        return frozenset(eog)

    def _strip_spaces(self, metadata: Mapping[str, Any]) -> None:
        """Which special tokens swallow the white space beside them; the reference goes by the model's names."""
        if _masks(metadata):
            self._strip_left("<mask>")
        elif _is_phi_3(metadata):
            self._strip_right_of_all()
        elif _has_any(_name(metadata), ("modern-bert",)):
            self._strip_left("[MASK]")

    def _strip_left(self, text: str) -> None:
        for token in self._ids((text,)).values():
            self.attributes[token] |= Attribute.LSTRIP

    def _strip_right_of_all(self) -> None:
        kinds = Attribute.CONTROL | Attribute.USER_DEFINED | Attribute.UNKNOWN
        strip = np.uint16(Attribute.RSTRIP)
        self.attributes[(self.attributes & np.uint16(kinds)) != 0] |= strip
        found = self._ids(_PHI_3_TEXTS)
        self.attributes[found.pop("</s>")] |= strip
        self.attributes[list(found.values())] &= ~strip


_PHI_3_TEXTS: Final = ("</s>", "<unk>", "<s>", "<|endoftext|>")
_MASKING_PRE_TOKENIZERS: Final = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
_MASKING_ARCHITECTURES: Final = ("nomic-bert-moe", "jina-bert-v3")


def numbers(metadata: Mapping[str, Any], key: str) -> npt.NDArray[np.int32] | None:
    """The array of int32 under this key of the tokenizer's, or None.

    Raises:
        InvalidModelFile: it is something else.
    """
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if not isinstance(value, np.ndarray) or value.dtype != np.int32:
        raise InvalidModelFile(f"tokenizer.ggml.{key} is no array of int32")
    return value


def _text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key, "")
    return value if isinstance(value, str) else ""


def _name(metadata: Mapping[str, Any]) -> str:
    return _text(metadata, "general.name").encode().lower().decode()  # of the letters of ASCII alone


def _masks(metadata: Mapping[str, Any]) -> bool:
    return _has_any(_text(metadata, "tokenizer.ggml.pre"), _MASKING_PRE_TOKENIZERS) or _has_any(
        _text(metadata, "general.architecture"), _MASKING_ARCHITECTURES
    )


def _is_phi_3(metadata: Mapping[str, Any]) -> bool:
    return not _masks(metadata) and _has_any(_name(metadata), ("phi-3", "phi3"))


def kept_texts(tokens: Sequence[str]) -> Sequence[str]:
    """What a vocabulary keeps of tokens: of each what stands before a NUL."""
    return [token.partition("\0")[0] for token in tokens] if "\0" in "".join(tokens) else tokens


def _has_any(text: str, parts: Iterable[str]) -> bool:
    return any(part in text for part in parts)


def _attributes(metadata: Mapping[str, Any], n_vocab: int) -> npt.NDArray[np.uint16]:
    """Each token's Attribute by its type in the file, shape (n_vocab,)."""
    types = numbers(metadata, "token_type")
    if types is None:
        return np.full(n_vocab, Attribute.NORMAL, dtype=np.uint16)
    if types.size < n_vocab:
        raise InvalidModelFile(f"tokenizer.ggml.token_type has {types.size} entries for {n_vocab} tokens")
    types = types[:n_vocab]
    known = (types >= 0) & (types < _TYPE_ATTRIBUTES.size)
    return _TYPE_ATTRIBUTES[np.where(known, types, 0)]


def _stated_ids(metadata: Mapping[str, Any], n_vocab: int, defaults: Mapping[str, int]) -> dict[str, int | None]:
    """Role -> token as the file states it, or else by default; one outside the vocabulary is as good as none."""
    found: dict[str, int | None] = {field.name: None for field in fields(SpecialTokens)}
    found.update({role: token for role, token in defaults.items() if token < n_vocab})
    for key, role in _ID_KEYS:
        value = metadata.get(f"tokenizer.ggml.{key}")
        if value is None:
            continue
        if type(value) is not int:
            raise InvalidModelFile(f"tokenizer.ggml.{key} is no integer")
        if 0 <= value < n_vocab:
            found[role] = value
    return found
