"""Records of one model under several chat templates: its own, and those that show what it has no place for."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from testing.oracles.chat_exchanges import write_model
from testing.oracles.http_shapes import Exchange
from testing.oracles.record_http import record, write_parts
from testing.server_process import ServerError

Templated = tuple[str, Iterable[Exchange]]
"""A template, and what is asked of the model that has it."""


def record_templates(
    description: str | None, target: Path, exchanges: Iterable[Exchange], parts: Mapping[str, Templated]
) -> int:
    """A recorder's command: the model's own template as the part `answers`, then the others by their names.

    Returns:
        the exit status; 2 when the reference cannot be asked.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    model = parser.parse_args().model
    try:
        own = record(model, exchanges)
        found = {"answers": own["answers"]}
        with tempfile.TemporaryDirectory() as folder:
            for name, (template, asked) in parts.items():
                found[name] = record(write_model(model, template, Path(folder) / "model.gguf"), asked)["answers"]
    except ServerError as error:
        print(f"the reference cannot be asked: {error}", file=sys.stderr)
        return 2
    write_parts(target, own["header"], found)
    return 0
