"""A vocabulary of byte pairs: its tokens, their types and the name of its pre-tokenizer.

The reference asks transformers' `AutoTokenizer` (4.57.6) for the tokens; what that adds to `tokenizer.json` on its own
is done here too, or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from registry.conversion.fast_tokenizer import FILE, AddedToken, FastTokenizer, read_fast_tokenizer
from registry.conversion.known_pretokenizers import TEXT, fingerprint, pre_tokenizer_of
from registry.conversion.metadata import Metadata
from registry.conversion.source import SourceDirectory
from registry.conversion.special_tokens import TOKENIZER_CONFIG
from registry.errors import ConversionRefused

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""`tokenizer.ggml.token_type`."""

# Class (without `Fast`) -> the special tokens that it has when the files name none.
_CLASSES: Final[Mapping[str, Mapping[str, str]]] = {
    "PreTrainedTokenizer": {},
    "TokenizersBackend": {},
    "GPT2Tokenizer": {"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "Qwen2Tokenizer": {"unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    "LlamaTokenizer": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
}
_CLASS_OF_MODEL: Final = {"llama": "LlamaTokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer"}
_SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# What transformers takes out of decoded text when `clean_up_tokenization_spaces` is set.
_CLEANED: Final = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


def add_byte_pairs(
    metadata: Metadata, source: SourceDirectory, file: Mapping[str, Any] | None, config: Mapping[str, Any]
) -> None:
    """The vocabulary's keys.

    Args:
        metadata: where they go.
        source: the directory.
        file: what tokenizer.json holds; None when there is none.
        config: config.json, with its defaults.

    Raises:
        ModelFileError: a file cannot be read.
        ConversionRefused: the vocabulary is damaged, has what is not reproduced, or its pre-tokenizer is not known.
    """
    if file is None:
        raise ConversionRefused(f"there is neither a tokenizer.model nor a {FILE} in {source.path}")
    settings = source.json_of(TOKENIZER_CONFIG) or {}
    tokenizer = _as_loaded(source, read_fast_tokenizer(file), settings, config)
    n_vocab = config["vocab_size"]
    if max(tokenizer.vocabulary.values()) >= n_vocab:
        raise ConversionRefused(f"{FILE} has tokens beyond the vocab_size of config.json, {n_vocab}")
    made = tokenizer.encode(TEXT)
    pre = pre_tokenizer_of(made)
    if pre is None:
        raise ConversionRefused(
            f"the pre-tokenizer of {FILE} is not known to llama.cpp (its hash is {fingerprint(made)})"
        )
    tokens, types = _tokens(tokenizer, n_vocab, clean=settings.get("clean_up_tokenization_spaces") is True)
    metadata.string("tokenizer.ggml.model", "gpt2")
    metadata.string("tokenizer.ggml.pre", pre)
    metadata.array("tokenizer.ggml.tokens", tokens)
    metadata.array("tokenizer.ggml.token_type", types)


def _tokens(tokenizer: FastTokenizer, n_vocab: int, *, clean: bool) -> tuple[list[str], list[int]]:
    """Every token's text and type, by number; those that the file does not have are unused."""
    texts = {number: text for text, number in tokenizer.vocabulary.items()}
    added = {token.id: token for token in tokenizer.added}
    tokens, types = [], []
    for number in range(n_vocab):
        text, kind = texts.get(number), NORMAL
        if text is None:
            text, kind = f"[PAD{number}]", UNUSED
        elif number in added:
            text, kind = _added_token(tokenizer, added[number], clean)
        tokens.append(text)
        types.append(kind)
    return tokens, types


def _added_token(tokenizer: FastTokenizer, token: AddedToken, clean: bool) -> tuple[str, int]:
    text = token.content
    if not token.normalized:
        text = tokenizer.decoded(text)
        for blank, without in _CLEANED if clean else ():
            text = text.replace(blank, without)
    if token.special or looks_special(text):
        return text, CONTROL
    return text.replace("▁", " "), USER_DEFINED


def looks_special(text: str) -> bool:
    """Whether a token ought to be special though its file does not say so (`does_token_look_special`)."""
    return (
        text in ("<pad>", "<mask>", "<2mass>", "[@BOS@]")
        or (text.startswith("<|") and text.endswith("|>"))
        or (text.startswith("<\uff5c") and text.endswith("\uff5c>"))
        or (text.startswith("<unused") and text.endswith(">"))
    )


def _as_loaded(
    source: SourceDirectory, tokenizer: FastTokenizer, settings: Mapping[str, Any], config: Mapping[str, Any]
) -> FastTokenizer:
    """The tokenizer as transformers loads it."""
    named = settings.get("tokenizer_class") or config.get("tokenizer_class") or _CLASS_OF_MODEL[config["model_type"]]
    kind = named.removesuffix("Fast") if isinstance(named, str) else "?"
    if kind not in _CLASSES:
        raise ConversionRefused(f"{TOKENIZER_CONFIG}: the tokenizer_class {named!r} is not reproduced")
    special = {**_CLASSES[kind], **_special_tokens(source, settings)}
    known = {token.content for token in tokenizer.added}
    for text in (*_texts(special.values()), *_listed_tokens(source, settings)):
        if text not in known:
            raise ConversionRefused(f"the special token {text!r} is not among the added_tokens of {FILE}")
    step = tokenizer.pre_tokenizer
    if isinstance(step, dict) and "add_prefix_space" in step:
        # The first step alone is set anew, by a setting whose default is false.
        tokenizer = replace(
            tokenizer, pre_tokenizer={**step, "add_prefix_space": bool(settings.get("add_prefix_space"))}
        )
    if kind == "LlamaTokenizer":
        tokenizer = _llama(tokenizer, settings, special)
    return tokenizer


def _llama(tokenizer: FastTokenizer, settings: Mapping[str, Any], special: Mapping[str, Any]) -> FastTokenizer:
    """Llama's class puts its own ends around a text, whatever the file says."""
    if settings.get("add_prefix_space") is not None:
        raise ConversionRefused(
            f"{TOKENIZER_CONFIG}: add_prefix_space with byte pairs and LlamaTokenizer is not converted"
        )
    ends: dict[str, dict[str, Any] | None] = {}
    for name, default in (("bos", True), ("eos", False)):
        ends[name] = None
        if settings.get(f"add_{name}_token", default):
            texts = list(_texts([special.get(f"{name}_token")]))
            if not texts:
                raise ConversionRefused(f"{TOKENIZER_CONFIG}: add_{name}_token without a {name}_token")
            ends[name] = {"SpecialToken": {"id": texts[0]}}
    single = [part for part in (ends["bos"], {"Sequence": {"id": "A"}}, ends["eos"]) if part is not None]
    numbers = {text: {"ids": [number]} for text, number in tokenizer.vocabulary.items() if text in _ends(single)}
    return replace(
        tokenizer,
        post_processor={"type": "TemplateProcessing", "single": single, "special_tokens": numbers},
    )


def _ends(template: list[dict[str, Any]]) -> set[str]:
    return {part["SpecialToken"]["id"] for part in template if "SpecialToken" in part}


def _special_tokens(source: SourceDirectory, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens that the files name; special_tokens_map.json counts beside an old tokenizer_config.json."""
    found = {
        key: settings[key]
        for key in (*_SPECIAL, "additional_special_tokens", "extra_special_tokens")
        if key in settings
    }
    if "added_tokens_decoder" not in settings:
        found |= source.json_of("special_tokens_map.json") or {}
    return found


def _listed_tokens(source: SourceDirectory, settings: Mapping[str, Any]) -> Iterator[str]:
    """Added tokens that are listed outside tokenizer.json."""
    decoder = settings.get("added_tokens_decoder")
    if decoder is None:
        yield from source.json_of("added_tokens.json") or {}
    elif isinstance(decoder, dict):
        yield from _texts(decoder.values())


def _texts(values: Any) -> Iterator[str]:
    """The texts of tokens: texts, objects with a `content`, lists and mappings of these."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict) and isinstance(value.get("content"), str):
            yield value["content"]
        elif isinstance(value, dict):
            yield from _texts(value.values())
        elif isinstance(value, list):
            yield from _texts(value)
