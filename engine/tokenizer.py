"""Text to tokens and back, as llama.cpp b11192 does it for byte-level BPE vocabularies.

The work on text is in `engine/kernels/bpe.cpp`. Here is what the metadata of a file means: which pre-tokenizer, which
tokens have which role, which end a generation (`llama_vocab::impl::load` in `src/llama-vocab.cpp`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntFlag
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidModelFile, InvalidRequest, UnplayableModel
from engine.kernels._kernels import Bpe


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


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How one kind of vocabulary cuts text into words.

    Attributes:
        splitters: the steps, by their names in `engine/kernels/pretokenizer.cpp`.
        ignore_merges: a word that is itself a token is that token, whatever the merges say.
        add_bos: the beginning-of-text token goes first unless the file says otherwise.
        clean_spaces: `Tokenizer.detokenize` drops the spaces before punctuation.
    """

    splitters: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    clean_spaces: bool = True


_GPT2: Final = PreTokenizer(("gpt2",))
_DIGITS_GPT2: Final = PreTokenizer(("each number", "gpt2"))
_DIGITS_GPT2_RAW: Final = PreTokenizer(("each number", "gpt2"), clean_spaces=False)
_LLAMA3: Final = PreTokenizer(("llama3",), ignore_merges=True, add_bos=True)
_QWEN2: Final = PreTokenizer(("qwen2",), clean_spaces=False)

# `tokenizer.ggml.pre` -> what it means. A name that is not here is refused: a guess would give other tokens.
PRE_TOKENIZERS: Final[Mapping[str, PreTokenizer]] = {
    "smollm": _DIGITS_GPT2_RAW,
    "command-r": _DIGITS_GPT2_RAW,
    "starcoder": _DIGITS_GPT2,
    "refact": _DIGITS_GPT2,
    "codeshell": _DIGITS_GPT2,
    "exaone": _DIGITS_GPT2,
    "minerva-7b": _DIGITS_GPT2,
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "mpt": _GPT2,
    "olmo": _GPT2,
    "jais": _GPT2,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "falcon3": _LLAMA3,
    "pixtral": _LLAMA3,
    "lfm2": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "qwen35": PreTokenizer(("qwen35",), clean_spaces=False),
    "falcon": PreTokenizer(("punctuation and backtick", "gpt2", "three digits")),
    "default": PreTokenizer(("punctuation", "gpt2", "numbers", "three digits")),
}

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

_DEFAULT_ID: Final = 11  # bos and eos of a BPE vocabulary that does not name them


