"""Ask the reference for the prompts of `template_cases` and write `records/templates_smollm2.json`:
`python -m testing.oracles.record_templates MODEL.gguf`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_server import ReferenceServer
from testing.oracles.template_cases import BODIES
from testing.server_process import ServerError

RECORD = RECORDS / "templates_smollm2.json"


def record(model: Path) -> dict[str, Any]:
    """The prompts, by the names of their conversations.

    Raises:
        ServerError: no reference, another build, or it did not start.
    """
    with ReferenceServer(model) as server:
        props = server.get("/props")
        return {
            "header": {
                "model": {"file": model.name, "bytes": model.stat().st_size, "sha256": sha256_of(model)},
                "reference": {**server.identity, "flags": server.flags},
            },
            "chat_template": props["chat_template"],
            "chat_template_caps": props["chat_template_caps"],
            "prompts": {
                name: {"request": body, "prompt": server.post("/apply-template", body)["prompt"]}
                for name, body in BODIES.items()
            },
        }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_templates", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    arguments = parser.parse_args()
    try:
        recorded = record(arguments.model)
    except ServerError as error:
        print(f"record_templates: {error}", file=sys.stderr)
        return 2
    prompts = recorded.pop("prompts")
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items()]
    entries = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in prompts.items())
    lines.append(f'"prompts": {{\n{entries}\n}}')
    RECORD.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes, {len(prompts)} prompts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
