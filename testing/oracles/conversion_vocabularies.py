"""Published vocabularies of byte pairs, pruned to what one text needs, with their numbers as they are.

`python -m testing.oracles.conversion_vocabularies FOLDER`, FOLDER the one of llama.cpp's `ggml-vocab-*.gguf`, makes the
record of them from these files and from SmolLM2. A pruned vocabulary keeps the letters of all bytes, its special
tokens, and of the merges those that are ever candidates for the text by which the converter knows a pre-tokenizer: on
that text it works as the whole one does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from engine.gguf import read_header
from registry.conversion.fast_tokenizer import FastTokenizer, letters_of_bytes, read_fast_tokenizer
from registry.conversion.known_pretokenizers import TEXT, pre_tokenizer_of
from registry.download import ensure
from testing.hf_models import added_token, tokenizer_json
from testing.oracles.record import RECORDS

RECORD: Final = RECORDS / "conversion_vocabularies.json"

_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST: Final = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_level(*, use_regex: bool = True) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _after(first: Mapping[str, Any], *, use_regex: bool = True) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [first, _byte_level(use_regex=use_regex)]}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


_BOS: Final = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [
        {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 1}},
        {"Sequence": {"id": "B", "type_id": 1}},
    ],
    "special_tokens": {
        "<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [128000], "tokens": ["<|begin_of_text|>"]}
    },
}

STEPS: Final[Mapping[str, Mapping[str, Any]]] = {
    "smollm": {"pre_tokenizer": _after({"type": "Digits", "individual_digits": True})},
    "qwen2": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": _after(_split(_CONTRACTIONS + r"\p{N}" + _REST), use_regex=False),
        "post_processor": _byte_level(use_regex=False),
    },
    "llama-bpe": {
        "pre_tokenizer": _after(_split(_CONTRACTIONS + r"\p{N}{1,3}" + _REST), use_regex=False),
        "post_processor": {"type": "Sequence", "processors": [_byte_level(), _BOS]},
        "ignore_merges": True,
    },
    "gpt-2": {"pre_tokenizer": _byte_level(), "post_processor": _byte_level()},
    "starcoder": {
        "pre_tokenizer": _after({"type": "Digits", "individual_digits": True}),
        "post_processor": _byte_level(),
    },
}
"""Pre-tokenizer -> the steps of the published tokenizer.json."""

SPECIAL: Final = 3


def tokenizer(name: str, **steps: Any) -> Any:
    """The tokenizer.json of a pruned vocabulary; `steps` come on top."""
    record = _records()[name]
    added = [added_token(record["vocabulary"][text], text) for text in record["special"]]
    merges = steps.pop("merges", record["merges"])
    return tokenizer_json(record["vocabulary"], merges, added, **{**STEPS[name], **steps})


def n_vocab(name: str) -> int:
    """Tokens of the whole vocabulary."""
    count: int = _records()[name]["n_vocab"]
    return count


@cache
def _records() -> Any:
    return json.loads(RECORD.read_text())


def _pruned(path: Path, name: str) -> dict[str, Any]:
    keys = read_header(path).metadata
    texts, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    numbers = {text: number for number, text in enumerate(texts)}
    merges = [merge for merge in keys["tokenizer.ggml.merges"] if _joined(merge) in numbers]
    special = [text for text, kind in zip(texts, types, strict=True) if kind == SPECIAL][:8]
    added = [added_token(numbers[text], text) for text in special]
    whole = read_fast_tokenizer(tokenizer_json(numbers, merges, added, **STEPS[name]))
    made = whole.encode(TEXT)
    assert pre_tokenizer_of(made) == name, f"{path} makes other tokens than {name}"
    seen = _candidates(whole)
    kept = {*letters_of_bytes(), *special, *(texts[number] for number in made)}
    kept |= {part for pair in seen for part in (*pair, "".join(pair))}
    return {
        "n_vocab": len(texts),
        "vocabulary": {text: numbers[text] for text in texts if text in kept},
        "merges": [" ".join(pair) for pair in sorted(seen, key=lambda pair: whole.merges[pair])],
        "special": special,
    }


def _joined(merge: str) -> str:
    return merge.replace(" ", "", 1)


class _Watched(dict[tuple[str, str], int]):
    """Merges that remember which of them were looked up and found."""

    def __init__(self, merges: Mapping[tuple[str, str], int]) -> None:
        super().__init__(merges)
        self.seen: set[tuple[str, str]] = set()

    def get(self, pair: Any, default: Any = None) -> Any:
        if pair in self:
            self.seen.add(pair)
        return super().get(pair, default)


def _candidates(whole: FastTokenizer) -> set[tuple[str, str]]:
    watched = _Watched(whole.merges)
    replace(whole, merges=watched).encode(TEXT)
    return watched.seen


def main() -> int:
    folder = Path(sys.argv[1])
    paths = {name: folder / f"ggml-vocab-{name}.gguf" for name in STEPS if name != "smollm"}
    paths["smollm"], _ = ensure()
    records = {name: _pruned(paths[name], name) for name in STEPS}
    RECORD.write_text(json.dumps(records, ensure_ascii=False, separators=(",", ":")) + "\n")
    for name, record in records.items():
        print(f"{name}: {len(record['vocabulary'])} of {record['n_vocab']} tokens, {len(record['merges'])} merges")
    return 0


if __name__ == "__main__":
    sys.exit(main())
