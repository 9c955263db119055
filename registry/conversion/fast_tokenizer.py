"""A `tokenizer.json` of byte pairs, read and run as Hugging Face's tokenizers (0.22) runs it.

Only for one purpose: llama.cpp's converter knows a pre-tokenizer by the tokens that it makes of one text, and for that
they must be the very same tokens. Speed does not matter here; the engine's tokenizer is another one. What is not
reproduced is refused. Known tokenizers are known by the hash of their tokens, so that a mistake here could only refuse
a vocabulary, not give it a wrong name.
"""

from __future__ import annotations

import functools
import time
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import regex

from registry.errors import ConversionRefused

FILE: Final = "tokenizer.json"
MAX_PATTERN: Final = 4096
TIMEOUT: Final = 5.0
"""Seconds that the steps of the file may take on the text."""
MOST: Final = 4096
"""Characters or tokens that they may make of it; it has some hundreds. A step may double it, and be one of many."""

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token beside the byte pairs' own."""

    id: int
    content: str
    special: bool
    normalized: bool
    plain: bool
    """Whether it is found wherever it stands: no word's end asked for, no blanks taken along."""


@dataclass(frozen=True, slots=True)
class FastTokenizer:
    """What the file holds.

    Args:
        vocabulary: token -> id, added tokens included.
        merges: pair -> rank; the lower goes first.
        added: the added tokens.
        ignore_merges: whether a whole word that is a token is taken at once.
        normalizer, pre_tokenizer, post_processor, decoder: as in the file; None for none.
    """

    vocabulary: Mapping[str, int]
    merges: Mapping[tuple[str, str], int]
    added: tuple[AddedToken, ...]
    ignore_merges: bool
    normalizer: Any
    pre_tokenizer: Any
    post_processor: Any
    decoder: Any

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with what the post-processor adds.

        Raises:
            ConversionRefused: a step of the file is not reproduced here.
        """
        return _post_process(self.post_processor, self.encode_plain(text))

    def encode_plain(self, text: str) -> list[int]:
        """The tokens of a text alone."""
        ends = time.monotonic() + TIMEOUT
        ids: list[int] = []
        for piece, token in _split_added(text, [each for each in self.added if not each.normalized]):
            if token is not None:
                ids.append(token.id)
                continue
            normal = _normalize(self.normalizer, piece)
            for part, inner in _split_added(normal, [each for each in self.added if each.normalized]):
                ids += [inner.id] if inner is not None else self._words(part, ends)
        return ids

    def _words(self, text: str, ends: float) -> list[int]:
        ids: list[int] = []
        for word in _pre_tokenize(self.pre_tokenizer, [text] if text else [], ends):
            _time_left(ends)
            if self.ignore_merges and word in self.vocabulary:
                ids.append(self.vocabulary[word])
            else:
                ids += [self._id(part) for part in merge(word, self.merges)]
        return ids

    def _id(self, token: str) -> int:
        if token not in self.vocabulary:
            raise ConversionRefused(f"{FILE}: the vocabulary has no token for {token!r}")
        return self.vocabulary[token]

    def decoded(self, token: str) -> str:
        """What one token is decoded to."""
        if self.decoder is None:
            return token
        if _kind(self.decoder) != "ByteLevel":
            raise ConversionRefused(f"{FILE}: the decoder {_kind(self.decoder)} is not reproduced")
        byte_of = _byte_of_letter()
        if any(char not in byte_of for char in token):
            return token
        return bytes(byte_of[char] for char in token).decode(errors="replace")


def merge(word: str, merges: Mapping[tuple[str, str], int]) -> list[str]:
    """A word's tokens: the pair of the lowest rank is joined, the leftmost of equals first, until none is left."""
    parts = list(word)
    while len(parts) > 1:
        ranks = [merges.get(pair) for pair in pairwise(parts)]
        known = [rank for rank in ranks if rank is not None]
        if not known:
            break
        at = ranks.index(min(known))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


