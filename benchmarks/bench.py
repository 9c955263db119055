"""`make bench`: bankml and llama-server in turn, the same requests at the same `-t`, medians and ratios.

Each round starts one server, measures it and stops it before the next one starts; the order turns round each time.
Without the reference (see CONTRIBUTING.md) bankml is measured alone. Last comes what sampling takes of a token of ours.
Quiet the machine first: absolute figures move with it, only the ratio of one run counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import report, sampling
from benchmarks.measure import Round, measure
from registry.download import ensure
from testing.oracles.reference_server import Reference, ReferenceServer, find
from testing.server_process import BankmlServer, ServerError, ServerProcess

OURS, REFERENCE = "bankml", "llama-server"


class Samples:
    """All rounds of one server."""

    def __init__(self) -> None:
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self.answers: dict[str, list[int]] = {}
        self.warnings: list[str] = []

    def add(self, found: Round) -> None:
        """Take in a round."""
        for key, value in found.values.items():
            self.values[key].append(value)
        self.answers.update(found.answers)
        self.warnings += found.warnings


def server(name: str, arguments: argparse.Namespace, reference: Reference | None) -> ServerProcess:
    """A server that is not started yet; the reference's threads wait as they do by default."""
    if name == OURS:
        return BankmlServer(arguments.model, threads=arguments.threads)
    return ReferenceServer(arguments.model, threads=arguments.threads, reference=reference, environment={})


def run(arguments: argparse.Namespace, reference: Reference | None) -> dict[str, Samples]:
    """All rounds; progress goes to stderr."""
    names = [OURS] if reference is None else [OURS, REFERENCE]
    samples = {name: Samples() for name in names}
    for number in range(arguments.rounds):
        for name in names if number % 2 == 0 else reversed(names):
            print(f"round {number + 1} of {arguments.rounds}: {name}", file=sys.stderr, flush=True)
            samples[name].add(measure(server(name, arguments, reference), quick=arguments.quick))
    return samples


def cpu_name() -> str:
    """The processor's name, as Linux gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def summary(arguments: argparse.Namespace, samples: dict[str, Samples]) -> str:
    """What is printed: what ran, the table, and what makes it doubtful."""
    theirs = samples.get(REFERENCE)
    lines = [
        f"{arguments.model.name}, -t {arguments.threads}, {arguments.rounds} rounds, medians (range); "
        f"{cpu_name()}, {os.cpu_count()} CPUs",
        "",
        report.table(samples[OURS].values, None if theirs is None else theirs.values),
        "",
    ]
    if theirs is None:
        lines.append("The reference llama-server is not installed: bankml was measured alone.")
    else:
        equal = samples[OURS].answers == theirs.answers
        lines.append(f"Greedy tokens of both servers are {'equal' if equal else 'NOT equal'}.")
    lines += [f"Warning, {name}: {text}" for name, found in samples.items() for text in found.warnings]
    return "\n".join(lines)


def as_json(
    arguments: argparse.Namespace, samples: dict[str, Samples], shares: dict[str, sampling.Share]
) -> dict[str, Any]:
    """Everything measured, for `--json`."""
    return {
        "model": arguments.model.name,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "cpu": cpu_name(),
        "samples": {name: found.values for name, found in samples.items()},
        "warnings": {name: found.warnings for name, found in samples.items()},
        "sampling": {label: asdict(share) for label, share in shares.items()},
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each server is measured (3)")
    parser.add_argument("--threads", type=int, default=2, help="-t of both servers (2)")
    parser.add_argument("--model", type=Path, help="GGUF file (default: the default model, fetched once)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every sample here")
    parser.add_argument("--quick", action="store_true", help="one round, short prompts only")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 1
    if arguments.rounds < 1 or arguments.threads < 1:
        parser.error("--rounds and --threads must be at least 1")
    if arguments.model is None:
        arguments.model, _ = ensure()
    try:
        samples = run(arguments, find())
    except ServerError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    shares = sampling.measure(arguments.model, threads=arguments.threads, n_tokens=32 if arguments.quick else 200)
    print(summary(arguments, samples), sampling.table(shares), sep="\n\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(arguments, samples, shares), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
