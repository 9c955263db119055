"""`make oracle`: all we compute against the reference's own libraries, bit for bit.

`python -m testing.oracles [PART ...] [--only NAME ...]`, with the reference installed (CONTRIBUTING.md).
One line for each group of comparisons, a table at the end; the exit status is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.gguf import GGMLType
from testing.oracles import (
    compare_answers,
    compare_caches,
    compare_grammars,
    compare_models,
    compare_operations,
    compare_schemas,
    compare_sessions,
    compare_steps,
    compare_tokenizers,
    quantized_files,
)
from testing.oracles.comparison import Report
from testing.oracles.reference_server import require
from testing.server_process import ServerError

PARTS = ("operations", "steps", "caches", "tokenizers", "grammars", "schemas", "small", "models", "answers", "sessions")
"""Products and rows of each weight type, the steps between them, attention over each cache, tokenizers, grammars,
grammars of JSON schemas, small models, SmolLM2's logits, its answers, and what requests find of those before them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testing.oracles", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to compare, of {', '.join(PARTS)}; all if none")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only this weight type (Q4_K), cache (q8_0/f16), tokenizer (qwen2, or a GGUF file), "
        "small model (qwen3-yarn) or quantization (Q4_K_M)",
    )
    parser.add_argument(
        "--files",
        type=Path,
        default=quantized_files.FOLDER,
        metavar="FOLDER",
        help="where smol-Q4_K_M.gguf and the like are, or are made",
    )
    arguments = parser.parse_args()
    report = Report()
    try:
        print(f"reference: {require().identity()}")
        if "operations" in (arguments.parts or PARTS):
            compare_operations.compare(report, [GGMLType[name] for name in arguments.only])
        if "steps" in (arguments.parts or PARTS) and not arguments.only:
            compare_steps.compare(report)
        if "caches" in (arguments.parts or PARTS):
            compare_caches.compare(report, arguments.only)
        if "tokenizers" in (arguments.parts or PARTS):
            compare_tokenizers.compare(report, arguments.only)
        if "grammars" in (arguments.parts or PARTS):
            compare_grammars.compare(report, arguments.only)
        if "schemas" in (arguments.parts or PARTS) and not arguments.only:
            compare_schemas.compare(report)
        if "small" in (arguments.parts or PARTS):
            compare_models.compare_small(report, arguments.only)
        if "models" in (arguments.parts or PARTS):
            compare_models.compare(report, arguments.files, arguments.only)
        if "answers" in (arguments.parts or PARTS):
            compare_answers.compare(report, arguments.files, arguments.only)
        if "sessions" in (arguments.parts or PARTS):
            compare_sessions.compare(report, arguments.only)
    except ServerError as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    print(report.summary())
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
