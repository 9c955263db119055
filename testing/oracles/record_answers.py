"""Ask the reference for drawn answers of small models, one of every weight type and architecture.

`python -m testing.oracles.record_answers`, with the reference installed. Every model is served by llama-server once;
`records/answers.json` gets, for each request of `REQUESTS`, the tokens, and where they are asked for a hash of the
most likely tokens' floats.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testing.oracles.answer_cases import REQUESTS, float_hash, request
from testing.oracles.record import sha256_of
from testing.oracles.reference_server import ReferenceServer, require
from testing.oracles.small_models import MODELS, SmallModel
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "answers.json"


def ask(server: ReferenceServer, options: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one request."""
    answer = server.client.post("/completion", json={**request(options), "return_tokens": True}).json()
    if "error" in answer:
        return {"error": answer["error"]["message"].removeprefix("got exception: ")}
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
