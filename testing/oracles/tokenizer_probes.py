"""What is asked of a tokenizer, the reference's and ours alike, and the digests of its answers.

A record keeps a digest for each hundred texts or so, not the tokens: millions of tokens in a few kilobytes, and a
difference still leads to its text.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np

from testing.oracles import fuzz_texts
from testing.oracles.vocabularies import BYTE, CONTROL, NORMAL, SPECIALS, UNKNOWN, UNUSED, USER_DEFINED, byte_letters

SEED: Final = 11192
N_TEXTS: Final = 12_000
CHUNK: Final = 200
"""Texts a digest."""
ROLES: Final = (
    "bos",
    "eos",
    "eot",
    "sep",
    "pad",
    "mask",
    "fim_pre",
    "fim_suf",
    "fim_mid",
    "fim_pad",
    "fim_rep",
    "fim_sep",
)


class AnyTokenizer(Protocol):
    """`engine.tokenizer.Tokenizer` or `reference_vocabulary.ReferenceVocabulary`."""

    @property
    def n_vocab(self) -> int: ...
    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...
    def piece(self, token: int, /, *, special: bool = False) -> bytes: ...
    def detokenize(self, tokens: Sequence[int], /, *, special: bool = True) -> bytes: ...


def all_texts() -> list[str]:
    """The seeded texts, then those with every code point."""
    return [*fuzz_texts.texts(N_TEXTS, SEED), *fuzz_texts.code_points()]


def digest_of(parts: Iterable[bytes]) -> str:
    """16 hexadecimal digits of the sha256 over the parts, each after its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(struct.pack("<I", len(part)) + part)
    return digest.hexdigest()[:16]


def _ids(tokens: Sequence[int]) -> bytes:
    return np.array(tokens, dtype="<i4").tobytes()


def _encoded(tokenizer: AnyTokenizer, texts: Iterable[str]) -> Iterator[bytes]:
    """With what belongs at both ends and special tokens parsed, then all as plain text."""
    for text in texts:
        yield _ids(tokenizer.encode(text, add_special=True, parse_special=True))
        yield _ids(tokenizer.encode(text, add_special=False, parse_special=False))


def encoding_digests(tokenizer: AnyTokenizer, texts: Sequence[str]) -> list[str]:
    """A digest for each `CHUNK` texts."""
    return [digest_of(_encoded(tokenizer, texts[at : at + CHUNK])) for at in range(0, len(texts), CHUNK)]


def _decoded(tokenizer: AnyTokenizer, lists: Iterable[Sequence[int]]) -> Iterator[bytes]:
    for tokens in lists:
        for special in (True, False):
            yield tokenizer.detokenize(tokens, special=special)
            yield b"".join(tokenizer.piece(token, special=special) for token in tokens)


def decoding_digest(tokenizer: AnyTokenizer) -> str:
    """Of the texts of seeded lists of tokens and of texts' own tokens, with special tokens shown and not."""
    chance = random.Random(SEED)
    lists = [[chance.randrange(tokenizer.n_vocab) for _ in range(chance.randrange(12))] for _ in range(400)]
    spaced = ["He 's , they 've . It 's ' fine ' ! I 'm 'x ?", " a  b ", " ' ' ' ", ".,?! . , ? !", "'re 've 'll 't 'd"]
    lists += [tokenizer.encode(text, add_special=add) for text in spaced for add in (True, False)]
    return digest_of(_decoded(tokenizer, lists))


# --- small vocabularies with every key ----------------------------------------------------------------------------

