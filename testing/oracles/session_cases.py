"""Sessions: requests that find the slot, the parked states and the slot files as the ones before left them.

A session is a list of steps over a few conversations. Prompts are token ids made up from the session's seed, and grow
by the answers given, so the same steps asked of two servers stay the same as long as their answers do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

CONTEXT = ("-c", "512")
_N_VOCAB = 49000
_FIRST_TOKEN = 20  # past the special ones
_FILES = ("a.bin", "b.bin", "c.bin")


@dataclass(frozen=True, slots=True)
class Ask:
    """A completion: what is kept of a conversation (all for None), and so many made-up tokens more."""

    conversation: str
    n_new: int
    n_predict: int = 3
    keep: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Act:
    """An action on the slot."""

    action: str
    file: str = ""


Step = Ask | Act


@dataclass(frozen=True, slots=True)
class Session:
    """Steps, and the flags of the server that is asked. `--slot-save-path` comes from who runs it."""

    flags: tuple[str, ...]
    steps: tuple[Step, ...]
    seed: int = 0


class Server(Protocol):
    """Who is asked."""

    client: httpx.Client


def run(session: Session, server: Server) -> list[dict[str, Any]]:
    """What a server says to each step."""
    maker = random.Random(session.seed)
    conversations: dict[str, list[int]] = {}
    return [
        _ask(step, server, conversations, maker) if isinstance(step, Ask) else _act(step, server)
        for step in session.steps
    ]


def _ask(step: Ask, server: Server, conversations: dict[str, list[int]], maker: random.Random) -> dict[str, Any]:
    kept = conversations.get(step.conversation, [])
    prompt = kept[: len(kept) if step.keep is None else step.keep]
    prompt = prompt + [maker.randrange(_FIRST_TOKEN, _N_VOCAB) for _ in range(step.n_new)]
    sampling = {"temperature": 0, "n_predict": step.n_predict, "return_tokens": True}
    answer = server.client.post("/completion", json={"prompt": prompt or "", **sampling, **step.fields})
    if answer.status_code != httpx.codes.OK:
        return _error(answer)
    body = answer.json()
    conversations[step.conversation] = prompt + body["tokens"]
    timings = body["timings"]
    return {"cache_n": timings["cache_n"], "prompt_n": timings["prompt_n"], "tokens": body["tokens"]}


def _act(step: Act, server: Server) -> dict[str, Any]:
    body = {"filename": step.file} if step.file else {}
    answer = server.client.post(f"/slots/0?action={step.action}", json=body)
    if answer.status_code != httpx.codes.OK:
        return _error(answer)
    return {name: value for name, value in answer.json().items() if name in ("n_saved", "n_restored", "n_erased")}


def _error(answer: httpx.Response) -> dict[str, Any]:
    error = answer.json()["error"]
    return {"status": answer.status_code, "type": error["type"]}


def random_session(seed: int, n_steps: int, *flags: str, files: bool = False) -> Session:
    """A session nobody thought of: conversations that go on, go back, begin anew, overflow or are empty.

    Args:
        seed: of the steps and the tokens.
        n_steps: how many.
        flags: the server's, with the context's size.
        files: whether the slot is saved, restored and erased as well.
    """
    maker = random.Random(seed)
    steps = tuple(_random_step(maker, files) for _ in range(n_steps))
    return Session(flags, steps, seed)


def _random_step(maker: random.Random, files: bool) -> Step:
    if files and maker.random() < 0.25:
        action = maker.choice(("save", "save", "restore", "restore", "erase"))
        return Act(action, "" if action == "erase" else maker.choice(_FILES))
    conversation = maker.choice("abcde")
    fields: dict[str, Any] = {}
    if maker.random() < 0.1:
        fields["cache_prompt"] = False
    if maker.random() < 0.1:
        fields["id_slot"] = 0
    n_predict = maker.randrange(1, 6)
    chance = maker.random()
    if chance < 0.04:
        return Ask("empty", 0, n_predict, 0, fields)
    if chance < 0.08:
        return Ask("long", maker.randrange(505, 530), n_predict, 0, fields)
    if chance < 0.25:
        return Ask(conversation, maker.randrange(1, 60), n_predict, 0, fields)
    if chance < 0.45:
        return Ask(conversation, maker.randrange(1, 30), n_predict, maker.randrange(1, 120), fields)
    return Ask(conversation, maker.randrange(0, 50), n_predict, None, fields)


def _turns(*conversations: str, n_new: int = 40, **fields: Any) -> tuple[Step, ...]:
    return tuple(Ask(conversation, n_new, fields=fields) for conversation in conversations)


SESSIONS: Mapping[str, Session] = {
    "conversations that take turns": Session(CONTEXT, _turns(*"abcabcabc")),
    "turns without parked states": Session((*CONTEXT, "--cache-ram", "0"), _turns(*"abcabc")),
    "turns with room for one state": Session((*CONTEXT, "--cache-ram", "2"), _turns(*"abcabcabc")),
    "turns with room for none": Session((*CONTEXT, "--cache-ram", "1"), _turns(*"abab", n_new=60)),
    "states without a limit hold no more tokens than a context": Session(
        ("-c", "256", "--cache-ram", "-1"), _turns(*"abcdefabcdef", n_new=60)
    ),
    "a conversation that goes back": Session(
        CONTEXT,
        (*_turns(*"aaa"), Ask("a", 10, keep=100), Ask("a", 10, keep=50), Ask("a", 10, keep=20), Ask("a", 5, keep=2)),
    ),
    "the same prompt again": Session(CONTEXT, (Ask("a", 30, 1), Ask("a", 0, 4, 30), Ask("a", 0, 4, 30))),
    "a prompt that must not be reused": Session(CONTEXT, (*_turns("a"), *_turns("a", "b", "a", cache_prompt=False))),
    "a slot that is asked for": Session(CONTEXT, (*_turns(*"abab", id_slot=0), *_turns(*"ab"))),
    "a slot asked for when empty": Session(
        CONTEXT, (*_turns(*"ab"), Act("erase"), *_turns("a", id_slot=0), Act("erase"), *_turns("b"))
    ),
    "a slot asked for that is not there": Session(CONTEXT, (*_turns(*"ab"), *_turns(*"ab", id_slot=3))),
    "no rule of similarity": Session((*CONTEXT, "-sps", "0"), (*_turns(*"abab"), *_turns(*"ab", id_slot=0))),
    "a strict rule of similarity": Session((*CONTEXT, "-sps", "0.9"), (*_turns(*"aabab"), Ask("a", 10, keep=60))),
    "prompts that cannot be, between others": Session(
        CONTEXT, (*_turns(*"ab"), Ask("x", 600, keep=0), *_turns("a"), Ask("empty", 0, keep=0), *_turns("b"))
    ),
    "saved, erased, restored": Session(
        CONTEXT, (*_turns("a"), Act("save", "a.bin"), Act("erase"), Act("restore", "a.bin"), *_turns("a"))
    ),
    "restored over another conversation": Session(
        CONTEXT,
        (
            *(*_turns("a"), Act("save", "a.bin"), *_turns("b"), Act("save", "b.bin")),
            *(Act("restore", "a.bin"), *_turns("a"), Act("restore", "b.bin"), *_turns("b"), *_turns("a")),
        ),
    ),
    "a restore that fails empties the slot": Session(
        CONTEXT, (*_turns("a"), Act("restore", "missing.bin"), Act("erase"), *_turns("a"))
    ),
    "an empty slot saved": Session(
        CONTEXT, (Act("save", "a.bin"), *_turns("a"), Act("restore", "a.bin"), *_turns("a"))
    ),
    "quantized states": Session(
        (*CONTEXT, "-ctk", "q8_0", "-ctv", "q8_0", "--cache-ram", "2"),
        (*_turns(*"abcabc"), Act("save", "a.bin"), *_turns("a"), Act("restore", "a.bin"), *_turns("c")),
    ),
    "at random": random_session(1, 24, *CONTEXT, files=True),
    "at random with little room": random_session(2, 24, *CONTEXT, "--cache-ram", "3"),
    "at random without a limit": random_session(3, 24, *CONTEXT, "--cache-ram", "-1", files=True),
}
