"""server/flags.py: a flag of llama-server is a setting, or ignored, or refused; never dropped in silence."""

from __future__ import annotations

import pytest

from server.flags import IGNORED, REFUSED, refusal, refused_by_environment
from server.settings import FLAGS


def flag(name: str):
    return next(flag for flag in IGNORED + REFUSED if name in flag.names)


def test_no_flag_is_named_twice() -> None:
    names = [name for other in IGNORED + REFUSED for name in other.names]
    names += [name for own in FLAGS.values() for name in own.names + own.off]
    assert len(names) == len(set(names))
    assert all(name.startswith("-") and name == name.strip() for name in names)


@pytest.mark.parametrize(
    "name", ["-tb", "--prio", "--poll", "--numa", "--mlock", "--no-mmap", "-ngl", "--no-warmup", "--native"]
)
def test_what_only_schedules_work_is_ignored(name: str) -> None:
    assert refusal(flag(name), "3" if flag(name).metavar else True) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("-np", "4", "--parallel 4 is refused: there is one slot; requests wait their turn"),
        ("-fa", "off", "--flash-attn off is refused: only flash attention is built"),
        ("--lora", "a.gguf", "--lora a.gguf is refused: adapters are not built"),
        ("--context-shift", True, "--context-shift is refused: the context is not shifted"),
    ],
)
def test_what_would_change_answers_is_refused_with_the_reason(name: str, value: str | bool, text: str) -> None:
    assert refusal(flag(name), value) == text


@pytest.mark.parametrize(("name", "value"), [("-np", "1"), ("-np", "-1"), ("-fa", "on"), ("-fa", "AUTO")])
def test_a_value_that_changes_nothing_is_taken(name: str, value: str) -> None:
    assert refusal(flag(name), value) is None


def test_every_refused_flag_says_why() -> None:
    assert all(other.why for other in REFUSED)
    assert not any(other.why for other in IGNORED)


def test_a_variable_is_refused_like_its_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused_by_environment() is None
    monkeypatch.setenv("LLAMA_ARG_N_PARALLEL", "1")
    assert refused_by_environment() is None
    monkeypatch.setenv("LLAMA_ARG_N_PARALLEL", "4")
    assert refused_by_environment() == "LLAMA_ARG_N_PARALLEL=4 is refused: there is one slot; requests wait their turn"


def test_what_opens_vertex_ais_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIP_MODE", "TRAINING")
    assert refused_by_environment() is None
    monkeypatch.setenv("AIP_MODE", "PREDICTION")
    assert refused_by_environment() == "AIP_MODE=PREDICTION is refused: Vertex AI's protocol is not built"
