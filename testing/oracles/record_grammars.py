"""Write down which tokens the reference's grammars let come next, along random answers.

`python -m testing.oracles.record_grammars`, with the reference installed. `records/grammars.json` gets, for each
vocabulary and each grammar of `grammar_cases`, nothing where the reference refuses the grammar, else a hash of the
allowed tokens and the token taken next, step by step.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.gguf import GGUFFile
from engine.kernels._kernels import GrammarMatcher
from engine.tokenizer import Tokenizer
from testing.oracles.compare_grammars import answers, lazy_cases, opened, triggers_of
from testing.oracles.grammar_cases import NONE, WRITTEN, random_grammars
from testing.oracles.record_tokenizers import metadata_of, write
from testing.oracles.reference_grammar import ReferenceGrammar
from testing.oracles.reference_server import require
from testing.oracles.reference_vocabulary import ReferenceVocabulary
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "grammars.json"
VOCABULARIES = ("smollm", "llama")
N_RANDOM = 150
TEXTS = (*WRITTEN, *NONE, *random_grammars(N_RANDOM, seed=5))


def digest(allowed: npt.NDArray[np.bool_]) -> str:
    """A hash of which tokens may come next."""
    return hashlib.sha256(np.packbits(allowed).tobytes()).hexdigest()[:12]


def record(name: str, folder: Path) -> dict[str, Any]:
    """What the record holds for a vocabulary."""
    path = write(metadata_of(name), folder)
    with GGUFFile.open(path) as file, ReferenceVocabulary(path) as vocabulary:
        ours = Tokenizer.from_gguf(file.metadata)
        eager = [_steps(ours, vocabulary, text) for text in TEXTS]
        lazy = [_lazy_steps(ours, vocabulary, *case) for case in lazy_cases(ours)]
    return {"eager": eager, "lazy": lazy}


def _steps(ours: Tokenizer, vocabulary: ReferenceVocabulary, text: str) -> list[list[Any]] | str | None:
    guard = opened(ours, text)
    if isinstance(guard, str):
        return guard
    reference = ReferenceGrammar.of(vocabulary, text)
    if reference is None or guard is None:
        assert reference is None, text
        assert guard is None, text
        return None
    steps = [[digest(allowed), token] for allowed, token in answers(reference, guard, ours, text)]
    reference.close()
    return steps


def _lazy_steps(
    ours: Tokenizer,
    vocabulary: ReferenceVocabulary,
    text: str,
    patterns: tuple[str, ...],
    tokens: tuple[int, ...],
    free: list[int],
) -> list[list[Any]]:
    reference = ReferenceGrammar.of(vocabulary, text, (patterns, tokens))
    guard = opened(ours, text, triggers_of(patterns, tokens))
    assert reference is not None
    assert isinstance(guard, GrammarMatcher)
    steps: list[list[Any]] = []
    for token in free:
        steps.append([digest(reference.allowed()), token])
        assert guard.accept(token)
        reference.accept(token)
    steps += [[digest(allowed), token] for allowed, token in answers(reference, guard, ours, text)]
    reference.close()
    return steps


def main() -> int:
    """The command."""
    try:
        identity = require().identity()
        with tempfile.TemporaryDirectory() as folder:
            recorded = {name: record(name, Path(folder)) for name in VOCABULARIES}
    except ServerError as error:
        print(f"record_grammars: {error}", file=sys.stderr)
        return 2
    lines = [f'"reference":{json.dumps(identity)}']
    for name, entry in recorded.items():
        for kind, cases in entry.items():
            body = ",\n".join(json.dumps(steps, separators=(",", ":")) for steps in cases)
            lines.append(f'"{name}, {kind}":[\n{body}\n]')
    RECORD.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    n_steps = sum(len(s) for e in recorded.values() for cases in e.values() for s in cases if isinstance(s, list))
    print(f"{RECORD}: {RECORD.stat().st_size} bytes, {n_steps} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
