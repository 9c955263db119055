"""Ask the reference every request of `http_shapes` and write its answers, reduced, to `records/http_shapes.json`:
`python -m testing.oracles.record_http MODEL.gguf`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from testing.oracles.http_shapes import EXCHANGES, reduce
from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_server import ReferenceError, ReferenceServer

RECORD = RECORDS / "http_shapes.json"
FLAGS = ("--no-webui", "--cache-ram", "0")
"""No prompts parked in memory, so that what is reused is what the slot holds."""


def record(model: Path) -> dict[str, Any]:
    """The reference's answers to every exchange, by its name.

    Raises:
        ReferenceError: no reference, another build, or it did not start.
    """
    with ReferenceServer(model, *FLAGS) as server:
        answers = {exchange.name: reduce(exchange.send(server.client)) for exchange in EXCHANGES}
        identity = {**server.identity, "flags": server.flags}
    header = {"model": {"sha256": sha256_of(model), "bytes": model.stat().st_size}, "reference": identity}
    return {"header": header, "answers": answers}


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 when the reference cannot be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="the GGUF file to record with")
    options = parser.parse_args(arguments)
    try:
        recorded = record(options.model)
    except ReferenceError as error:
        print(error, file=sys.stderr)
        return 2
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in recorded["answers"].items()]
    header = json.dumps(recorded["header"])
    RECORD.write_text(f'{{"header": {header},\n"answers": {{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    print(f"{len(lines)} answers in {RECORD}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