@functools.cache
def letters_of_bytes() -> tuple[str, ...]:
    """The letter that stands for each byte in a byte-level vocabulary (GPT-2's rule)."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in plain else chr(next(others)) for byte in range(256))


@functools.cache
def _byte_of_letter() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(letters_of_bytes())}


# --- reading ------------------------------------------------------------------------------------------------------


def read_fast_tokenizer(file: Mapping[str, Any]) -> FastTokenizer:
    """The tokenizer in a `tokenizer.json`.

    Raises:
        ConversionRefused: it is not of byte pairs, damaged, or has what is not reproduced here.
    """
    model = file.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else None
        raise ConversionRefused(f"{FILE}: a vocabulary of the type {kind!r} is not converted (BPE is)")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise ConversionRefused(f"{FILE}: {key} is not reproduced")
    if model.get("byte_fallback"):
        raise ConversionRefused(f"{FILE}: byte_fallback without a tokenizer.model is not converted")
    vocabulary = _vocabulary(model.get("vocab"))
    merges = _merges(model.get("merges"), vocabulary)
    added = _added_tokens(file.get("added_tokens"), vocabulary)
    return FastTokenizer(
        vocabulary={**vocabulary, **{token.content: token.id for token in added}},
        merges=merges,
        added=added,
        ignore_merges=model.get("ignore_merges") is True,
        normalizer=file.get("normalizer"),
        pre_tokenizer=file.get("pre_tokenizer"),
        post_processor=file.get("post_processor"),
        decoder=file.get("decoder"),
    )


def _vocabulary(found: Any) -> dict[str, int]:
    if not isinstance(found, dict) or not found:
        raise ConversionRefused(f"{FILE} has no vocabulary")
    if not all(type(number) is int and 0 <= number < 1 << 31 for number in found.values()):
        raise ConversionRefused(f"{FILE}: a token's number is none")
    if len(set(found.values())) != len(found):
        raise ConversionRefused(f"{FILE}: two tokens have the same number")
    return found


def _merges(found: Any, vocabulary: Mapping[str, int]) -> dict[tuple[str, str], int]:
    merges: dict[tuple[str, str], int] = {}
    for rank, entry in enumerate(found if isinstance(found, list) else []):
        pair = entry.split(" ") if isinstance(entry, str) else entry
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ConversionRefused(f"{FILE}: the merge {rank} is no pair of tokens")
        left, right = pair
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise ConversionRefused(f"{FILE}: the merge {rank} is of what the vocabulary does not have")
        merges[left, right] = rank
    if not merges:
        raise ConversionRefused(f"{FILE} has no merges")
    return merges


def _added_tokens(found: Any, vocabulary: Mapping[str, int]) -> tuple[AddedToken, ...]:
    """The added tokens. Their numbers in the file say nothing to the library; here they must be those it gives."""
    tokens: dict[str, AddedToken] = {}
    following = len(vocabulary)
    for entry in found if isinstance(found, list) else []:
        content = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(content, str) or not content or content in tokens:
            raise ConversionRefused(f"{FILE}: an added token has no text, or the same as another")
        number = vocabulary.get(content)
        if number is None:
            number, following = following, following + 1
        if entry.get("id") != number:
            raise ConversionRefused(
                f"{FILE}: the added token {content!r} has the number {entry.get('id')!r}, not {number}"
            )
        special = entry.get("special") is True
        plain = not any(entry.get(flag) for flag in ("single_word", "lstrip", "rstrip"))
        tokens[content] = AddedToken(number, content, special, bool(entry.get("normalized", not special)), plain)
    return tuple(tokens.values())


# --- the steps ----------------------------------------------------------------------------------------------------


def _kind(step: Any) -> str:
    kind = step.get("type") if isinstance(step, dict) else None
    return kind if isinstance(kind, str) else "?"


def _split_added(text: str, tokens: list[AddedToken]) -> Iterable[tuple[str, AddedToken | None]]:
    """The text between the added tokens in it, and these; the leftmost first, the longest of those that begin there."""
    inside = sorted((token for token in tokens if token.content in text), key=lambda token: -len(token.content))
    if not all(token.plain for token in inside):
        raise ConversionRefused(f"{FILE}: added tokens that look at what is beside them are not reproduced")
    begin = at = 0
    while at < len(text):
        token = next((token for token in inside if text.startswith(token.content, at)), None)
        if token is None:
            at += 1
            continue
        if begin < at:
            yield text[begin:at], None
        yield token.content, token
        begin = at = at + len(token.content)
    if begin < len(text):
        yield text[begin:], None


def _normalize(step: Any, text: str) -> str:
    if step is None:
        return text
    kind = _kind(step)
    if kind == "Sequence" and isinstance(step.get("normalizers"), list):
        return functools.reduce(lambda done, each: _normalize(each, done), step["normalizers"], text)
    if kind in ("NFC", "NFD", "NFKC", "NFKD"):
        form: Any = kind
        return unicodedata.normalize(form, text)
    raise ConversionRefused(f"{FILE}: the normalizer {kind} is not reproduced")


def _pre_tokenize(step: Any, pieces: list[str], ends: float) -> list[str]:
    """The pieces of pieces, their bytes spelt as letters where the file says so; `ends` is when it takes too long."""
    if step is None:
        return pieces
    kind = _kind(step)
    if kind == "Sequence" and isinstance(step.get("pretokenizers"), list):
        return functools.reduce(lambda done, each: _pre_tokenize(each, done, ends), step["pretokenizers"], pieces)
    if kind == "Split":
        pattern, behavior, invert = _pattern(step.get("pattern")), step.get("behavior"), step.get("invert") is True
        return [part for piece in pieces for part in _split(pattern, piece, behavior, invert, ends)]
    if kind == "Digits":
        behavior = "Isolated" if step.get("individual_digits") else "Contiguous"
        return [part for piece in pieces for part in _split(regex.compile(r"\p{N}"), piece, behavior, False, ends)]
    if kind == "ByteLevel":
        return _byte_level(step, pieces, ends)
    raise ConversionRefused(f"{FILE}: the pre-tokenizer {kind} is not reproduced")


def _byte_level(step: Mapping[str, Any], pieces: list[str], ends: float) -> list[str]:
    if step.get("add_prefix_space", True):
        pieces = [piece if piece.startswith(" ") else " " + piece for piece in pieces]
    if step.get("use_regex", True):
        pattern = regex.compile(_GPT2)
        pieces = [part for piece in pieces for part in _split(pattern, piece, "Isolated", False, ends)]
    letters = letters_of_bytes()
    spelt = ["".join(letters[byte] for byte in piece.encode()) for piece in pieces]
    _check_growth(sum(map(len, spelt)))
    return spelt


def _pattern(found: Any) -> regex.Pattern[str]:
    text = next((found[key] for key in ("Regex", "String") if key in found), None) if isinstance(found, dict) else None
    if not isinstance(text, str) or not 0 < len(text) <= MAX_PATTERN:
        raise ConversionRefused(f"{FILE}: a pattern to split at is missing or longer than {MAX_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of set operations, which only a later syntax has
            return regex.compile(text if "Regex" in found else regex.escape(text))
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise ConversionRefused(f"{FILE}: the pattern to split at is not read ({error})") from error


def _time_left(ends: float) -> float:
    """Seconds until `ends`, above zero.

    Raises:
        ConversionRefused: there are none.
    """
    if (left := ends - time.monotonic()) <= 0:
        raise _too_slow()
    return left


def _too_slow() -> ConversionRefused:
    return ConversionRefused(f"{FILE}: its steps take more than {TIMEOUT:g} seconds on a short text")


def _check_growth(n: int) -> None:
    if n > MOST:
        raise ConversionRefused(f"{FILE}: its steps make more than {MOST} characters or tokens of a short text")


def _split(pattern: regex.Pattern[str], text: str, behavior: Any, invert: bool, ends: float) -> list[str]:
    """A text's parts: what the pattern finds and what lies between, each alone, found ones left out, or joined."""
    parts: list[tuple[str, bool]] = []
    begin = 0
    try:
        for match in pattern.finditer(text, timeout=_time_left(ends)):
            if match.start() > begin:
                parts.append((text[begin : match.start()], invert))
            if match.end() > match.start():
                parts.append((match.group(), not invert))
            begin = match.end()
    except TimeoutError as error:
        raise _too_slow() from error
    if begin < len(text):
        parts.append((text[begin:], invert))
    if behavior == "Isolated":
        return [part for part, _ in parts]
    if behavior == "Removed":
        return [part for part, found in parts if not found]
    if behavior == "Contiguous":
        joined: list[tuple[str, bool]] = []
        for part, found in parts:
            if joined and joined[-1][1] == found:
                joined[-1] = (joined[-1][0] + part, found)
            else:
                joined.append((part, found))
        return [part for part, _ in joined]
    raise ConversionRefused(f"{FILE}: the splitting {behavior!r} is not reproduced")


def _post_process(step: Any, ids: list[int]) -> list[int]:
    if step is None:
        return ids
    kind = _kind(step)
    if kind == "ByteLevel":
        return ids
    try:
        if kind == "Sequence":
            return functools.reduce(lambda done, each: _post_process(each, done), step["processors"], ids)
        if kind == "TemplateProcessing":
            special = step["special_tokens"]
            parts = [
                ids if "Sequence" in part else special[part["SpecialToken"]["id"]]["ids"] for part in step["single"]
            ]
            _check_growth(sum(map(len, parts)))
            return [number for part in parts for number in part]
        if kind in ("RobertaProcessing", "BertProcessing"):
            _check_growth(len(ids))
            return [step["cls"][1], *ids, step["sep"][1]]
    except (KeyError, TypeError, IndexError) as error:
        raise ConversionRefused(f"{FILE}: the post-processor {kind} is damaged") from error
    raise ConversionRefused(f"{FILE}: the post-processor {kind} is not reproduced")
