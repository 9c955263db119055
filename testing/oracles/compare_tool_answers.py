"""Compare answers with calls live, with templates of the reference's source archive:
`python -m testing.oracles.compare_tool_answers MODEL.gguf [TEMPLATE ...]`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from testing.oracles.chat_driver import source_archive
from testing.oracles.chat_exchanges import write_model
from testing.oracles.http_shapes import as_text, clients_fault, reduce
from testing.oracles.record_http import FLAGS
from testing.oracles.reference_server import ReferenceServer
from testing.oracles.tool_exchanges import PUBLISHED
from testing.server_process import BankmlServer, ServerError


def differences(model: Path, name: str) -> list[str]:
    """The exchanges of a template whose answers differ."""
    found = []
    with ReferenceServer(model, *FLAGS) as theirs, BankmlServer(model, "--cache-ram", "0", threads=2) as mine:
        for exchange in PUBLISHED[name]:
            wanted, answer = reduce(exchange.send(theirs.client)), reduce(exchange.send(mine.client))
            if as_text(answer) not in (as_text(wanted), as_text(clients_fault(wanted))):
                found.append(f"{name}: {exchange.name}")
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.compare_tool_answers", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("templates", nargs="*", metavar="TEMPLATE", default=list(PUBLISHED))
    options = parser.parse_args()
    found = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name in options.templates:
                source = (source_archive() / "models" / "templates" / name).read_text("utf-8")
                found += differences(write_model(options.model, source, Path(folder) / "model.gguf"), name)
    except ServerError as error:
        print(f"compare_tool_answers: {error}", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    print(f"{sum(len(PUBLISHED[name]) for name in options.templates)} answers, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
