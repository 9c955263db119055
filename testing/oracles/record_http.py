"""Ask the reference every request of `http_shapes` and write its answers, reduced, to `records/http_shapes.json`:
`python -m testing.oracles.record_http MODEL.gguf`. With `--sampling` before the model those of `sampling_shapes` to
`records/sampling_shapes.json`, with `--surface` those of `surface_shapes` to `records/surface_shapes.json`; with
`--sentencepiece` instead of a model those of `sentencepiece_shapes` to `records/sentencepiece_shapes.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from testing.oracles import sampling_shapes, sentencepiece_shapes, surface_shapes
from testing.oracles.http_shapes import EXCHANGES, Exchange, reduce
from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_server import ReferenceError, ReferenceServer

RECORD = RECORDS / "http_shapes.json"
SAMPLING_RECORD = RECORDS / "sampling_shapes.json"
SURFACE_RECORD = RECORDS / "surface_shapes.json"
SENTENCEPIECE_RECORD = RECORDS / "sentencepiece_shapes.json"
FLAGS = ("--no-webui", "--cache-ram", "0")
"""No prompts parked in memory, so that what is reused is what the slot holds."""


def record(model: Path, exchanges: Iterable[Exchange], *flags: str) -> dict[str, Any]:
    """The answers to the exchanges, by their names, of a reference that has these flags too.

    Raises:
        ReferenceError: no reference, another build, or it did not start.
    """
    with ReferenceServer(model, *FLAGS, *flags) as server:
        answers = {exchange.name: reduce(exchange.send(server.client)) for exchange in exchanges}
        identity = {**server.identity, "flags": server.flags}
    header = {"model": {"sha256": sha256_of(model), "bytes": model.stat().st_size}, "reference": identity}
    return {"header": header, "answers": answers}


def write_parts(target: Path, header: dict[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a record of several parts, an answer a line."""
    written = [f'"header": {json.dumps(header)}']
    for name, answers in parts.items():
        lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in answers.items()]
        written.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    target.write_text("{" + ",\n".join(written) + "}\n", encoding="utf-8")
    print(f"{target}: {target.stat().st_size} bytes, {sum(map(len, parts.values()))} answers")


def _topic(options: argparse.Namespace) -> tuple[Path, Iterable[Exchange], Iterable[str]]:
    """Where to write, what to ask, and the server's flags."""
    if options.sampling:
        return SAMPLING_RECORD, sampling_shapes.EXCHANGES, ()
    if options.surface:
        return SURFACE_RECORD, surface_shapes.EXCHANGES, surface_shapes.FLAGS
    return RECORD, EXCHANGES, ()


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 when the reference cannot be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("model", nargs="?", type=Path, help="the GGUF file to record with")
    what.add_argument("--sentencepiece", action="store_true", help="record with the small SentencePiece model")
    topic = parser.add_mutually_exclusive_group()
    topic.add_argument("--sampling", action="store_true", help="what is asked about sampling")
    topic.add_argument("--surface", action="store_true", help="the rest of what is asked")
    options = parser.parse_args(arguments)
    target, exchanges, flags = _topic(options)
    try:
        if options.sentencepiece:
            target = SENTENCEPIECE_RECORD
            with tempfile.TemporaryDirectory() as folder:
                model = sentencepiece_shapes.model().write(Path(folder) / "model.gguf")
                recorded = record(model, sentencepiece_shapes.EXCHANGES)
        else:
            recorded = record(options.model, exchanges, *flags)
    except ReferenceError as error:
        print(error, file=sys.stderr)
        return 2
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in recorded["answers"].items()]
    header = json.dumps(recorded["header"])
    target.write_text(f'{{"header": {header},\n"answers": {{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    print(f"{len(lines)} answers in {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
