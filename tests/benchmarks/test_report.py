"""The benchmark's table: ratios, figures, rows."""

from __future__ import annotations

import math

from benchmarks import report


def test_a_ratio_is_ours_over_the_reference_by_medians() -> None:
    assert report.ratio([90.0, 100.0, 500.0], [50.0, 40.0, 60.0]) == 2.0


def test_a_ratio_without_samples_or_over_nothing_is_no_number() -> None:
    assert math.isnan(report.ratio([], [1.0]))
    assert math.isnan(report.ratio([1.0], []))
    assert math.isnan(report.ratio([1.0], [0.0]))


def test_figures_have_four_significant_digits_or_no_fraction() -> None:
    shown = [report.figure(value) for value in (12345.6, 1000.2, 279.34, 12.304, 0.51239, 0.0, math.nan)]
    assert shown == ["12346", "1000", "279.3", "12.3", "0.5124", "0", "-"]


def test_a_cell_shows_the_median_and_the_range() -> None:
    assert report.cell([3.0]) == "3"
    assert report.cell([3.0, 1.0, 2.0]) == "2 (1 to 3)"
    assert report.cell([]) == "-"


def test_a_row_has_both_medians_their_ratio_and_which_way_is_better() -> None:
    lines = report.table({"decode_128": [150.0], "startup": [300.0]}, {"decode_128": [100.0], "startup": [600.0]})
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
    assert rows[0] == ["", "unit", "bankml", "llama-server", "ratio", "better is"]
    assert rows[2] == ["decode, context 128", "tokens/s", "150", "100", "1.50", "higher"]
    assert rows[3] == ["start-up: command to healthy", "ms", "300", "600", "0.50", "lower"]
    assert len(rows) == 4
    assert len({len(line) for line in lines.splitlines()}) == 1


def test_without_the_reference_only_our_figures_are_shown() -> None:
    lines = report.table({"decode_128": [150.0, 151.0]}, None).splitlines()
    assert len(lines) == 3
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == [
        "decode, context 128",
        "tokens/s",
        "150.5 (150 to 151)",
    ]


def test_a_row_one_side_lacks_has_no_ratio() -> None:
    line = report.table({"prompt_512": [400.0]}, {"decode_128": [100.0]}).splitlines()[2]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "prompt, 512 tokens",
        "tokens/s",
        "400",
        "-",
        "-",
        "higher",
    ]
