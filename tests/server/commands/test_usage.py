"""`bankml usage`: one JSON object, of this process or of those that are named."""

from __future__ import annotations

import json
import os

import pytest

from server.cli import main


def test_usage_prints_what_the_server_says(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), (str(os.getpid()),)):
        assert main(["usage", *arguments]) == 0
        out = capsys.readouterr().out
        used = json.loads(out)
        assert (out.count("\n"), used["source"], used["cores"]) == (1, "psutil", os.cpu_count())
        assert [process["pid"] for process in used["processes"]] == [os.getpid()]
        assert used["interval_ms"] >= 500


def test_what_is_no_process_number_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "me"]) == 1
    assert capsys.readouterr() == ("", "bankml: Invalid value for '[PID]...': 'me' is not a valid integer range.\n")
