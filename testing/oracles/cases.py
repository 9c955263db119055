"""What is asked of the reference: the requests behind each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One request.

    Attributes:
        name: how the record is called, in the list of known differences too.
        n_prompt: tokens the whole prompt shall have; None: whatever the text gives.
        text: the prompt or the last user message; `{text}` in it is filled with as many words as `n_prompt` wants.
        options: further request fields.
        before: messages before the last one (chats only).
    """

    name: str
    n_prompt: int | None
    text: str
    options: Mapping[str, Any] = field(default_factory=dict)
    before: Sequence[Message] = ()


def _system(content: str) -> Message:
    return {"role": "system", "content": content}


def _said(*contents: str) -> list[Message]:
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": content} for index, content in enumerate(contents)]


CODE = "def mean(values):\n    total = 0\n    for v in values:\n        total += v\n    return total / len(values)\n"

UNICODE = "Traduis en anglais : « Où est la gare ? » 你好，世界 🙂🚀 Straße, naïve, Ω≈3.14. {text}"  # noqa: RUF001

CHATS = (
    Case("chat-greeting", None, "Hello! Who are you?"),
    Case("chat-arithmetic", None, "What is 7 times 8?", {}, [_system("Answer in one short sentence.")]),
    Case("chat-64", 64, "{text} What is this about?"),
    Case(
        "chat-history-128",
        128,
        "{text} And what did I ask first?",
        {},
        _said("What is the capital of Italy?", "The capital of Italy is Rome.", "And of Spain?", "Madrid."),
    ),
    Case("chat-unicode-200", 200, UNICODE),
    Case("chat-code-333", 333, CODE + "\n{text}\n\nExplain the function above and write a better one."),
    Case("chat-511", 511, "{text} Sum this up."),
    Case("chat-512", 512, "{text} Sum this up."),
    Case("chat-513", 513, "{text} Sum this up."),
    Case("chat-stop-700", 700, "{text}\n\nWrite a list of five things named above.", {"stop": ["\n4.", "4)"]}),
    Case("chat-system-1000", 1000, "{text} Continue.", {}, [_system("You are a novelist. Write long sentences.")]),
    Case("chat-1500", 1500, "{text} Which sentence is the most important one, and why?"),
)
"""Greedy, through /v1/chat/completions."""

