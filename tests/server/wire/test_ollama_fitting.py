"""Which messages Ollama leaves out of a conversation that is too long, and what it costs to find out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from engine.chat_template import CHATML, ChatTemplate
from engine.errors import EngineError
from engine.gguf import GGUFFile
from engine.tokenizer import Tokenizer
from server.errors import BadRequest
from server.wire import openai
from server.wire.ollama_fitting import first_to_try, fit_messages

Message = Mapping[str, Any]

TURN: Final = "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
LOOP: Final = "{% for message in messages %}%s{% endfor %}<|im_start|>assistant\n"
RESULTS: Final = (
    "{% if loop.first or messages[loop.index0 - 1].role != message.role %}<|im_start|>{{ message.role }}{% endif %}"
    "\n{{ message.content }}"
    "{% if loop.last or messages[loop.index0 + 1].role != message.role %}<|im_end|>{% endif %}"
)
TEMPLATES: Final = {
    "ChatML": CHATML,
    "beside each other": LOOP.replace("%s", RESULTS),
    "after the last query": (
        "{% set ns = namespace(searching=true, last=messages|length - 1) %}"
        "{% for message in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}"
        "{% if ns.searching and message.role == 'user' %}{% set ns.searching = false %}{% set ns.last = index %}"
        "{% endif %}{% endfor %}"
    )
    + LOOP.replace("%s", TURN + "{% if loop.index0 > ns.last %}since {% endif %}"),
    "no token between": LOOP.replace("%s", "{{ message.role }}: {{ message.content }}\n"),
    "a first user": LOOP.replace(
        "%s", "{% if loop.first and message.role == 'assistant' %}{{ raise_exception('no') }}{% endif %}" + TURN
    ),
    "one after another": LOOP.replace(
        "%s", "{% if loop.index0 % 2 and message.role == 'user' %}{{ raise_exception('no') }}{% endif %}" + TURN
    ),
    "the fewer the longer": LOOP.replace("%s", TURN) + "{% if messages | length < 4 %}{{ 'long ' * 40 }}{% endif %}",
}
WORDS: Final = ("a", "the", "1234", "<|im_start|>", "<|im_end|>", "<|im_", "\n", "  ", "é", "<")


@pytest.fixture(scope="module")
def tokenizer(model_path: Path) -> Tokenizer:
    with GGUFFile.open(model_path) as file:
        return Tokenizer.from_gguf(file.metadata)


@pytest.fixture(scope="module")
def smollm2(model_path: Path, tokenizer: Tokenizer) -> ChatTemplate:
    with GGUFFile.open(model_path) as file:
        return ChatTemplate.from_gguf(file.metadata, tokenizer)


def conversation(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": str(index)} for index, role in enumerate(roles)]


def fitted(
    messages: Sequence[Message], limit: int, count: Callable[[Sequence[Message]], int] = len
) -> tuple[Sequence[Message], int]:
    return fit_messages(messages, limit, lambda left: left, count, lambda: 0)


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
    kept, dropped = fitted(conversation(*roles), limit)
    assert "".join(message["content"] for message in kept) == left
    assert dropped == len(roles) - len(left)


def test_the_first_that_fits_is_taken_though_a_later_one_would_not() -> None:
    sizes = {5: 9, 4: 3, 3: 8, 2: 2, 1: 1}
    kept, dropped = fitted(conversation(*["user"] * 5), 3, lambda messages: sizes[len(messages)])
    assert (len(kept), dropped) == (4, 1)


def test_a_conversation_that_must_be_looked_at_too_often_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"has 1000 messages, too many"):
        fitted(conversation(*["user"] * 1000), 10)
    kept, _ = fitted(conversation(*["user"] * 400), 10)
    assert len(kept) == 10


def test_a_conversation_that_fits_is_looked_at_once() -> None:
    looks = list[int]()

    def look(left: Sequence[Message]) -> Sequence[Message]:
        looks.append(len(left))
        return left

    fit_messages(conversation(*["user"] * 256), 256, look, len, lambda: pytest.fail("nothing needs to be known"))
    fit_messages(conversation(*["user"] * 256), 9, look, len, lambda: 246)
    fit_messages(conversation(*["user"] * 257), 9, look, len, lambda: 247)
    assert looks == [256, 256, 10, 9, 10, 9]


# --- what is known beforehand -------------------------------------------------------------------------------------


def random_conversation(source: random.Random) -> list[dict[str, str]]:
    weights = [source.choice([0, 1, 2]), 4, 4, source.choice([0, 2])]
    roles = source.choices(["system", "user", "assistant", "tool"], weights, k=source.randint(1, 12))
    texts = (" ".join(source.choices(WORDS, k=source.randint(0, 8))) for _ in roles)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


def ollamas_loop(
    messages: Sequence[Message], limit: int, render: Callable[[Sequence[Message]], list[int]]
) -> tuple[list[int], int]:
    """Ollama's `truncateNativeChatMessages`, line by line."""
    last = len(messages) - 1
    chosen = 0
    for at in range(last + 1):
        system = [messages[before] for before in range(at) if messages[before]["role"] == "system"]
        if len(render([*system, *messages[at:]])) <= limit or at == last:
            chosen = at
            break
    system = [messages[before] for before in range(chosen) if messages[before]["role"] == "system"]
    left = [*system, *messages[chosen:]]
    return render(left), len(messages) - len(left)


