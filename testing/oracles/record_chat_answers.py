"""Ask the reference every request of `chat_exchanges` and write its answers, reduced, to `records/chat_answers.json`:
`python -m testing.oracles.record_chat_answers MODEL.gguf`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from testing.oracles.chat_exchanges import (
    EXCHANGES,
    THINKING,
    THINKING_TEMPLATE,
    WRAPPED,
    WRAPPED_TEMPLATE,
    write_model,
)
from testing.oracles.record import RECORDS
from testing.oracles.record_http import record
from testing.server_process import ServerError

RECORD = RECORDS / "chat_answers.json"


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 when the reference cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_chat_answers", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    options = parser.parse_args(arguments)
    try:
        recorded = record(options.model, EXCHANGES)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "model.gguf"
            thinking = record(write_model(options.model, THINKING_TEMPLATE, target), THINKING)
            wrapped = record(write_model(options.model, WRAPPED_TEMPLATE, target), WRAPPED)
    except ServerError as error:
        print(f"record_chat_answers: {error}", file=sys.stderr)
        return 2
    parts = [f'"header": {json.dumps(recorded["header"])}']
    for name, part in (("answers", recorded), ("thinking", thinking), ("wrapped", wrapped)):
        lines = [
            f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in part["answers"].items()
        ]
        parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    RECORD.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes, {len(EXCHANGES) + len(THINKING) + len(WRAPPED)} answers")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
