"""benchmarks/doors.py: how times are summed up, and that each measurement runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.doors import measure_disconnects, measure_half_open, measure_health, percentiles
from testing.server_process import BankmlServer


def test_percentiles() -> None:
    times = [number / 1000 for number in range(1, 201)]
    assert percentiles(times) == "median 101.00 ms, p99 199.00 ms, worst 200.00 ms of 200"
    assert percentiles([0.001]) == "median 1.00 ms, p99 1.00 ms, worst 1.00 ms of 1"


def test_each_measurement_says_what_it_found(model_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BankmlServer(model_path, "-c", "1024", "--cache-ram", "0", "-ub", "32", "--metrics") as server:
        measure_health(server, 0.1)
        measure_half_open(server)
        measure_disconnects(server, 8)
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in said] == [
        *("health, idle", "health, while decoding", "health, in a prompt"),
        "health on new connections beside 64 half-open ones",
        *(f"slot free again, in the {where}, {how}" for where in ("answer", "prompt") for how in ("streamed", "whole")),
        "tokens beyond the last one read",
        "RssAnon before and after 8 disconnects",
        "swap before and after",
    ]
