"""Ask the reference every request of `tool_exchanges` and write its answers, reduced, to `records/tool_answers.json`:
`python -m testing.oracles.record_tool_answers MODEL.gguf`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from testing.oracles.chat_exchanges import write_model
from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.record_http import record, write_parts
from testing.oracles.tool_exchanges import SOURCES, TOOL_EXCHANGES
from testing.server_process import ServerError

RECORD = RECORDS / "tool_answers.json"


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 when the reference cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_tool_answers", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    options = parser.parse_args(arguments)
    parts = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, source in SOURCES.items():
                model = write_model(options.model, source, Path(folder) / "model.gguf")
                recorded = record(model, TOOL_EXCHANGES[name])
                parts[name] = recorded["answers"]
    except ServerError as error:
        print(f"record_tool_answers: {error}", file=sys.stderr)
        return 2
    model_header = {"sha256": sha256_of(options.model), "bytes": options.model.stat().st_size}
    write_parts(RECORD, {**recorded["header"], "model": model_header}, parts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
