"""testing/reference_suite: assertions that go on, and what two runs found side by side."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.reference_suite import checks
from testing.reference_suite.comparison import Outcome, differences, read, report

SOURCE = """
def test(value, texts):
    assert value == 1, 'one'
    assert any(text for text in texts)
    assert str.startswith(texts[0], 'a')
    assert value in (1, 2)
"""


@pytest.fixture(autouse=True)
def _nothing_found() -> Iterator[None]:
    checks.found.clear()
    yield
    checks.found.clear()


def run(value: int, texts: list[str]) -> None:
    """The source's function, as a rewritten module has it."""
    module: dict[str, Any] = {checks.CHECK: checks.check}
    exec(checks.rewritten(SOURCE, "t.py"), module)
    module["test"](value, texts)


def test_an_assertion_that_does_not_hold_says_what_it_saw_and_the_test_goes_on() -> None:
    run(3, ["b"])
    assert checks.found == {
        "t.py:3": {"did not hold: 3"},
        "t.py:4": {"held"},
        "t.py:5": {"did not hold: ('b', 'a')"},
        "t.py:6": {"did not hold: 3"},
    }


def test_what_the_same_assertion_finds_again_is_kept_beside_it() -> None:
    run(1, ["a"])
    run(2, [""])
    found = {place: sorted(what) for place, what in checks.found.items()}
    assert found["t.py:3"] == ["did not hold: 2", "held"]
    assert found["t.py:6"] == ["held"]
    assert not checks.all_held(found)
    assert checks.all_held({"t.py:6": found["t.py:6"]})


def test_what_an_assertion_raises_is_raised() -> None:
    with pytest.raises(IndexError):
        run(1, [])
    assert checks.found == {"t.py:3": {"held"}, "t.py:4": {"did not hold: ()"}}


def test_no_assertion_is_left() -> None:
    tree = ast.parse(checks.rewritten(SOURCE, "t.py"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]


HELD = Outcome(None, None, {"t.py:3": ["held"]})
OTHER = Outcome(None, "KeyError at t.py:4", {"t.py:3": ["did not hold: 2"]})
LEFT_OUT = Outcome("needs a model that sees", None, {})


def test_a_test_passed_when_it_ran_to_its_end_and_every_assertion_held() -> None:
    assert HELD.passed
    assert not OTHER.passed
    assert not LEFT_OUT.passed
    assert not Outcome(None, "KeyError at t.py:4", HELD.checks).passed


def test_differences_name_each_place() -> None:
    assert differences(OTHER, OTHER) == []
    assert differences(HELD, OTHER) == [
        "error: None there, KeyError at t.py:4 here",
        "t.py:3: held there, did not hold: 2 here",
    ]
    assert "t.py:3: held there, not reached here" in differences(HELD, LEFT_OUT)


def test_the_report_counts_what_came_out_the_same_and_names_the_rest(tmp_path: Path) -> None:
    def written(name: str, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
        lines = [
            json.dumps({"id": test, "skipped": it.skipped, "error": it.error, "checks": it.checks})
            for test, it in outcomes.items()
        ]
        (tmp_path / name).write_text("\n".join(lines))
        return read(tmp_path / name)

    same = {"passed": HELD, "asked too much": OTHER, "left out": LEFT_OUT}
    theirs, ours = written("a", {**same, "other": HELD}), written("b", {**same, "other": OTHER, "new": HELD})
    text, equal = report(theirs, ours)
    assert not equal
    assert text.splitlines()[0] == "other: passed there, failed here"
    assert "new\n    run on one server only" in text
    assert text.splitlines()[-1].split(", ") == [
        "1 passed on both",
        "1 asked of both what the model has not and found the same",
        "2 came out differently",
        "1 left out",
    ]
    assert report(same, same)[1]