# Texts that mean something to the reference, beside some that nearly do.
_MEANINGFUL: Final = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>"),
    *("[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>", "<|eom_id|>", "<|fim_prefix|>", "<fim-prefix>"),  # noqa: RUF001
    *("<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>", "<|fim_suffix|>"),  # noqa: RUF001
    *("<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"),  # noqa: RUF001
    *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>"),  # noqa: RUF001
    *("<|middle|>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>"),
    *("<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>"),
    *("[EOS]", "<eos>", "<turn|>", "<|tool_response>", "[e~[", "<|channel|>", "<|message|>", "<|start|>"),
    *("<|constrain|>", "[MASK]", "<unused0>", "<|unused|>", "<|im", "|>", "<|", "  ", " ", "\n", "▁▁", "<extra>", ""),
)
_ID_KEYS: Final = (
    *(
        "bos",
        "eos",
        "eot",
        "eom",
        "unknown",
        "seperator",
        "padding",
        "mask",
        "fim_pre",
        "fim_suf",
        "fim_mid",
        "fim_pad",
    ),
    *("fim_rep", "fim_sep", "prefix", "suffix", "middle"),
)
_TYPES: Final = (0, NORMAL, NORMAL, UNKNOWN, CONTROL, CONTROL, CONTROL, USER_DEFINED, UNUSED, 9)
_NAMES: Final = ("", "", "a model", "Phi-3 mini", "PHI3", "my-modern-bert", "phi 3", "Phi-3 modern-bert")
_PRE_NAMES: Final = (
    "gpt-2",
    "qwen2",
    "smollm",
    "jina-v2-code",
    "jina-v1-en",
    "glm4",
    "llama-bpe",
    "stablelm2",
    "default",
)


def small_vocabularies(count: int) -> Iterator[dict[str, Any]]:
    """The keys of seeded vocabularies of bytes, of tokens that mean something, and of keys that do."""
    chance = random.Random(SEED)
    for _ in range(count):
        yield _small_vocabulary(chance)


def _small_vocabulary(chance: random.Random) -> dict[str, Any]:
    model = fuzz_texts.pick(chance, ("gpt2", "gpt2", "llama"))
    share = fuzz_texts.pick(chance, (0.05, 0.2, 0.6))
    kinds = dict(SPECIALS)
    kinds.update({text: fuzz_texts.pick(chance, _TYPES) for text in _MEANINGFUL if chance.random() < share})
    head = ["a", "b", " c", "ab", *kinds]
    letters = byte_letters() if model == "gpt2" else [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = [*head, *(letter for letter in letters if letter not in head)]
    types = [NORMAL] * 4 + list(kinds.values())
    types += [NORMAL if model == "gpt2" else BYTE] * (len(tokens) - len(types))
    keys: dict[str, Any] = {"model": model, "tokens": tokens, "token_type": np.array(types, np.int32)}
    if model == "gpt2":
        keys |= {"pre": fuzz_texts.pick(chance, _PRE_NAMES), "merges": ["a b"]}
    else:
        keys |= {"scores": np.array([-float(chance.randrange(5)) for _ in tokens], np.float32)}
    for name in _ID_KEYS:
        if chance.random() < 0.15:
            keys[f"{name}_token_id"] = chance.randrange(len(tokens) + 8)
    for name in ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix"):
        if chance.random() < 0.3:
            keys[name] = chance.random() < 0.5
    if keys.get("pre") == "glm4":
        keys["add_bos_token"] = False  # it may have no such token, and then the reference ends itself
    named = {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    return {"general.architecture": "llama", "general.name": fuzz_texts.pick(chance, _NAMES), **named}


def small_texts(metadata: dict[str, Any]) -> list[str]:
    """Texts with the vocabulary's own tokens, and white space between them."""
    chance = random.Random(len(metadata["tokenizer.ggml.tokens"]))
    parts = [*metadata["tokenizer.ggml.tokens"][:80], "a", "ab", "é", "漢", "<", "|", "<|im_"]
    spaces = ("", "", " ", "  ", "\n", " \t ", "\r\n")
    count = range(40)
    return ["".join(fuzz_texts.pick(chance, parts) + fuzz_texts.pick(chance, spaces) for _ in range(6)) for _ in count]


def small_digest(
    tokenizer: AnyTokenizer, metadata: dict[str, Any], described: dict[str, Any], attributes: Sequence[int]
) -> str:
    """Of all that one of the small vocabularies answers.

    Args:
        tokenizer: built from `metadata`.
        metadata: from `small_vocabularies`.
        described: roles, flags and end tokens.
        attributes: each token's `llama_token_attr`.
    """
    texts = small_texts(metadata)
    tokens = range(tokenizer.n_vocab)
    parts = [repr(described).encode(), _ids(attributes), *_encoded(tokenizer, texts)]
    parts += [tokenizer.piece(token, special=special) for token in tokens for special in (True, False)]
    parts += _decoded(tokenizer, [tokenizer.encode(text) for text in texts])
    return digest_of(parts)
