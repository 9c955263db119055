"""Ask the reference for the grammars of `schema_cases` and write `records/schemas.json`:
`python -m testing.oracles.record_schemas MODEL.gguf`.

The grammar, or the refusal, is what the reference's converter says (`reference_schemas`). Each schema then goes to
llama-server's `/completion`, too: where it makes another grammar the recorder stops, and what it says instead of a
grammar is recorded as `server`, the status and the message; null where the request ends the process, or takes longer
than anybody waits. Of random schemas only digests are recorded.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_schemas import ENDED, Answer, ReferenceSchemas
from testing.oracles.reference_server import ReferenceError, ReferenceServer
from testing.oracles.schema_cases import SCHEMAS
from testing.oracles.schema_fuzz import digest_of, random_schemas
from testing.server_process import ServerError

RECORD = RECORDS / "schemas.json"
SEED, N_RANDOM = 11192, 400
_SECONDS = 10.0  # one token takes a hundredth of one; a grammar that explodes has not ended in minutes


def record(model: Path) -> dict[str, Any]:
    """A header, and for each group of schemas what the reference makes of each.

    Raises:
        ServerError: no reference, another build, or it did not start; or server and converter differ.
    """
    reference = ReferenceSchemas()
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, schemas in SCHEMAS.items():
        answers = reference.answers([schema.encode() for schema in schemas])
        groups[group] = []
        for schema, answer, server in zip(schemas, answers, _served(model, schemas), strict=True):
            entry: dict[str, Any] = {"schema": schema}
            if answer.grammar is None:
                entry["error"] = answer.error
            else:
                entry["grammar"] = answer.grammar.decode("utf-8", "surrogateescape")
            if isinstance(server, str):
                _check(entry, server)
            else:
                entry["server"] = server
            groups[group].append(entry)
    return {
        "header": {
            "model": {"file": model.name, "bytes": model.stat().st_size, "sha256": sha256_of(model)},
            "reference": reference.identity,
        },
        "random": {
            kind: {"schemas": digest_of(schemas), "answers": digest_of(map(answer_text, reference.answers(schemas)))}
            for kind, schemas in random_schemas(SEED, N_RANDOM).items()
        },
        **groups,
    }


def answer_text(answer: Answer) -> bytes:
    """An answer as the digests take it: the grammar or the refusal; nothing where the reference's process ends."""
    if answer.grammar is not None:
        return answer.grammar
    return b"" if answer.error.startswith(ENDED) else answer.error.encode()


def _check(entry: dict[str, Any], grammar: str) -> None:
    """An empty schema is the one that the server changes first."""
    if entry["schema"] != "{}" and entry.get("grammar") != grammar:
        raise ReferenceError(f"the server makes another grammar of {entry['schema']}: {grammar}")


def _served(model: Path, schemas: Sequence[str]) -> Iterator[str | list[Any] | None]:
    """For each schema the server's grammar, or its status and message, or None where there is no answer."""
    waiting = list(reversed(schemas))
    while waiting:
        with ReferenceServer(model) as server:
            while waiting:
                body = f'{{"prompt": "x", "n_predict": 0, "json_schema": {waiting.pop()}}}'
                try:
                    answer = server.client.post("/completion", content=body, timeout=_SECONDS)
                except (httpx.RemoteProtocolError, httpx.ReadTimeout):
                    yield None
                    break
                data = answer.json()
                if answer.status_code == 200:
                    yield str(data["generation_settings"]["grammar"])
                else:
                    yield [answer.status_code, data["error"]["message"]]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_schemas", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    arguments = parser.parse_args()
    try:
        recorded = record(arguments.model)
    except ServerError as error:
        print(f"record_schemas: {error}", file=sys.stderr)
        return 2
    lines = [f'"{key}": {json.dumps(recorded.pop(key))}' for key in ("header", "random")]
    for group, entries in recorded.items():
        texts = ",\n".join(json.dumps(entry) for entry in entries)
        lines.append(f'"{group}": [\n{texts}\n]')
    RECORD.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes, {sum(map(len, recorded.values()))} schemas")
    return 0


if __name__ == "__main__":
    sys.exit(main())
