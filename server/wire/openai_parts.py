"""What OpenAI's answers have in common: ids, counts of tokens, and how an answer ended."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping, Sequence
from typing import Any

from engine.generation import Final, Timings

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def new_id(prefix: str = "chatcmpl-") -> str:
    """An answer's id: its prefix, which `/v1/completions` shares with chats, and 32 letters and digits."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(32))


def usage(n_prompt: int, timings: Timings) -> dict[str, Any]:
    """The object `usage` of one answer; the end token counts as a completion token."""
    return {
        "completion_tokens": timings.predicted_n,
        "prompt_tokens": n_prompt,
        "total_tokens": timings.predicted_n + n_prompt,
        "prompt_tokens_details": {"cached_tokens": timings.cache_n},
    }


def summed(usages: Sequence[Mapping[str, Any]], n: int = 1) -> dict[str, Any]:
    """The usage of several answers together, `n` to each prompt; a prompt counts once."""
    completion_tokens = sum(one["completion_tokens"] for one in usages)
    prompt_tokens = sum(one["prompt_tokens"] for one in usages[::n])
    return {
        "completion_tokens": completion_tokens,
        "prompt_tokens": prompt_tokens,
        "total_tokens": completion_tokens + prompt_tokens,
        "prompt_tokens_details": {
            "cached_tokens": sum(one["prompt_tokens_details"]["cached_tokens"] for one in usages[::n])
        },
    }


def finish_reason(final: Final) -> str:
    """OpenAI's word for how an answer ended."""
    return "stop" if final.stop_type in ("eos", "word") else "length"
