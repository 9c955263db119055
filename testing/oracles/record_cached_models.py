"""Write down the real model's logits for each type of the KV cache: `python -m testing.oracles.record_cached_models F`.

`records/cached_models.json` gets a hash of the logits after each step of a session: prompts short and long, tokens one
by one, and prompts that start where an earlier one is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.model import Model, ModelOptions
from engine.tokenizer import Tokenizer
from testing.oracles.operation_cases import digest
from testing.oracles.prompts import passage
from testing.oracles.record import sha256_of
from testing.oracles.reference_model import Oracle
from testing.oracles.reference_server import require
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "cached_models.json"
N_CTX = 2048
N_TOKENS = 1600

SHORT = ((0, 1), (0, 5), (5, 1))
PLAIN = (*SHORT, (0, 65), (65, 1), (40, 3))
USUAL = ((0, 1), (0, 2), (2, 1), (0, 5), (0, 63), (63, 1), (0, 64), (64, 1), (0, 65), (40, 9), (0, 513), (513, 1))
LONG = (*USUAL, (0, 300), (300, 1), (301, 1), (250, 450), (700, 1), (701, 799), (1500, 1))


@dataclass(frozen=True, slots=True)
class Run:
    """A session with a model: types of keys and values, threads, and the steps as (position, tokens)."""

    cache_type_k: str
    cache_type_v: str
    n_threads: int
    steps: Sequence[tuple[int, int]]

    @property
    def name(self) -> str:
        """How a record calls it."""
        return f"{self.cache_type_k}/{self.cache_type_v}-t{self.n_threads}-{len(self.steps)}"

    def prompts(self, tokenizer: Tokenizer) -> Iterator[tuple[int, list[int]]]:
        """Each step's position and tokens; no tokens come twice at the same place."""
        tokens = tokenizer.encode(" ".join(islice(passage(), N_TOKENS // 8)))[:N_TOKENS]
        for i, (position, n) in enumerate(self.steps):
            start = (position + 61 * i) % N_TOKENS
            yield position, (tokens[start:] + tokens)[:n]


RUNS = (
    *(Run(kind, kind, 2, LONG) for kind in ("q8_0", "f16")),
    *(Run(kind, kind, n_threads, USUAL) for kind in ("q8_0", "f16") for n_threads in (1, 3)),
    *(Run(k, v, 2, USUAL) for k, v in (("q8_0", "f16"), ("f16", "q8_0"))),
)
PLAIN_RUNS = (Run("q8_0", "q8_0", 2, PLAIN), *(Run(k, v, 2, SHORT) for k, v in (("q8_0", "f16"), ("f16", "q8_0"))))
"""Short enough for plain C."""


def logits(model: Model, run: Run) -> Iterator[npt.NDArray[np.float32]]:
    """Our logits after each step, micro-batch by micro-batch as the engine cuts a prompt."""
    n_ubatch = model.options.n_ubatch
    for position, tokens in run.prompts(model.tokenizer):
        for start in range(0, len(tokens), n_ubatch):
            part = tokens[start : start + n_ubatch]
            model.evaluate(part, position + start, output=start + len(part) == len(tokens))
        yield model.logits


def reference(path: Path, run: Run, tokenizer: Tokenizer) -> Iterator[npt.NDArray[np.float32]]:
    """The reference's."""
    k, v = run.cache_type_k, run.cache_type_v
    with Oracle(path, N_CTX, run.n_threads, cache_type_k=k, cache_type_v=v) as oracle:
        for position, tokens in run.prompts(tokenizer):
            yield oracle.prompt(tokens, position)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_cached_models", description=__doc__)
    parser.add_argument("model", type=Path)
    path = parser.parse_args().model
    model = Model.open(path, ModelOptions(n_ctx=256))
    try:
        runs = {
            run.name: [digest(row) for row in reference(path, run, model.tokenizer)] for run in (*RUNS, *PLAIN_RUNS)
        }
        made = {"reference": require().identity(), "model": {"sha256": sha256_of(path)}, "runs": runs}
    except ServerError as error:
        print(f"record_cached_models: {error}", file=sys.stderr)
        return 2
    RECORD.write_text(json.dumps(made, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
