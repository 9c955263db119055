"""Write down the reference's attention over every type of the KV cache: `python -m testing.oracles.record_caches`.

`records/caches.json` gets, for each session of `cache_cases`, a hash of each step's result. The inputs are made of
a seed wherever the record is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from testing.oracles.cache_cases import SESSIONS
from testing.oracles.compare_caches import reference
from testing.oracles.operation_cases import digest
from testing.oracles.reference_server import require
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "caches.json"


def main() -> int:
    try:
        identity = require().identity()
        steps = {session.name: [digest(rows) for rows in reference(session)] for session in SESSIONS}
    except ServerError as error:
        print(f"record_caches: {error}", file=sys.stderr)
        return 2
    made = {"reference": identity, "sessions": steps}
    RECORD.write_text(json.dumps(made, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
