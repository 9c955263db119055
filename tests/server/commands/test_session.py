"""What a talk has agreed on, and what it asks for."""

from __future__ import annotations

import pytest

from server.commands.errors import CommandError
from server.commands.session import Session, think_of

SHOWN = {
    "details": {"parent_model": "smollm2"},
    "capabilities": ["completion", "thinking"],
    "messages": [{"role": "assistant", "content": "Ahoy."}],
}


def test_a_model_that_can_think_does_unless_somebody_says() -> None:
    session = Session("")
    session.adopt("mario", SHOWN)
    assert session.request()["think"] is True
    session.adopt("smollm2", {"capabilities": ["completion"]})
    assert "think" not in session.request()
    session = Session("", think=False, think_given=True)
    session.adopt("mario", SHOWN)
    assert session.request()["think"] is False


def test_a_system_message_is_part_of_the_talk_from_where_it_was_set() -> None:
    session = Session("m", messages=[{"role": "user", "content": "x"}])
    session.set_system("one")
    session.set_system("two")
    assert session.chat_request()["messages"][1:] == [{"role": "system", "content": "two"}]
    session.clear()
    assert session.messages == [{"role": "system", "content": "two"}]


def test_a_request_has_what_was_set() -> None:
    session = Session("m", options={"seed": 1}, format='{"type": "object"}', keep_alive="-1m")
    assert session.request() == {"model": "m", "options": {"seed": 1}, "format": {"type": "object"}, "keep_alive": -1}
    session.format, session.keep_alive = "json", "5m"
    assert session.request() == {"model": "m", "options": {"seed": 1}, "format": "json", "keep_alive": "5m"}


def test_a_format_that_is_no_json_is_refused() -> None:
    with pytest.raises(CommandError, match=r"^invalid format 'xml'"):
        Session("m", format="xml").request()


@pytest.mark.parametrize(
    ("parent", "source"), [("smollm2", "smollm2"), ("", "mario"), ("/models/x.gguf", "mario"), ("C:\\x", "mario")]
)
def test_a_talk_is_saved_over_its_models_parent(parent: str, source: str) -> None:
    session = Session("")
    session.adopt("mario", {**SHOWN, "details": {"parent_model": parent}})
    assert session.create_request("new") == {"model": "new", "from": source, "messages": SHOWN["messages"]}


def test_a_saved_talk_has_its_system_message_options_and_messages() -> None:
    session = Session("m", system="Be short.", options={"seed": 1}, messages=[{"role": "user", "content": "x"}])
    assert session.create_request("new") == {
        "model": "new",
        "from": "m",
        "system": "Be short.",
        "parameters": {"seed": 1},
        "messages": [{"role": "user", "content": "x"}],
    }


@pytest.mark.parametrize(("text", "value"), [("", True), ("true", True), ("false", False), ("high", "high")])
def test_think_is_a_switch_or_a_level(text: str, value: bool | str) -> None:
    assert think_of(text) == value


def test_another_level_is_refused() -> None:
    with pytest.raises(CommandError, match=r'^invalid value for --think: "very" \(must be true, false, high'):
        think_of("very")