COMPLETIONS = (
    Case("completion-5", 5, "The capital of France is", {"seed": 1}),
    Case("completion-12", 12, "{text}", {"seed": 42}),
    Case("completion-hot-30", 30, "{text}", {"seed": 3, "temperature": 1.5}),
    Case("completion-topk-64", 64, "{text}", {"seed": 4, "top_k": 5}),
    Case("completion-topp-100", 100, "{text}", {"seed": 5, "top_p": 0.5, "n_predict": 128}),
    Case("completion-minp-200", 200, "{text}", {"seed": 6, "min_p": 0.2}),
    Case("completion-cool-333", 333, "{text}", {"seed": 0, "temperature": 0.2}),
    Case("completion-511", 511, "{text}", {"seed": 7, "n_predict": 128}),
    Case("completion-open-512", 512, "{text}", {"seed": 8, "top_k": 0, "top_p": 1.0, "min_p": 0.0}),
    Case(
        "completion-all-513",
        513,
        "{text}",
        {"seed": 123456789, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
    ),
    Case("completion-1000", 1000, "{text}", {"seed": 4294967294}),
    Case("completion-1500", 1500, "{text}", {"seed": 10, "temperature": 1.0}),
)
"""Seeded, through /completion and llama-server's default sampler chain."""

_OPEN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
_EVERY = {
    "samplers": "edskypmxt",
    "temperature": 1.1,
    "dynatemp_range": 0.3,
    "top_k": 80,
    "top_p": 0.97,
    "min_p": 0.01,
    "typical_p": 0.98,
    "top_n_sigma": 3.0,
    "xtc_probability": 0.4,
    "xtc_threshold": 0.08,
    "repeat_penalty": 1.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "dry_multiplier": 0.6,
}
_MORE_SAMPLERS: Mapping[str, Mapping[str, Any]] = {
    "temperature-alone": {"samplers": "t", "temperature": 0.9},
    "temperature-low": {**_OPEN, "temperature": 0.1},
    "temperature-high": {"temperature": 3.0, "top_k": 10},
    "temperature-zero-seeded": {"temperature": 0, "top_k": 5},
    "top-k-alone": {"samplers": "k", "top_k": 8},
    "top-k-one": {"top_k": 1},
    "top-k-more-than-there-are": {**_OPEN, "top_k": 100000},
    "top-k-200": {**_OPEN, "top_k": 200, "temperature": 1.2},
    "top-p-alone": {"samplers": "p", "top_p": 0.6},
    "top-p-zero": {"samplers": ["top_p", "temperature"], "top_p": 0.0},
    "top-p-of-all": {**_OPEN, "top_p": 0.9, "temperature": 1.1},
    "min-p-alone": {"samplers": "m", "min_p": 0.1},
    "min-p-one": {**_OPEN, "min_p": 1.0},
    "min-p-of-all": {**_OPEN, "min_p": 0.02, "temperature": 1.3},
    "typical-alone": {"samplers": ["typ_p"], "typical_p": 0.5},
    "typical-of-all": {**_OPEN, "typical_p": 0.8},
    "top-n-sigma-alone": {"samplers": "s", "top_n_sigma": 1.5},
    "xtc-alone": {"samplers": "x", "xtc_probability": 1.0, "xtc_threshold": 0.1},
    "xtc-always": {**_OPEN, "xtc_probability": 1.0, "xtc_threshold": 0.2, "temperature": 0.7},
    "xtc-off-by-threshold": {"xtc_probability": 1.0, "xtc_threshold": 0.6},
    "penalties-alone": {"samplers": "e", "repeat_penalty": 1.4, "repeat_last_n": 16},
    "penalties-of-nothing": {"repeat_penalty": 1.4, "repeat_last_n": 0},
    "penalties-that-reward": {"repeat_penalty": 0.8, "frequency_penalty": -0.2, "presence_penalty": -0.1},
    "penalties-of-all": {"repeat_penalty": 1.15, "repeat_last_n": 4096},
    "dry-alone": {"samplers": "d", "dry_multiplier": 1.0, "dry_allowed_length": 1, "temperature": 1.0},
    "dry-greedy": {"temperature": 0, "dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_penalty_last_n": 1000},
    "dry-breakers": {"dry_multiplier": 1.5, "dry_allowed_length": 1, "dry_sequence_breakers": [" the", ".", "\n"]},
    "dry-base": {"dry_multiplier": 0.5, "dry_base": 3.0, "dry_allowed_length": 0},
    "dynamic-temperature-of-all": {**_OPEN, "dynatemp_range": 0.7, "dynatemp_exponent": 0.8, "temperature": 0.9},
    "infill": {"samplers": "kpit", "top_k": 40},
    "infill-alone": {"samplers": "ki", "top_k": 3},
    "infill-first": {"samplers": ["infill", "temperature"]},
    "infill-last": {
        "samplers": [*["penalties", "dry", "top_k", "top_p", "min_p", "temperature", "infill"]],
        "top_k": 4,
    },
    "infill-by-name": {"samplers": ["top_p", "INFILL"], "top_p": 0.3, "temperature": 0.4},
    "infill-without-ends": {"samplers": "kpi", "top_p": 0.5, "ignore_eos": True},
    "infill-adaptive-p": {"samplers": "kia", "top_k": 6, "adaptive_target": 0.5, "ignore_eos": True},
    "mirostat-default": {"mirostat": 1},
    "mirostat-calm": {"mirostat": 1, "mirostat_tau": 1.0, "mirostat_eta": 0.5, "temperature": 0.6},
    "mirostat-2-default": {"mirostat": 2},
    "mirostat-2-wild": {"mirostat": 2, "mirostat_tau": 9.0, "mirostat_eta": 0.05, "temperature": 1.5},
    "mirostat-greedy": {"mirostat": 1, "temperature": 0},
    "adaptive-p-off": {"samplers": "kpmta", "adaptive_target": -1},
    "adaptive-p-zero": {"samplers": "mta", "adaptive_target": 0.0, "adaptive_decay": 0.0},
    "adaptive-p-one": {"samplers": "a", "adaptive_target": 1.0, "adaptive_decay": 0.99},
    "logit-bias-by-text": {"logit_bias": {" the": -5.0, "28": 1.5, " and": False}},
    "logit-bias-towards-the-end": {"logit_bias": [[2, 8.0]], "temperature": 1.0},
    "min-keep-typical": {"typical_p": 0.05, "min_keep": 6, "temperature": 1.3},
    "min-keep-min-p": {**_OPEN, "min_p": 0.9, "min_keep": 3, "temperature": 1.6},
    "min-keep-xtc": {"xtc_probability": 1.0, "xtc_threshold": 0.01, "min_keep": 30},
    "every": _EVERY,
    "every-backwards": {**_EVERY, "samplers": "txmpyksde"},
    "every-twice": {**_EVERY, "samplers": "edskypmxtedskypmxt", "temperature": 0.9},
    "every-greedy": {**_EVERY, "temperature": 0, "dynatemp_range": 0},
    "every-then-adaptive-p": {**_EVERY, "samplers": "edskypmxta", "adaptive_target": 0.3},
    "every-and-infill": {**_EVERY, "samplers": "edskypmxit", "ignore_eos": True},
}

SAMPLERS = (
    Case("sampler-penalties-greedy", 60, "{text}", {"temperature": 0, "repeat_penalty": 1.3, "repeat_last_n": 32}),
    Case(
        "sampler-penalties",
        60,
        "{text}",
        {"seed": 1, "repeat_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3},
    ),
    Case("sampler-typical", 60, "{text}", {"seed": 2, "typical_p": 0.7}),
    Case("sampler-top-n-sigma", 60, "{text}", {"seed": 3, "top_n_sigma": 1.0, "temperature": 1.4}),
    Case("sampler-xtc", 60, "{text}", {"seed": 4, "xtc_probability": 0.5, "xtc_threshold": 0.05}),
    Case("sampler-dry", 60, "{text} {text}", {"seed": 5, "dry_multiplier": 0.8, "dry_allowed_length": 1}),
    Case("sampler-dynamic-temperature", 60, "{text}", {"seed": 6, "dynatemp_range": 0.5, "dynatemp_exponent": 1.5}),
    Case("sampler-logit-bias", 60, "{text}", {"seed": 9, "logit_bias": [[28, -100.0], [30, 2.5], [260, False]]}),
    Case("sampler-ignore-eos", 60, "{text}", {"seed": 10, "ignore_eos": True}),
    Case("sampler-min-keep", 60, "{text}", {"seed": 12, "top_p": 0.1, "min_keep": 4, "temperature": 1.2}),
    Case("sampler-order", 60, "{text}", {"seed": 13, "samplers": ["temperature", "min_p"], "temperature": 1.3}),
    Case("sampler-order-letters", 60, "{text}", {"seed": 14, "samplers": "tkpm", "temperature": 1.5, "top_k": 60}),
    Case("sampler-order-none", 60, "{text}", {"seed": 15, "samplers": []}),
    Case("sampler-order-penalties-last", 60, "{text}", {"seed": 16, "samplers": "kpe", "repeat_penalty": 1.5}),
    Case("sampler-order-greedy", 60, "{text}", {"seed": 17, "samplers": "st", "temperature": 0, "top_n_sigma": 1.0}),
    Case("sampler-mirostat", 60, "{text}", {"seed": 18, "mirostat": 1, "mirostat_tau": 4.0, "mirostat_eta": 0.2}),
    Case("sampler-mirostat-2", 60, "{text}", {"seed": 19, "mirostat": 2, "mirostat_tau": 3.0, "samplers": "kt"}),
    Case("sampler-mirostat-2-bias", 60, "{text}", {"seed": 20, "mirostat": 2, "logit_bias": [[28, -100.0]]}),
    Case("sampler-adaptive-p", 60, "{text}", {"seed": 21, "samplers": "ma", "adaptive_target": 0.4}),
    Case(
        "sampler-adaptive-p-whole-chain",
        60,
        "{text}",
        {"seed": 22, "samplers": "edskypmxta", "adaptive_target": 0.7, "adaptive_decay": 0.5},
    ),
    *(
        Case(f"sampler-{name}", 60, "{text} {text}" if "dry" in name else "{text}", {"seed": seed, **options})
        for seed, (name, options) in enumerate(_MORE_SAMPLERS.items(), 100)
    ),
)
"""Seeded, through /completion, each with one more part of the chain at work."""

PROBABILITIES = (
    Case("probabilities-12", 12, "{text}"),
    Case("probabilities-100", 100, "{text}"),
    Case("probabilities-513", 513, "{text}"),
    Case("probabilities-1000", 1000, "{text}"),
)
"""Greedy, through /completion, with the ten best tokens of each step."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation.

    Attributes:
        text: the user's words; `{text}` in it is filled with sentences.
        keep: messages kept of those so far, None all; fewer means the conversation is taken up again from there.
        n_sentences: how many sentences `{text}` becomes.
        again: the request before is sent once more, unchanged.
    """

    text: str = ""
    keep: int | None = None
    n_sentences: int = 0
    again: bool = False


CONVERSATIONS: Mapping[str, Sequence[Turn]] = {
    "conversation-short": (
        Turn("Name three rivers."),
        Turn("Which of them is the longest?"),
        Turn("Is it clean?"),
        Turn("Thank you. Write one sentence about it."),
    ),
    "conversation-long": (
        Turn("{text}\n\nWhat is said about trains?", n_sentences=32),
        Turn("And about bees?"),
        Turn("{text}\n\nDoes this change your answer?", n_sentences=6),
    ),
    "conversation-taken-up-again": (
        Turn("{text}\n\nWhat is the first sentence about?", n_sentences=12),
        Turn(again=True),
        Turn("What is the last sentence about?"),
        Turn("No: what is the second sentence about?", keep=2),
    ),
}
"""Greedy, through /v1/chat/completions: each turn sends the answers so far and reuses the slot."""
