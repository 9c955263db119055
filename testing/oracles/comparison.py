"""What `make oracle` prints: a line for each group of comparisons, the first difference in full, a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from testing.oracles.operation_cases import canonical


@dataclass(slots=True)
class Group:
    """Comparisons of one kind, of one subject, on one code path.

    Attributes:
        kind: "products", "logits", ...
        subject: what is compared: a weight type, a model.
        isa: the code path of ours.
        identical, different: how many of each.
        first: the first difference, in words.
        not_played: why nothing was compared; empty where something was.
    """

    kind: str
    subject: str
    isa: str
    identical: int = 0
    different: int = 0
    first: str = ""
    not_played: str = ""

    def compare(self, name: str, ours: npt.NDArray[Any], reference: npt.NDArray[Any]) -> None:
        """Counts one comparison of two arrays, bit for bit but for the payload of a NaN (see `canonical`)."""
        if same_bits(ours, reference):
            self.identical += 1
            return
        self.different += 1
        self.first = self.first or f"{name}: {_difference(ours, reference)}"

    def fail(self, name: str, why: str) -> None:
        """Counts a comparison that ours could not even compute."""
        self.different += 1
        self.first = self.first or f"{name}: {why}"


def same_bits(ours: npt.NDArray[Any], reference: npt.NDArray[Any]) -> bool:
    """Whether two arrays have the same shape, type and bits, every NaN taken for the same."""
    if ours.shape != reference.shape or ours.dtype != reference.dtype:
        return False
    if ours.dtype.kind == "f":
        ours, reference = canonical(ours), canonical(reference)
    return ours.tobytes() == reference.tobytes()


def _difference(ours: npt.NDArray[Any], reference: npt.NDArray[Any]) -> str:
    if ours.shape != reference.shape or ours.dtype != reference.dtype:
        return f"{ours.dtype}{ours.shape} for {reference.dtype}{reference.shape}"
    if ours.dtype.kind != "f":
        wrong = np.argwhere(ours != reference)
    else:
        wrong = np.argwhere(canonical(ours).view(np.uint32) != canonical(reference).view(np.uint32))
    at = tuple(int(i) for i in wrong[0])
    mine, theirs = ours[at], reference[at]
    bits = f" ({mine.tobytes()[::-1].hex()} for {theirs.tobytes()[::-1].hex()})" if ours.dtype.kind == "f" else ""
    return f"{len(wrong)} of {ours.size} differ, first at {list(at)}: {mine!s} for {theirs!s}{bits}"


@dataclass(slots=True)
class Report:
    """All groups of a run."""

    groups: list[Group] = field(default_factory=list)

    @contextmanager
    def group(self, kind: str, subject: str, isa: str) -> Iterator[Group]:
        """A group to fill; its line is printed when it is left."""
        started = time.monotonic()
        group = Group(kind, subject, isa)
        yield group
        self.groups.append(group)
        if group.not_played:
            outcome = f"not played: {group.not_played}"
        else:
            outcome = f"{group.identical} identical, {group.different} different"
        print(f"{kind:<13} {subject:<24} {isa:<9} {outcome}  ({time.monotonic() - started:.1f} s)", flush=True)
        if group.first:
            print(f"    {group.first}", flush=True)

    def not_played(self, kind: str, subject: str, why: str) -> None:
        """Notes what is asked for but not there, so that it is not passed over in silence."""
        with self.group(kind, subject, "-") as group:
            group.not_played = why

    @property
    def passed(self) -> bool:
        """Whether something was compared and nothing differed."""
        return any(group.identical for group in self.groups) and not any(group.different for group in self.groups)

    def summary(self) -> str:
        """The table of kinds, and what differed or was not played by name."""
        lines = [f"{'':<13} {'identical':>10} {'different':>10} {'not played':>11}"]
        for kind in dict.fromkeys(group.kind for group in self.groups):
            groups = [group for group in self.groups if group.kind == kind]
            counts = (sum(g.identical for g in groups), sum(g.different for g in groups))
            lines.append(f"{kind:<13} {counts[0]:>10} {counts[1]:>10} {sum(bool(g.not_played) for g in groups):>11}")
        for title, names in (
            ("different", [f"{g.kind} {g.subject} {g.isa}" for g in self.groups if g.different]),
            ("not played", [f"{g.kind} {g.subject}" for g in self.groups if g.not_played]),
        ):
            lines.extend([f"{title}: {name}" for name in names])
        return "\n".join(lines)
