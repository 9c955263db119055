"""The pre-tokenizers of byte-level BPE vocabularies by the names that files have for them.

Each is a row of the table: how it cuts text into words, and what else llama.cpp b11192 derives from the name
(`llama_vocab::impl::load` and `llm_tokenizer_bpe` in `src/llama-vocab.cpp`). A name that is not here is refused: a
guess would give other tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How one kind of vocabulary cuts text into words.

    Attributes:
        splitters: the steps, by their names in `engine/kernels/pretokenizer.cpp`.
        ignore_merges: a word that is itself a token is that token, whatever the merges say.
        add_bos: the beginning-of-text token goes first unless the file says otherwise.
        add_sep: the file's separator belongs between two texts unless the file says otherwise.
        clean_spaces: `Tokenizer.detokenize` drops the spaces before punctuation.
        default_bos: token 11 begins a text where the file names no other.
    """

    splitters: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    add_sep: bool = False
    clean_spaces: bool = True
    default_bos: bool = True


_GPT2: Final = PreTokenizer(("gpt2",))
_GPT2_RAW: Final = replace(_GPT2, clean_spaces=False)
_GPT2_SEPARATED: Final = replace(_GPT2, add_sep=True)
_DIGITS_GPT2: Final = PreTokenizer(("each number", "gpt2"))
_DIGITS_GPT2_RAW: Final = replace(_DIGITS_GPT2, clean_spaces=False)
_CASED: Final = PreTokenizer(("llama3",))
_LLAMA3: Final = replace(_CASED, ignore_merges=True, add_bos=True)
_GLM4: Final = replace(_CASED, default_bos=False)
_QWEN2: Final = PreTokenizer(("qwen2",))
_QWEN2_RAW: Final = replace(_QWEN2, clean_spaces=False)

PRE_TOKENIZERS: Final[Mapping[str, PreTokenizer]] = {
    # White space, letters, numbers and the rest; every digit for itself.
    "smollm": _DIGITS_GPT2_RAW,
    "command-r": _DIGITS_GPT2_RAW,
    "starcoder": _DIGITS_GPT2,
    "refact": _DIGITS_GPT2,
    "codeshell": _DIGITS_GPT2,
    "exaone": _DIGITS_GPT2,
    "minerva-7b": _DIGITS_GPT2,
    "mellum2": _DIGITS_GPT2,
    # The same with whole numbers.
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "mpt": _GPT2,
    "olmo": _GPT2,
    "jais": _GPT2,
    "exaone4": _GPT2,
    "gigachat": _GPT2,
    "a.x-4.0": _GPT2,
    "mellum": _GPT2,
    "modern-bert": _GPT2,
    "jina-es": _GPT2,
    "jina-de": _GPT2,
    "jina-v2-es": _GPT2,
    "jina-v2-de": _GPT2,
    "jina-v1-en": _GPT2_SEPARATED,
    "jina-v2-code": _GPT2_SEPARATED,
    "roberta-bpe": _GPT2_SEPARATED,
    "trillion": _GPT2_RAW,
    "granite-docling": _GPT2_RAW,
    # Contractions in any case, line breaks with what is before them, numbers of up to three digits.
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "falcon3": _LLAMA3,
    "falcon-h1": _LLAMA3,
    "pixtral": _LLAMA3,
    "midm-2.0": _LLAMA3,
    "lfm2": _LLAMA3,
    "jina-v5-nano": _LLAMA3,
    "dbrx": _CASED,
    "smaug-bpe": _CASED,
    "glm4": _GLM4,
    "chatglm-bpe": _GLM4,
    # The same with every digit for itself.
    "qwen2": _QWEN2_RAW,
    "deepseek-r1-qwen": _QWEN2_RAW,
    "kormo": _QWEN2_RAW,
    "f2llmv2": _QWEN2_RAW,
    "hunyuan": _QWEN2_RAW,
    "solar-open": _QWEN2_RAW,
    "grok-2": _QWEN2_RAW,
    "megrez": _QWEN2,
    "stablelm2": _QWEN2,
    "qwen35": PreTokenizer(("qwen35",), clean_spaces=False),
    "deepseek-llm": PreTokenizer(
        (
            "each line break",
            "deepseek letters",
            "deepseek punctuation",
            "trailing space",
            "deepseek han and hangul",
            "numbers",
        ),
        clean_spaces=False,
    ),
    "deepseek-coder": PreTokenizer(
        ("each line break", "space and letters", "space and punctuation", "deepseek han and hangul", "each number"),
        clean_spaces=False,
    ),
    "falcon": PreTokenizer(("punctuation and backtick", "gpt2", "three digits")),
    "default": PreTokenizer(("punctuation", "gpt2", "numbers", "three digits")),
}
