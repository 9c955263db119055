"""Ask the reference's library how it tokenizes with the vocabularies of `vocabularies`, and write
`records/tokenizers.json`: `python -m testing.oracles.record_tokenizers`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from engine.pretokenizers import PRE_TOKENIZERS
from testing.gguf_writer import ModelFile
from testing.oracles import tokenizer_probes, vocabularies
from testing.oracles.record import RECORDS
from testing.oracles.reference_server import require
from testing.oracles.reference_vocabulary import ReferenceVocabulary
from testing.server_process import ServerError

RECORD: Final = RECORDS / "tokenizers.json"
N_SMALL: Final = 400
N_FIRST: Final = 6 * tokenizer_probes.CHUNK
COMMON: Final = (
    *("smollm", "qwen2", "llama-bpe", "gpt-2", "deepseek-llm", "deepseek-coder", "starcoder", "refact", "command-r"),
    *("qwen35", "llama"),
)
SENTENCEPIECE: Final[dict[str, dict[str, Any]]] = {
    "llama": {},
    "llama, no space before": {"add_space_prefix": False},
    "llama, both ends": {"add_bos_token": False, "add_eos_token": True},
}
"""The variants of the SentencePiece vocabulary: their name, their keys."""


def metadata_of(name: str) -> dict[str, Any]:
    """The keys of the vocabulary recorded under a name: that of a pre-tokenizer, or of `SENTENCEPIECE`."""
    if name in SENTENCEPIECE:
        return vocabularies.sentencepiece(**SENTENCEPIECE[name])
    return vocabularies.byte_level(name)


def write(metadata: dict[str, Any], folder: Path) -> Path:
    """A file that holds nothing but a vocabulary."""
    return ModelFile({"general.architecture": "llama", **metadata}, {}).write(folder / "vocabulary.gguf")


def described(vocabulary: ReferenceVocabulary) -> dict[str, Any]:
    """What the reference derives from a file's keys."""
    return {"roles": vocabulary.roles(), "flags": vocabulary.flags(), "eog": vocabulary.eog()}


def record(folder: Path) -> dict[str, Any]:
    """The whole record. Names that encode alike share one list of digests; what the first texts have in common with
    those of another name, all have, unless it is a name that many files have: those are asked for all texts.

    Raises:
        ServerError: no reference, another build, or it refuses a vocabulary.
    """
    texts = tokenizer_probes.all_texts()
    names: dict[str, Any] = {}
    encodings: dict[str, list[str]] = {}
    for name in [*SENTENCEPIECE, *PRE_TOKENIZERS]:
        with ReferenceVocabulary(write(metadata_of(name), folder)) as vocabulary:
            asked = tokenizer_probes.encoding_digests(vocabulary, texts if name in COMMON else texts[:N_FIRST])
            same = next((other for other, known in encodings.items() if known[: len(asked)] == asked), name)
            if same == name:
                encodings[name] = asked if name in COMMON else tokenizer_probes.encoding_digests(vocabulary, texts)
            decoded = tokenizer_probes.decoding_digest(vocabulary)
            names[name] = {"encoding": same, "decoding": decoded, **described(vocabulary)}
        print(name, "as", same, flush=True)
    small = []
    for metadata in tokenizer_probes.small_vocabularies(N_SMALL):
        with ReferenceVocabulary(write(metadata, folder)) as vocabulary:
            attributes = [vocabulary.attribute(token) for token in range(vocabulary.n_vocab)]
            small.append(tokenizer_probes.small_digest(vocabulary, metadata, described(vocabulary), attributes))
    return {
        "header": {"reference": require().identity()},
        "texts": tokenizer_probes.digest_of(text.encode() for text in texts),
        "small": small,
        "names": names,
        "encodings": encodings,
    }


def main() -> int:
    """The command."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            recorded = record(Path(folder))
    except ServerError as error:
        print(f"record_tokenizers: {error}", file=sys.stderr)
        return 2
    lines = []
    for key, value in recorded.items():
        if isinstance(value, dict):
            entries = ",\n".join(f"{json.dumps(name)}:{json.dumps(entry)}" for name, entry in value.items())
            lines.append(f'"{key}":{{\n{entries}\n}}')
        else:
            lines.append(f'"{key}":{json.dumps(value)}')
    RECORD.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes, {len(recorded['names'])} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