class Tokenizer:
    """A vocabulary and its rules. Safe to use from several threads at once.

    Attributes:
        n_vocab: number of tokens.
        special: the token of each role.
        bos, eos, eot: shorthands for the same in `special`.
        add_bos, add_eos: whether `encode` adds them when asked for special tokens.
        eog: the tokens that end a generation.
        suppress: tokens the file forbids to sample.
    """

    def __init__(
        self,
        bpe: Bpe,
        n_vocab: int,
        *,
        special: SpecialTokens,
        eog: frozenset[int],
        pre: PreTokenizer,
        metadata: Mapping[str, Any],
    ) -> None:
        self._bpe = bpe
        self.n_vocab = n_vocab
        self.special = special
        self.bos, self.eos, self.eot = special.bos, special.eos, special.eot
        self.eog = eog
        self.add_bos = _flag(metadata, "add_bos_token", pre.add_bos)
        self.add_eos = _flag(metadata, "add_eos_token", False)
        self.suppress = tuple(int(token) for token in _suppressed(metadata) if 0 <= token < n_vocab)
        self._drop_first_space = _flag(metadata, "add_space_prefix", False)
        self._clean_spaces = pre.clean_spaces
        for wanted, token, name in ((self.add_bos, self.bos, "bos"), (self.add_eos, self.eos, "eos")):
            if wanted and token is None:
                raise UnplayableModel(f"tokenizer.ggml.add_{name}_token is set, but there is no such token")

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """Build the tokenizer that a model file describes.

        Raises:
            UnplayableModel: the vocabulary is of a kind, or names a pre-tokenizer, that is not implemented.
            InvalidModelFile: a key is missing, has the wrong type, or contradicts another one.
        """
        model = metadata.get("tokenizer.ggml.model")
        if model != "gpt2":
            raise UnplayableModel(f"tokenizer.ggml.model is {model!r}; only 'gpt2' (byte-level BPE) is played")
        name = metadata.get("tokenizer.ggml.pre") or "default"
        pre = PRE_TOKENIZERS.get(name) if isinstance(name, str) else None
        if pre is None:
            raise UnplayableModel(f"tokenizer.ggml.pre is {name!r}, a pre-tokenizer that is not played")
        tokens = _texts(metadata, "tokens")
        try:
            bpe = Bpe(tokens, _texts(metadata, "merges"), list(pre.splitters), pre.ignore_merges)
            roles = _Roles(bpe, metadata, len(tokens))
            bpe.set_attributes(roles.attributes)
        except ValueError as error:
            raise InvalidModelFile(f"tokenizer.ggml.tokens: {error}") from None
        return cls(bpe, len(tokens), special=roles.special, eog=roles.eog, pre=pre, metadata=metadata)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The tokens of a text. The GIL is free meanwhile.

        Args:
            text: any text below 2 GiB of UTF-8.
            add_special: add the beginning and end tokens if the vocabulary asks for them.
            parse_special: take the texts of control tokens for those tokens; user-defined tokens always are.

        Raises:
            InvalidRequest: the text holds a lone surrogate or is too long.
        """
        try:
            tokens = self._bpe.encode(text, parse_special)
        except ValueError as error:
            raise InvalidRequest(f"the text cannot be tokenized: {error}") from None
        if add_special and self.add_bos and self.bos is not None:
            tokens.insert(0, self.bos)
        if add_special and self.add_eos and self.eos is not None:
            tokens.append(self.eos)
        return tokens

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token, part of a character perhaps; b"" for a control token unless `special`.

        Raises:
            InvalidRequest: there is no such token.
        """
        if not 0 <= token < self.n_vocab:
            raise InvalidRequest(f"there is no token {token} in a vocabulary of {self.n_vocab}")
        return self._bpe.piece(token, special)

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> bytes:
        """The pieces of tokens, joined; with `special` (the default) as llama-server's /detokenize.

        Raises:
            InvalidRequest: there is no such token.
        """
        if tokens and (min(tokens) < 0 or max(tokens) >= self.n_vocab):
            unknown = min(tokens) if min(tokens) < 0 else max(tokens)
            raise InvalidRequest(f"there is no token {unknown} in a vocabulary of {self.n_vocab}")
        return self._bpe.decode(tokens, special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> bytes:
        """The text that llama_detokenize gives: `decode` with the spaces cleaned up where the vocabulary wants that.

        llama-server shows a prompt so (`prompt` of a /completion answer).
        """
        text = self.decode(tokens, special=special)
        if self._drop_first_space and tokens and self.piece(tokens[0], special=special).startswith(b" "):
            text = text[1:]
        if self._clean_spaces:
            text = _SPACE_BEFORE_STOP.sub(b"", text)
            text = _LONE_APOSTROPHE.sub(b"'", text)
            text = _SPACE_BEFORE_CONTRACTION.sub(b"", text)
        return text

    def is_eog(self, token: int) -> bool:
        """Whether this token ends a generation."""
        return token in self.eog

    def find(self, text: str) -> int | None:
        """The token with exactly this text in the vocabulary (in the byte alphabet for normal tokens)."""
        token = self._bpe.find(text)
        return None if token < 0 else token

    def split(self, text: str) -> list[str]:
        """The words that merges do not cross, for a text without special tokens."""
        return self._bpe.split(text)


_SPACE_BEFORE_STOP: Final = re.compile(rb" (?=[?!.,])")
_LONE_APOSTROPHE: Final = re.compile(rb" ' ")
_SPACE_BEFORE_CONTRACTION: Final = re.compile(rb" (?='(?:[sm]|re|ve))")


class _Roles:
    """Finds the special tokens, the end tokens and every token's attributes; the results are its attributes."""

    def __init__(self, bpe: Bpe, metadata: Mapping[str, Any], n_vocab: int) -> None:
        self._bpe = bpe
        self.attributes = _attributes(metadata, n_vocab)
        found = _stated_ids(metadata, n_vocab)
        for role, texts in _ROLE_TEXTS.items():
            if found[role] is None:
                found[role] = self._first(texts)
        self.special = SpecialTokens(**found)
        self.eog = self._find_eog()
        self._strip_spaces(metadata)

    def _first(self, texts: Sequence[str]) -> int | None:
        """The first of these tokens in the reference's order, which it then takes for a control token."""
        for token in self._bpe.in_map_order(list(texts)):
            self.attributes[token] |= Attribute.CONTROL
            return token
        return None

    def _ids(self, texts: Iterable[str]) -> dict[str, int]:
        return {text: token for text in texts if (token := self._bpe.find(text)) >= 0}

    def _find_eog(self) -> frozenset[int]:
        special = self.special
        named = self._ids(_EOG_TEXTS)
        for token in named.values():
            self.attributes[token] |= Attribute.CONTROL
        roles = (special.fim_pad, special.fim_rep, special.fim_sep, special.eos, special.eot, special.eom)
        eog = set(named.values()) | {token for token in roles if token is not None}
        # The gpt-oss channel marks are always shown.
        for token in self._ids(("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")).values():
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
        """Phi-3's special tokens swallow the white space after them; the reference goes by the model's name."""
        name = metadata.get("general.name")
        if not isinstance(name, str) or not re.search("phi-?3", name.lower()):
            return
        kinds = Attribute.CONTROL | Attribute.USER_DEFINED | Attribute.UNKNOWN
        strip = np.uint16(Attribute.RSTRIP)
        self.attributes[(self.attributes & np.uint16(kinds)) != 0] |= strip
        found = self._ids(("</s>", "<unk>", "<s>", "<|endoftext|>"))
        if len(found) < 4:
            raise UnplayableModel("a model named Phi-3 lacks one of the tokens </s>, <unk>, <s>, <|endoftext|>")
        self.attributes[found.pop("</s>")] |= strip
        self.attributes[list(found.values())] &= ~strip


def _texts(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list):
        raise InvalidModelFile(f"tokenizer.ggml.{key} is missing or no array of strings")
    return value


def _flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{key}", default)
    if not isinstance(value, bool):
        raise InvalidModelFile(f"tokenizer.ggml.{key} is no boolean")
    return value


def _numbers(metadata: Mapping[str, Any], key: str) -> npt.NDArray[np.int32] | None:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if not isinstance(value, np.ndarray) or value.dtype != np.int32:
        raise InvalidModelFile(f"tokenizer.ggml.{key} is no array of int32")
    return value


def _suppressed(metadata: Mapping[str, Any]) -> Sequence[int]:
    value = _numbers(metadata, "suppress_tokens")
    return [] if value is None else value.tolist()


def _attributes(metadata: Mapping[str, Any], n_vocab: int) -> npt.NDArray[np.uint16]:
    """Each token's Attribute by its type in the file, shape (n_vocab,)."""
    types = _numbers(metadata, "token_type")
    if types is None:
        return np.full(n_vocab, Attribute.NORMAL, dtype=np.uint16)
    if types.size < n_vocab:
        raise InvalidModelFile(f"tokenizer.ggml.token_type has {types.size} entries for {n_vocab} tokens")
    types = types[:n_vocab]
    known = (types >= 0) & (types < _TYPE_ATTRIBUTES.size)
    return _TYPE_ATTRIBUTES[np.where(known, types, 0)]


def _stated_ids(metadata: Mapping[str, Any], n_vocab: int) -> dict[str, int | None]:
    """Role -> token as the file states it; one outside the vocabulary is as good as none."""
    found: dict[str, int | None] = {field.name: None for field in fields(SpecialTokens)}
    found["bos"] = found["eos"] = _DEFAULT_ID if n_vocab > _DEFAULT_ID else None
    for key, role in _ID_KEYS:
        value = metadata.get(f"tokenizer.ggml.{key}")
        if value is None:
            continue
        if type(value) is not int:
            raise InvalidModelFile(f"tokenizer.ggml.{key} is no integer")
        if 0 <= value < n_vocab:
            found[role] = value
    return found
