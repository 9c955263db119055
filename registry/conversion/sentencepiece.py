"""A SentencePiece vocabulary: `tokenizer.model`, with what the JSON files beside it add and rename.

The file is a protocol buffer (sentencepiece_model.proto): field 1, repeated, is a piece with its text (1), its score
(2) and its type (3); field 2 says how it was trained, with `byte_fallback` (35). The rest of it is of no use here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from registry.conversion.byte_pairs import BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED, looks_special
from registry.conversion.metadata import Metadata
from registry.conversion.source import SourceDirectory
from registry.conversion.special_tokens import TOKENIZER_CONFIG
from registry.errors import ConversionRefused

FILE: Final = "tokenizer.model"
MAX_BYTES: Final = 16 << 20
"""Four times the largest there is."""
_TYPES: Final = range(1, 7)
_UNKNOWN: Final = 2
_BYTE_FALLBACK: Final = 35


def add_sentencepiece(metadata: Metadata, source: SourceDirectory, n_vocab: int) -> None:
    """The vocabulary's keys.

    Args:
        metadata: where they go.
        source: the directory, which has a tokenizer.model.
        n_vocab: tokens of the model.

    Raises:
        ModelFileError: a file cannot be read.
        ConversionRefused: the vocabulary is damaged.
    """
    pieces = read_pieces(source.bytes_of(FILE, MAX_BYTES))[:n_vocab]
    tokens = [text for text, _, _ in pieces]
    scores = [score for _, score, _ in pieces]
    types = [NORMAL if kind == USER_DEFINED else kind for _, _, kind in pieces]
    for number in range(len(pieces), n_vocab):
        tokens.append(f"[PAD{number}]")
        scores.append(-10000.0)
        types.append(UNUSED)
    for text, number in (source.json_of("added_tokens.json") or {}).items():
        _set(tokens, scores, types, number, text, USER_DEFINED)
    for number, text, kind in _renamed(source.json_of(TOKENIZER_CONFIG) or {}):
        _set(tokens, scores, types, number, text, kind)
    metadata.string("tokenizer.ggml.model", "llama")
    metadata.string("tokenizer.ggml.pre", "default")
    metadata.array("tokenizer.ggml.tokens", tokens)
    metadata.array("tokenizer.ggml.scores", scores)
    metadata.array("tokenizer.ggml.token_type", types)


def _set(tokens: list[str], scores: list[float], types: list[int], number: Any, text: Any, kind: int) -> None:
    if type(number) is not int or number < 0 or not isinstance(text, str):
        raise ConversionRefused(f"{FILE}: an added token has no text or no number")
    if number < len(tokens):  # others are left out
        tokens[number], scores[number], types[number] = text, -1000.0, kind


def _renamed(settings: Mapping[str, Any]) -> Iterator[tuple[int, str, int]]:
    """The tokens of `added_tokens_decoder`."""
    decoder = settings.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        raise ConversionRefused(f"{TOKENIZER_CONFIG}: added_tokens_decoder is no object")
    for key, entry in decoder.items():
        text = entry.get("content") if isinstance(entry, dict) else None
        if not key.isdecimal() or not isinstance(text, str):
            raise ConversionRefused(f"{TOKENIZER_CONFIG}: added_tokens_decoder has {key[:40]!r}, which is no token")
        if entry.get("special") or looks_special(text):
            yield int(key), text, CONTROL
        else:
            yield int(key), text.replace("▁", " "), USER_DEFINED


def read_pieces(data: bytes) -> list[tuple[str, float, int]]:
    """Text, score and type of every piece.

    Raises:
        ConversionRefused: the file is cut, or holds what SentencePiece does not load.
    """
    found: dict[str, tuple[str, float, int]] = {}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            piece = _piece(value)
            if not piece[0] or found.setdefault(piece[0], piece) is not piece:
                raise ConversionRefused(f"{FILE} has an empty piece, or one twice")
    pieces = list(found.values())
    if not pieces:
        raise ConversionRefused(f"{FILE} has no pieces")
    if sum(kind == _UNKNOWN for _, _, kind in pieces) != 1:
        raise ConversionRefused(f"{FILE} does not have one unknown piece")
    training = b"".join(value for number, value in _fields(data) if number == 2 and isinstance(value, bytes))
    byte_fallback = any(value == 1 for number, value in _fields(training) if number == _BYTE_FALLBACK)
    if sum(kind == BYTE for _, _, kind in pieces) != (256 if byte_fallback else 0):
        raise ConversionRefused(f"{FILE} does not have the pieces of all bytes, or has some without byte_fallback")
    return pieces


def _piece(data: bytes) -> tuple[str, float, int]:
    text, score, kind = "", 0.0, NORMAL
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            try:
                text = value.decode()
            except UnicodeDecodeError as error:
                raise ConversionRefused(f"{FILE} has a piece that is not UTF-8") from error
        elif number == 2 and isinstance(value, float):
            score = value
        elif number == 3 and isinstance(value, int):
            kind = value
    if kind not in _TYPES:
        raise ConversionRefused(f"{FILE} has a piece of the type {kind}")
    return text, score, kind


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: number and value; 32-bit values as floats, texts and messages as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire, value = tag & 7, b""
        if wire == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ConversionRefused(f"{FILE} is no SentencePiece vocabulary")
        value = data[at : at + size]
        if len(value) != size:
            raise ConversionRefused(f"{FILE} is cut short")
        at += size
        yield tag >> 3, struct.unpack("<f", value)[0] if wire == 5 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ConversionRefused(f"{FILE} is no SentencePiece vocabulary, or cut short")
