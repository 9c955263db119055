"""Medians, ratios and the table. Pure: numbers in, text out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Samples = Mapping[str, Sequence[float]]
"""Measured values by metric key, one a round."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    Attributes:
        key: what the samples are filed under.
        label: what the row is called.
        unit: of the shown value.
        higher_is_better: which way is faster or smaller.
    """

    key: str
    label: str
    unit: str
    higher_is_better: bool


METRICS = (
    Metric("prompt_512", "prompt, 512 tokens", "tokens/s", True),
    Metric("prompt_1500", "prompt, 1500 tokens", "tokens/s", True),
    Metric("decode_128", "decode, context 128", "tokens/s", True),
    Metric("decode_1000", "decode, context 1000", "tokens/s", True),
    Metric("first_token_512", "first token, 512-token prompt", "ms", False),
    Metric("first_token_cached", "first token, prompt in the slot", "ms", False),
    Metric("startup", "start-up: command to healthy", "ms", False),
    Metric("first_answer", "command to first answer", "ms", False),
    Metric("memory_loaded", "resident memory, loaded", "MiB", False),
    Metric("memory_prompt", "resident memory, 2000-token prompt", "MiB", False),
)


def ratio(ours: Sequence[float], reference: Sequence[float]) -> float:
    """Median of ours over median of the reference; NaN when one side has no samples or the reference's is 0."""
    if not ours or not reference or not median(reference):
        return math.nan
    return median(ours) / median(reference)


def figure(value: float) -> str:
    """A value to four significant digits, without a fraction from 1000 on; a dash when there is none."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def cell(samples: Sequence[float]) -> str:
    """The median, with the range behind it when there are several samples."""
    if not samples:
        return "-"
    if len(samples) == 1:
        return figure(samples[0])
    return f"{figure(median(samples))} ({figure(min(samples))} to {figure(max(samples))})"


def table(ours: Samples, reference: Samples | None) -> str:
    """The figures as a Markdown table, one row a metric that was measured, columns aligned for the terminal too."""
    head = ["", "unit", "bankml"]
    if reference is not None:
        head += ["llama-server", "ratio", "better is"]
    rows = [head]
    for metric in METRICS:
        mine = ours.get(metric.key, ())
        theirs = reference.get(metric.key, ()) if reference is not None else ()
        if not mine and not theirs:
            continue
        row = [metric.label, metric.unit, cell(mine)]
        if reference is not None:
            value = ratio(mine, theirs)
            better = "higher" if metric.higher_is_better else "lower"
            row += [cell(theirs), f"{value:.2f}" if math.isfinite(value) else "-", better]
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
