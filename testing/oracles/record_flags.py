"""Start the reference with each of `flag_cases`' command lines and write down what came of it, to `records/flags.json`:
`python -m testing.oracles.record_flags`.

Of each start: `/props`' default settings, and the answers to a request that says nothing about sampling and to one that
does, once with a model that has no sampling defaults and once with one that has. Of what the reference refuses: its
exit code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testing.oracles.flag_cases import FLAGS, REFUSED, SHOWN, model_file, requests
from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_server import ReferenceError, ReferenceServer, require
from testing.server_process import ServerProcess, free_port

RECORD = RECORDS / "flags.json"
_SECONDS = 20


def asked(server: ServerProcess, flags: Sequence[str]) -> dict[str, Any]:
    """What a server says of its defaults, and what it answers."""
    answers = [server.post("/completion", request) for request in requests(flags)]
    return {
        "props": server.get("/props")["default_generation_settings"],
        "answers": [{name: answer[name] for name in SHOWN} for answer in answers],
    }


def refusal(model: Path, flags: Sequence[str]) -> int:
    """The reference's exit code.

    Raises:
        ReferenceError: it is still running after 20 seconds.
    """
    command = [str(require().server), "-m", str(model), "--port", str(free_port()), *flags]
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired as error:
        raise ReferenceError(f"the reference takes {' '.join(flags)}") from error


def main() -> int:
    """The command; 2 when the reference cannot be asked, or takes what it should refuse."""
    with tempfile.TemporaryDirectory() as folder:
        models = {own: model_file(own_defaults=own).write(Path(folder) / f"{own}.gguf") for own in (False, True)}
        starts = []
        try:
            for own, path in models.items():
                for flags in FLAGS:
                    with ReferenceServer(path, *flags) as server:
                        starts.append({"own_defaults": own, "flags": flags, **asked(server, flags)})
                        identity = server.identity
            refused = [{"flags": flags, "exit": refusal(models[False], flags)} for flags in REFUSED]
        except ReferenceError as error:
            print(error, file=sys.stderr)
            return 2
        sha256 = {str(own).lower(): sha256_of(path) for own, path in models.items()}
    header = {"reference": identity, "flags": "-t 2 -np 1 --jinja", "own_defaults_sha256": sha256}
    lines = {name: ",\n".join(map(json.dumps, rows)) for name, rows in (("starts", starts), ("refused", refused))}
    body = ",\n".join(f'"{name}": [\n{rows}\n]' for name, rows in lines.items())
    RECORD.write_text(f'{{"header": {json.dumps(header)},\n{body}}}\n', encoding="utf-8")
    print(f"{len(starts)} starts and {len(refused)} refusals in {RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