@pytest.mark.parametrize("name", ["smollm2", *TEMPLATES])
def test_what_is_left_is_what_ollama_leaves(
    name: str, smollm2: ChatTemplate, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = smollm2 if name == "smollm2" else ChatTemplate(TEMPLATES[name])
    n_known = 0

    def render(messages: Sequence[Message]) -> list[int]:
        return tokenizer.encode(openai.chat_form(openai.parse_chat({"messages": messages}), template).prompt)

    def ours(messages: Sequence[Message], limit: int) -> tuple[list[int], int]:
        nonlocal n_known
        first = first_to_try(openai.parse_chat({"messages": messages}), template, {}, tokenizer, limit)
        n_known += first
        monkeypatch.setattr("server.wire.ollama_fitting.FEW", source.choice([0, 99]))
        monkeypatch.setattr("server.wire.ollama_fitting.MANY", source.choice([0, 99]))
        return fit_messages(messages, limit, render, len, lambda: first)

    def outcome(find: Callable[[], tuple[list[int], int]]) -> object:
        try:
            return find()
        except (EngineError, BadRequest) as error:
            return str(error)

    for seed in range(80):
        source = random.Random(seed)
        messages, limit = random_conversation(source), source.randint(3, 120)
        found = outcome(lambda messages=messages, limit=limit: ours(messages, limit))
        assert found == outcome(lambda messages=messages, limit=limit: ollamas_loop(messages, limit, render)), seed
    assert bool(n_known) is (name not in ("no token between", "one after another", "the fewer the longer"))


@pytest.mark.parametrize("roles", [("user", "assistant"), ("system", "user"), ("system",)])
def test_of_40000_messages_little_more_is_tokenized_than_what_is_left(
    roles: tuple[str, ...], smollm2: ChatTemplate, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [{"role": roles[n % len(roles)], "content": f"the number {n}"} for n in range(40_000)]
    messages.append({"role": "user", "content": "And now?"})
    encode, n_characters, n_looks = tokenizer.encode, 0, 0

    def counted(text: str, **how: bool) -> list[int]:
        nonlocal n_characters
        n_characters += len(text)
        return encode(text, **how)

    monkeypatch.setattr(tokenizer, "encode", counted)

    def render(left: Sequence[Message]) -> list[int]:
        nonlocal n_looks
        n_looks += 1
        return counted(smollm2.render(left))

    chat = openai.parse_chat({"messages": messages})
    known = partial(first_to_try, chat, smollm2, {}, tokenizer, 2047)
    tokens, _ = fit_messages(messages, 2047, render, len, known)
    assert n_looks <= 4
    assert n_characters <= (n_looks + 2) * len(tokenizer.decode(tokens))
