"""Attention gives what the reference's gave, for every type of the KV cache, on every code path that runs here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import testing.oracles
from testing.oracles.cache_cases import LONG_STEPS, SESSIONS, Session
from testing.oracles.engine_operations import CODE_PATHS, attention_session
from testing.oracles.operation_cases import digest

RECORD: dict[str, list[str]] = json.loads(
    (Path(testing.oracles.__file__).parent / "records" / "caches.json").read_text()
)["sessions"]


@pytest.mark.parametrize("isa", CODE_PATHS)
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_attention_is_the_references(session: Session, isa: str) -> None:
    found = {step: digest(rows) for step, rows in zip(session.steps, attention_session(isa, session), strict=True)}
    assert found == dict(zip(session.steps, RECORD[session.name], strict=True))


def test_every_session_on_record_is_replayed() -> None:
    assert sorted(RECORD) == sorted(session.name for session in SESSIONS)


def test_only_one_row_over_a_long_half_precision_context_depends_on_the_threads() -> None:
    long = [session for session in SESSIONS if session.steps is LONG_STEPS]
    for cache in {session.cache for session in long}:
        one, *others = (RECORD[session.name] for session in long if session.cache == cache)
        for other in others:
            changed = [step for step, a, b in zip(LONG_STEPS, one, other, strict=True) if a != b]
            split = [(301, 1), (511, 1), (512, 1), (583, 1), (712, 1)]  # the cache is seen in steps of 256 cells
            assert changed == (split if cache == "f16/f16" else [])
