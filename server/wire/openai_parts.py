"""What OpenAI's answers have in common: ids, counts of tokens, and how an answer ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.chat_formats.call_ids import random_id
from engine.chat_formats.messages import ChatMessage
from engine.generation import Final
from engine.timings import Timings
from server.wire.llama import Format, NativeEvents


def new_id(prefix: str = "chatcmpl-") -> str:
    """An answer's id: its prefix, which `/v1/completions` shares with chats, and 32 letters and digits."""
    return prefix + random_id()


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


def finish_reason(final: Final, message: ChatMessage | None = None) -> str:
    """OpenAI's word for how an answer ended, a chat's message with it."""
    if final.stop_type not in ("eos", "word"):
        return "length"
    return "tool_calls" if message is not None and message.tool_calls else "stop"


def verbose(form: Format, shown: Callable[[NativeEvents], dict[str, Any]]) -> dict[str, Any]:
    """The key `__verbose` with what `shown` takes from the answer in its own shape; nothing if it is not asked for."""
    return {} if form.native is None else {"__verbose": shown(form.native)}
