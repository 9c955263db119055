"""`make oracle`: all we compute against the reference's own libraries, bit for bit.

`python -m testing.oracles [operations|models ...] [--type Q4_K ...]`, with the reference installed (CONTRIBUTING.md).
One line for each group of comparisons, a table at the end; the exit status is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import sys

from engine.gguf import GGMLType
from testing.oracles import compare_operations
from testing.oracles.comparison import Report
from testing.oracles.reference_server import require
from testing.server_process import ServerError

PARTS = ("operations", "models")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testing.oracles", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to compare, of {', '.join(PARTS)}; all if none")
    parser.add_argument("--type", action="append", default=[], metavar="TYPE", help="only this weight type, as Q4_K")
    arguments = parser.parse_args()
    report = Report()
    try:
        print(f"reference: {require().identity()}")
        if "operations" in (arguments.parts or PARTS):
            compare_operations.compare(report, [GGMLType[name] for name in arguments.type])
    except ServerError as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    print(report.summary())
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
