"""Requests that follow each other find what the reference's would: the same tokens reused, the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.pins import DEFAULT_MODEL
from testing.oracles.record import RECORDS
from testing.oracles.session_cases import SESSIONS, run
from testing.server_process import BankmlServer

RECORD = json.loads((RECORDS / "sessions.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SESSIONS)
def test_each_step_of_a_session_is_as_recorded(name: str, model_path: Path, tmp_path: Path) -> None:
    session = SESSIONS[name]
    with BankmlServer(model_path, *session.flags, "--slot-save-path", str(tmp_path)) as server:
        assert run(session, server) == RECORD["sessions"][name]


def test_the_record_is_of_the_pinned_model_and_all_sessions() -> None:
    assert RECORD["header"]["model_sha256"] == DEFAULT_MODEL.sha256
    assert RECORD["header"]["build"] == "b11192"
    assert RECORD["sessions"].keys() == SESSIONS.keys()
