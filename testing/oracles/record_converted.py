"""Ask the reference every request of `converted_exchanges` and write its answers, reduced, to `records/converted.json`:
`python -m testing.oracles.record_converted MODEL.gguf`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from testing.oracles.chat_exchanges import THINKING_TEMPLATE, write_model
from testing.oracles.converted_exchanges import CALLING, CALLING_TEMPLATE, EXCHANGES, THINKING
from testing.oracles.record import RECORDS
from testing.oracles.record_http import record, write_parts
from testing.server_process import ServerError

RECORD = RECORDS / "converted.json"


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 when the reference cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_converted", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    options = parser.parse_args(arguments)
    try:
        recorded = record(options.model, EXCHANGES)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "model.gguf"
            thinking = record(write_model(options.model, THINKING_TEMPLATE, target), THINKING)
            calling = record(write_model(options.model, CALLING_TEMPLATE, target), CALLING)
    except ServerError as error:
        print(f"record_converted: {error}", file=sys.stderr)
        return 2
    parts = {"answers": recorded, "thinking": thinking, "calling": calling}
    write_parts(RECORD, recorded["header"], {name: part["answers"] for name, part in parts.items()})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
