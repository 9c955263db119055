"""The tokenizers against the reference's: every pre-tokenizer, SentencePiece, and small vocabularies with any keys."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.gguf import GGUFFile
from engine.pretokenizers import PRE_TOKENIZERS
from engine.tokenizer import Tokenizer
from testing.oracles import tokenizer_probes
from testing.oracles.comparison import Group, Report
from testing.oracles.record_tokenizers import COMMON, N_FIRST, N_SMALL, SENTENCEPIECE, metadata_of, write
from testing.oracles.reference_vocabulary import ReferenceVocabulary


def compare(report: Report, only: Sequence[str]) -> None:
    """Compares all of them, or the named: pre-tokenizers, `llama` for SentencePiece, or GGUF files."""
    names = [name for name in [*SENTENCEPIECE, *PRE_TOKENIZERS] if not only or name in only]
    names += [name for name in only if name.endswith(".gguf")]
    texts = tokenizer_probes.all_texts() if names else []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(name) if name.endswith(".gguf") else write(metadata_of(name), Path(folder))
            few = not only and name not in COMMON and name not in SENTENCEPIECE
            with report.group("tokens", path.stem if name.endswith(".gguf") else name, "-") as group:
                _compare(group, path, texts[:N_FIRST] if few else texts)
                _compare_decoding(group, path)
        if not only:
            with report.group("tokens", f"{N_SMALL} small vocabularies", "-") as group:
                for metadata in tokenizer_probes.small_vocabularies(N_SMALL):
                    _compare(group, write(metadata, Path(folder)), tokenizer_probes.small_texts(metadata))


def _opened(path: Path) -> Tokenizer:
    with GGUFFile.open(path) as file:
        return Tokenizer.from_gguf(file.metadata)


def _compare(group: Group, path: Path, texts: Sequence[str]) -> None:
    ours = _opened(path)
    with ReferenceVocabulary(path) as reference:
        attributes = [reference.attribute(token) for token in range(reference.n_vocab)]
        group.compare("attributes", ours.attributes, np.array(attributes, np.uint16))
        group.compare("ends", np.array(sorted(ours.eog)), np.array(reference.eog()))
        for text in texts:
            for special in (True, False):
                found, expected = (
                    np.array(tokenizer.encode(text, add_special=special, parse_special=special), np.int32)
                    for tokenizer in (ours, reference)
                )
                group.compare(f"{text!r}, special {special}", found, expected)


def _compare_decoding(group: Group, path: Path) -> None:
    with ReferenceVocabulary(path) as reference:
        if tokenizer_probes.decoding_digest(_opened(path)) != tokenizer_probes.decoding_digest(reference):
            group.fail("texts of tokens", "they differ")
