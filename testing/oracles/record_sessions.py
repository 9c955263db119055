"""Ask the reference what it reuses when requests follow each other: `python -m testing.oracles.record_sessions MODEL`.

Each session of `session_cases` is asked of a server of its own; `records/sessions.json` gets what it said to each step:
tokens, how many of the prompt were in the slot already, counts of the slot's actions, statuses.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_server import ReferenceServer
from testing.oracles.session_cases import SESSIONS, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model
    lines = []
    identity = {}
    for name, session in SESSIONS.items():
        folder = tempfile.TemporaryDirectory()
        with folder, ReferenceServer(model, *session.flags, "--slot-save-path", folder.name) as server:
            answers = [json.dumps(answer, separators=(",", ":")) for answer in run(session, server)]
            identity = server.identity
        lines.append(f"{json.dumps(name)}: [\n" + ",\n".join(answers) + "\n]")
    header = json.dumps({**identity, "flags": ["-t", "2", "-np", "1", "--jinja"], "model_sha256": sha256_of(model)})
    text = '{"header": ' + header + ',\n"sessions": {\n' + ",\n".join(lines) + "\n}}\n"
    (RECORDS / "sessions.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
