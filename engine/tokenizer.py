"""Text to tokens and back, as llama.cpp b11192 does it: byte-level BPE and SentencePiece.

The work on text is in `engine/kernels/bpe.cpp` and `engine/kernels/spm.cpp`. Here a file's keys choose between them.
Which pre-tokenizer a name stands for is in `engine/pretokenizers.py`, which token has which role in
`engine/special_tokens.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidModelFile, InvalidRequest, UnplayableModel, shown
from engine.kernels._kernels import Bpe, Spm, Vocabulary
from engine.pretokenizers import PRE_TOKENIZERS
from engine.special_tokens import Attribute, Roles, check_roles, kept_texts, numbers


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds for a kind of vocabulary unless the file says otherwise."""

    add_bos: bool
    add_sep: bool
    add_space_prefix: bool
    clean_spaces: bool
    ids: Mapping[str, int]
    """Role -> token."""
    add_eos: bool = False

    def of_file(self, metadata: Mapping[str, Any]) -> _Rules:
        """With what the file says otherwise, `ids` apart."""
        return replace(
            self,
            add_bos=_flag(metadata, "add_bos_token", self.add_bos),
            add_eos=_flag(metadata, "add_eos_token", self.add_eos),
            add_sep=_flag(metadata, "add_sep_token", self.add_sep),
            add_space_prefix=_flag(metadata, "add_space_prefix", self.add_space_prefix),
        )


