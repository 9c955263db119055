"""Which messages Ollama leaves out of a conversation that is too long."""

from __future__ import annotations

from collections.abc import Sized

import pytest

from server.wire.ollama_fitting import fit_messages


def conversation(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": str(index)} for index, role in enumerate(roles)]


@pytest.mark.parametrize(
    ("roles", "limit", "left"),
    [
        (("user",), 9, "0"),
        (("user",), 0, "0"),
        (("user", "assistant", "user"), 3, "012"),
        (("user", "assistant", "user"), 2, "12"),
        (("user", "assistant", "user"), 1, "2"),
        (("user", "assistant", "user"), 0, "2"),
        (("system", "user", "assistant", "user"), 3, "023"),
        (("system", "user", "assistant", "user"), 2, "03"),
        (("system", "user", "assistant", "user"), 1, "03"),
        (("user", "system", "user"), 2, "12"),
        (("user", "system", "user", "system", "user"), 4, "1234"),
        (("user", "system", "user", "system", "user"), 3, "134"),
    ],
)
def test_the_oldest_messages_go_first_but_system_messages_and_the_last_one_stay(
    roles: tuple[str, ...], limit: int, left: str
) -> None:
    kept, dropped = fit_messages(conversation(*roles), limit, len)
    assert "".join(message["content"] for message in kept) == left
    assert dropped == len(roles) - len(left)


def test_the_first_that_fits_is_taken_though_a_later_one_would_not() -> None:
    sizes = {5: 9, 4: 3, 3: 8, 2: 2, 1: 1}
    kept, dropped = fit_messages(conversation(*["user"] * 5), 3, lambda messages: sizes[len(messages)])
    assert (len(kept), dropped) == (4, 1)


def test_a_long_conversation_is_fitted_in_few_looks() -> None:
    looks = 0

    def count(messages: Sized) -> int:
        nonlocal looks
        looks += 1
        return len(messages)

    kept, dropped = fit_messages(conversation(*["user"] * 4096), 1000, count)
    assert (len(kept), dropped) == (1000, 3096)
    assert looks <= 14
