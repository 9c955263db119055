"""Ask the reference for drawn answers of small models, one of every weight type and architecture.

`python -m testing.oracles.record_answers`, with the reference installed. Every model is served by llama-server once;
`records/answers.json` gets, for each request of `REQUESTS`, the tokens, and where they are asked for a hash of the
most likely tokens' floats.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from testing.oracles.constrained_cases import JSON, PERSON
from testing.oracles.record import sha256_of
from testing.oracles.reference_server import ReferenceServer, require
from testing.oracles.small_models import MODELS, SmallModel
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "answers.json"
_PROMPT: Final = "What is it that you said the other day, and to whom?"
REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "greedy": {"temperature": 0},
    "default": {"seed": 1},
    "whole row": {"seed": 2, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.3},
    "every sampler": {
        "seed": 3,
        "repeat_penalty": 1.2,
        "presence_penalty": 0.3,
        "dry_multiplier": 0.8,
        "dry_allowed_length": 1,
        "top_n_sigma": 2.0,
        "top_k": 50,
        "typical_p": 0.9,
        "top_p": 0.9,
        "min_p": 0.02,
        "xtc_probability": 0.4,
        "xtc_threshold": 0.05,
        "dynatemp_range": 0.4,
        "temperature": 1.2,
        "min_keep": 2,
    },
    "order": {"seed": 4, "samplers": ["temperature", "top_p", "min_p"], "temperature": 1.5},
    "mirostat": {"seed": 5, "mirostat": 1},
    "mirostat 2": {"seed": 6, "mirostat": 2},
    "adaptive-p": {"seed": 7, "samplers": "kma", "adaptive_target": 0.5},
    "bias": {"seed": 8, "logit_bias": [[100, 3.0], ["e", False]], "ignore_eos": True},
    "probabilities": {"seed": 9, "n_probs": 5},
    "probabilities after": {"seed": 10, "n_probs": 5, "post_sampling_probs": True},
    "grammar": {"grammar": JSON, "temperature": 0},
    "grammar, drawn": {"grammar": JSON, "seed": 11, "temperature": 1.1},
    "grammar, characters": {"grammar": "root ::= [\u00e0-\u04ff]+ [^\\x00-\\x7f]+", "seed": 12, "n_probs": 3},
    "schema": {"json_schema": PERSON, "seed": 13},
    "lazy": {
        "grammar": 'root ::= [a-z] [a-z ]+ "."',
        "grammar_lazy": True,
        "seed": 14,
        "temperature": 1.2,
        "grammar_triggers": [{"type": 2, "value": "[a-z]"}],
    },
}


def request(options: Mapping[str, Any]) -> dict[str, Any]:
    """The whole request."""
    return {"prompt": _PROMPT, "n_predict": 24, "cache_prompt": False, **options}


def float_hash(best: Iterable[Iterable[tuple[int, float]]]) -> str:
    """A hash of the most likely tokens of each step with their 32-bit floats."""
    data = b"".join(struct.pack("<if", token, value) for step in best for token, value in step)
    return hashlib.sha256(data).hexdigest()[:16]


def ask(server: ReferenceServer, options: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one request."""
    answer = server.post("/completion", {**request(options), "return_tokens": True})
    record = {"tokens": answer["tokens"], "stop_type": answer["stop_type"]}
    if "n_probs" in options:
        after = options.get("post_sampling_probs", False)
        best, value = ("top_probs", "prob") if after else ("top_logprobs", "logprob")
        steps = answer["completion_probabilities"]
        record["best"] = float_hash([(one["id"], one[value]) for one in step[best]] for step in steps)
    return record


def record(model: SmallModel, folder: Path) -> dict[str, Any]:
    """What the record holds of a model."""
    path = model.file().write(folder / f"{model.name}.gguf")
    with ReferenceServer(path) as server:
        answers = {name: ask(server, options) for name, options in REQUESTS.items()}
    return {"sha256": sha256_of(path), "answers": answers}


def main() -> int:
    """The command."""
    lines = []
    try:
        lines.append(f'"reference":{json.dumps(require().identity())}')
        with tempfile.TemporaryDirectory() as folder:
            for model in MODELS:
                entry = json.dumps(record(model, Path(folder)), separators=(",", ":"))
                lines.append(f'"{model.name}":{entry}')
                print(model.name, flush=True)
    except ServerError as error:
        print(f"record_answers: {error}", file=sys.stderr)
        return 2
    RECORD.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
