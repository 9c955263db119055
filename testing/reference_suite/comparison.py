"""What two runs of the suite found, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testing.reference_suite.checks import all_held


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test found on one server.

    Attributes:
        skipped: why it did not run, None when it did.
        error: what ended it before its end, None when nothing did.
        checks: for each assertion's place, the different things it found.
    """

    skipped: str | None
    error: str | None
    checks: Mapping[str, list[str]]

    @property
    def passed(self) -> bool:
        """As the test was written: no error, and every assertion held."""
        return self.skipped is None and self.error is None and all_held(dict(self.checks))


def read(path: Path) -> dict[str, Outcome]:
    """The outcomes in a file, by the tests' names."""
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return {line["id"]: Outcome(line["skipped"], line["error"], line["checks"]) for line in lines}


def differences(theirs: Outcome, ours: Outcome) -> list[str]:
    """What ours found otherwise, a line each; none when the two are the same."""
    lines = []
    for name in ("skipped", "error"):
        there, here = getattr(theirs, name), getattr(ours, name)
        if there != here:
            lines.append(f"{name}: {there} there, {here} here")
    for place in dict.fromkeys((*theirs.checks, *ours.checks)):
        there, here = theirs.checks.get(place), ours.checks.get(place)
        if there != here:
            lines.append(f"{place}: {_shown(there)} there, {_shown(here)} here")
    return lines


def _shown(what: list[str] | None) -> str:
    return "not reached" if what is None else " and ".join(what)


def report(theirs: Mapping[str, Outcome], ours: Mapping[str, Outcome]) -> tuple[str, bool]:
    """The comparison for people, and whether every test came out the same."""
    lines = []
    passed = same = left_out = 0
    names = list(dict.fromkeys((*theirs, *ours)))
    for name in names:
        there, here = theirs.get(name), ours.get(name)
        if there is None or here is None:
            lines.append(f"{name}\n    run on one server only")
            continue
        other = differences(there, here)
        left_out += not other and there.skipped is not None
        if other:
            words = f"{'passed' if there.passed else 'failed'} there, {'passed' if here.passed else 'failed'} here"
            lines += [f"{name}: {words}", *(f"    {line}" for line in other)]
        elif there.skipped is None:
            passed += there.passed
            same += not there.passed
    n_other = len(names) - passed - same - left_out
    lines.append(
        f"{passed} passed on both, {same} asked of both what the model has not and found the same, "
        f"{n_other} came out differently, {left_out} left out"
    )
    return "\n".join(lines), n_other == 0
