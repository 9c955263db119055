"""Our engine gives the tokens the reference gave, record by record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.model import Model, ModelOptions
from registry.pins import DEFAULT_MODEL
from slots.slot import Slot
from testing.oracles import cases, replay
from testing.oracles.constrained_cases import CONSTRAINED
from testing.oracles.replay import Record

FILES = tuple(f"smollm2_q4_1{part}" for part in ("", "_samplers", "_constrained", "_probabilities"))
SESSIONS = list(replay.sessions(*FILES))
RECORDS = [record for session in SESSIONS for record in session]
KNOWN = replay.known_differences()


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[Model]:
    """The real model with the thread count the records were made with, which decides bits."""
    model = Model.open(model_path, ModelOptions(n_threads=2))
    yield model
    model.close()


@pytest.mark.parametrize("session", SESSIONS, ids=[session[0]["name"].partition("/")[0] for session in SESSIONS])
def test_an_answer_is_the_recorded_one_unless_listed(model: Model, session: list[Record]) -> None:
    slot = Slot()
    problems = []
    for record in session:
        differences = replay.answer(model, slot, record).differences(record)
        if record["name"] not in KNOWN:
            problems += [f"{record['name']}: {line}" for line in differences]
        elif not differences:
            problems.append(f"{record['name']} has come right: take it off known_differences.json")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("record", RECORDS, ids=[record["name"] for record in RECORDS])
def test_a_prompt_becomes_the_recorded_token_ids(model: Model, record: Record) -> None:
    request = record["request"]
    if "messages" in request:
        assert model.template is not None
        prompt = model.template.render(request["messages"])
    else:
        prompt = request["prompt"]
    assert model.tokenizer.encode(prompt) == record["prompt_ids"]


def test_records_were_made_with_the_pinned_model_and_the_reference_build() -> None:
    for name in FILES:
        header = replay.load(name)["header"]
        assert header["model"]["sha256"] == DEFAULT_MODEL.sha256
        assert header["model"]["bytes"] == DEFAULT_MODEL.size
        assert header["reference"]["build"] == "b11192"
        assert header["reference"]["flags"] == ["-t", "2", "-np", "1", "--jinja"]


def test_every_listed_difference_names_a_record() -> None:
    assert KNOWN.keys() <= {record["name"] for record in RECORDS}


def test_records_spread_from_5_to_1500_prompt_tokens() -> None:
    main = replay.load("smollm2_q4_1")
    assert len(main["chats"]) == len(main["completions"]) == 12
    lengths = sorted(len(record["prompt_ids"]) for record in [*main["chats"], *main["completions"]])
    assert (lengths[0], lengths[-1]) == (5, 1500)
    assert {511, 512, 513} <= set(lengths)


def test_every_case_is_recorded() -> None:
    asked = [
        case.name for case in (*cases.CHATS, *cases.COMPLETIONS, *cases.SAMPLERS, *CONSTRAINED, *cases.PROBABILITIES)
    ]
    turns = [f"{name}/{n}" for name, turns in cases.CONVERSATIONS.items() for n, _ in enumerate(turns, 1)]
    assert sorted(record["name"] for record in RECORDS) == sorted(asked + turns)
