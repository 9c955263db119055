"""Ask the reference every request of `infill_shapes` and write its answers, reduced, to `records/infill_shapes.json`:
`python -m testing.oracles.record_infill`. Takes half a minute.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from testing.oracles.http_shapes import reduce
from testing.oracles.infill_shapes import EXCHANGES, SETUPS
from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.record_http import FLAGS, write_parts
from testing.oracles.reference_server import ReferenceError, ReferenceServer

RECORD = RECORDS / "infill_shapes.json"


def main() -> int:
    """The command; 2 when the reference cannot be asked."""
    header: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    try:
        for setup in SETUPS:
            with tempfile.TemporaryDirectory() as folder:
                model = setup.model().write(Path(folder) / "model.gguf")
                with ReferenceServer(model, *FLAGS, *setup.flags) as server:
                    parts[setup.name] = {exchange.name: reduce(exchange.send(server.client)) for exchange in EXCHANGES}
                header[setup.name] = {"sha256": sha256_of(model), "flags": server.flags, **server.identity}
    except ReferenceError as error:
        print(error, file=sys.stderr)
        return 2
    write_parts(RECORD, header, parts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