_Build = Callable[[], Vocabulary]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A vocabulary that can be built."""

    tokens: list[str]
    rules: _Rules
    suppress: tuple[int, ...]
    build: _Build


class Tokenizer:
    """A vocabulary and its rules. Safe to use from several threads at once.

    Attributes:
        n_vocab: number of tokens.
        special: the token of each role.
        bos, eos, eot: shorthands for the same in `special`.
        add_bos, add_eos: whether `encode` adds them when asked for special tokens.
        add_sep: whether a separator belongs between two texts.
        eog: the tokens that end a generation.
        attributes: what each token is (`special_tokens.Attribute`), uint16 of shape (n_vocab,).
        suppress: tokens the file forbids to sample.
    """

    def __init__(self, plan: _Plan, vocabulary: Vocabulary, roles: Roles) -> None:
        rules = plan.rules
        self._vocabulary = vocabulary
        self.n_vocab = len(plan.tokens)
        self.special = roles.special
        self.bos, self.eos, self.eot = self.special.bos, self.special.eos, self.special.eot
        self.eog = roles.eog
        self.attributes = roles.attributes
        self.add_bos, self.add_eos, self.add_sep = rules.add_bos, rules.add_eos, rules.add_sep
        self.suppress = plan.suppress
        self._drop_first_space = rules.add_space_prefix
        self._clean_spaces = rules.clean_spaces
        self._stand_apart: dict[int, bool] = {}

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """Build the tokenizer that a model file describes.

        Raises:
            UnplayableModel: the vocabulary is of a kind, or names a pre-tokenizer, that is not implemented.
            InvalidModelFile: a key is missing, has the wrong type, or contradicts another one.
        """
        plan = _planned(metadata)
        try:
            vocabulary = plan.build()
            roles = Roles(vocabulary, metadata, len(plan.tokens), plan.rules.ids)
            vocabulary.set_attributes(roles.attributes)
        except ValueError as error:
            raise InvalidModelFile(f"tokenizer.ggml.tokens: {error}") from None
        return cls(plan, vocabulary, roles)

    @staticmethod
    def check(metadata: Mapping[str, Any]) -> None:
        """What `from_gguf` would refuse, in a fraction of its time.

        Raises:
            UnplayableModel, InvalidModelFile: as `from_gguf`.
        """
        _planned(metadata)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The tokens of a text. The GIL is free meanwhile.

        Args:
            text: any text below 2 GiB of UTF-8.
            add_special: add the beginning and end tokens if the vocabulary asks for them.
            parse_special: take the texts of control tokens for those tokens; user-defined tokens always are.

        Raises:
            InvalidRequest: the text holds a lone surrogate or a byte that no token stands for, or is too long.
        """
        try:
            tokens = self._vocabulary.encode(text, parse_special)
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
        return self._vocabulary.piece(token, special)

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> bytes:
        """The pieces of tokens, joined; with `special` (the default) as llama-server's /detokenize.

        Raises:
            InvalidRequest: there is no such token.
        """
        if tokens and (min(tokens) < 0 or max(tokens) >= self.n_vocab):
            unknown = min(tokens) if min(tokens) < 0 else max(tokens)
            raise InvalidRequest(f"there is no token {unknown} in a vocabulary of {self.n_vocab}")
        return self._vocabulary.decode(tokens, special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> bytes:
        """The text that llama_detokenize gives: `decode` without the space that goes before a text, and with the
        spaces cleaned up, each where the vocabulary wants that.

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

    def stands_apart(self, token: int) -> bool:
        """Whether this token is cut out of any text that has its text, before the rest is tokenized: then the tokens of
        a text that ends before it and those of the text that begins with it are those of both texts together.

        That is so of a special token if no text of another one, nor its own, could lie over a part of it, and if it
        takes no white space from what stands before it (see `Vocabulary::cut_specials`).
        """
        known = self._stand_apart.get(token)
        if known is None:
            known = self._stand_apart[token] = self._lies_alone(token)
        return known

    def _lies_alone(self, token: int) -> bool:
        texts = self._special_texts
        text = texts.get(token, b"")
        if not text or text[:1].isspace() or self.attributes[token] & Attribute.LSTRIP:
            return False
        others = [other for number, other in texts.items() if number != token]
        if any(text.startswith(other) or other.startswith(text) for other in others):
            return False
        return not any(_overlap(text, other) or _overlap(other, text) for other in texts.values())

    @cached_property
    def _special_texts(self) -> Mapping[int, bytes]:
        """The texts of the tokens that are looked for in a text before it is tokenized."""
        kinds = Attribute.CONTROL | Attribute.USER_DEFINED | Attribute.UNKNOWN
        found = np.flatnonzero(self.attributes & int(kinds)).tolist()
        return {token: self._vocabulary.piece(token, True) for token in found}

    def is_eog(self, token: int) -> bool:
        """Whether this token ends a generation."""
        return token in self.eog

    def find(self, text: str) -> int | None:
        """The token with exactly this text in the vocabulary (of a normal token of BPE, in the byte alphabet)."""
        token = self._vocabulary.find(text)
        return None if token < 0 else token

    def split(self, text: str) -> list[str]:
        """The words of byte-level BPE that merges do not cross, for a text without special tokens.

        Raises:
            TypeError: the vocabulary is of another kind.
        """
        if not isinstance(self._vocabulary, Bpe):
            raise TypeError("only byte-level BPE cuts text into words first")
        return self._vocabulary.split(text)


def _overlap(first: bytes, second: bytes) -> bool:
    """Whether `second` could begin inside `first`: behind its beginning and before its end."""
    rests = (first[at:] for at in range(1, len(first)))
    return any(rest.startswith(second) or second.startswith(rest) for rest in rests)


_SPACE_BEFORE_STOP: Final = re.compile(rb" (?=[?!.,])")
_LONE_APOSTROPHE: Final = re.compile(rb" ' ")
_SPACE_BEFORE_CONTRACTION: Final = re.compile(rb" (?='(?:[sm]|re|ve))")


# --- the kinds of vocabularies ------------------------------------------------------------------------------------


def _planned(metadata: Mapping[str, Any]) -> _Plan:
    """Raises whatever `Tokenizer.from_gguf` does."""
    model = metadata.get("tokenizer.ggml.model")
    prepare = _MODELS.get(model) if isinstance(model, str) else None
    if prepare is None:
        raise UnplayableModel(
            f"tokenizer.ggml.model is {shown(model)}; played are 'gpt2' (byte-level BPE) and 'llama' (SentencePiece)"
        )
    tokens = _texts(metadata, "tokens")
    _check_unique(tokens)
    build, rules = prepare(metadata, tokens)
    rules = rules.of_file(metadata)
    stated = check_roles(metadata, tokens, rules.ids)
    for wanted, name in ((rules.add_bos, "bos"), (rules.add_eos, "eos")):
        if wanted and stated[name] is None:
            raise UnplayableModel(f"tokenizer.ggml.add_{name}_token is set, but there is no such token")
    suppress = tuple(token for token in _suppressed(metadata) if 0 <= token < len(tokens))
    return _Plan(tokens, rules, suppress, build)


def _check_unique(tokens: list[str]) -> None:
    """No two tokens have the same text, as a vocabulary keeps it; one without any is named by its number there."""
    texts = kept_texts(tokens)
    known = set(texts)
    if "" in known:
        texts = [text or f"[EMPTY_{token}]" for token, text in enumerate(texts)]
        known = set(texts)
    if len(known) == len(texts):
        return
    known.clear()
    for token, text in enumerate(texts):
        if text in known:
            raise InvalidModelFile(f"tokenizer.ggml.tokens: the token {token} has the text of another one")
        known.add(text)


def _byte_level_bpe(metadata: Mapping[str, Any], tokens: list[str]) -> tuple[_Build, _Rules]:
    name = metadata.get("tokenizer.ggml.pre", "")
    pre = PRE_TOKENIZERS.get(name or "default") if isinstance(name, str) else None
    if pre is None:
        raise UnplayableModel(f"tokenizer.ggml.pre is {shown(name)}, a pre-tokenizer that is not played")
    build = partial(Bpe, tokens, _texts(metadata, "merges"), list(pre.splitters), pre.ignore_merges)
    ids = {"bos": 11, "eos": 11} if pre.default_bos else {"eos": 11}
    return build, _Rules(pre.add_bos, pre.add_sep, add_space_prefix=False, clean_spaces=pre.clean_spaces, ids=ids)


def _sentencepiece(metadata: Mapping[str, Any], tokens: list[str]) -> tuple[_Build, _Rules]:
    rules = _Rules(
        add_bos=True, add_sep=False, add_space_prefix=True, clean_spaces=False, ids={"bos": 1, "eos": 2, "unk": 0}
    )
    add_space_prefix = _flag(metadata, "add_space_prefix", rules.add_space_prefix)
    _check_lengths(tokens)
    return partial(Spm, tokens, _scores(metadata, len(tokens)), add_space_prefix), rules


def _check_lengths(tokens: list[str]) -> None:
    """SentencePiece looks at every way to cut each token in two, which takes the square of its length."""
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    for index in np.flatnonzero(lengths > _LONG_TOKEN):
        lengths[index] = len(tokens[index].encode())
    if int(np.square(lengths).sum()) > _MAX_SQUARES:
        raise UnplayableModel("tokenizer.ggml.tokens has tokens that are too long for SentencePiece")


_LONG_TOKEN: Final = 64  # characters
_MAX_SQUARES: Final = 1 << 26  # several times those of the largest vocabularies

_MODELS: Final[Mapping[str, Callable[[Mapping[str, Any], list[str]], tuple[_Build, _Rules]]]] = {
    "gpt2": _byte_level_bpe,
    "llama": _sentencepiece,
}


# --- keys ---------------------------------------------------------------------------------------------------------


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


def _suppressed(metadata: Mapping[str, Any]) -> Sequence[int]:
    value = numbers(metadata, "suppress_tokens")
    return [] if value is None else value.tolist()


def _scores(metadata: Mapping[str, Any], n_vocab: int) -> npt.NDArray[np.float32]:
    """Each token's score, shape (n_vocab,); all zeros where the file has none."""
    value = metadata.get("tokenizer.ggml.scores")
    if value is None:
        return np.zeros(n_vocab, dtype=np.float32)
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.int32):
        raise InvalidModelFile("tokenizer.ggml.scores is no array of float32 or int32")
    if value.size < n_vocab:
        raise InvalidModelFile(f"tokenizer.ggml.scores has {value.size} entries for {n_vocab} tokens")
    scores = value[:n_vocab].astype(np.float32)
    if np.isnan(scores).any():
        raise InvalidModelFile("tokenizer.ggml.scores: a score is not a number")
    return scores
