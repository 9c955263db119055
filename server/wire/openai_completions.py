"""OpenAI's `/v1/completions` as llama-server b11192 answers it, as pure functions: steps to chunks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Any

from engine.generation import Final, Shown, Step
from engine.timings import Timings
from server.receipts import BUILD
from server.wire.llama import Format, shown_tokens, shows_timings, whole_text
from server.wire.openai_parts import finish_reason, new_id, summed, usage, verbose

COMPLETION_KNOWN = frozenset({"prompt", "model", "message_delimiters"})
"""Fields of a completion request that are not completion fields."""


def completion_choice(
    index: int, text: str, reason: str | None, shown: Sequence[Shown], form: Format, offset: int = 0
) -> dict[str, Any]:
    """One choice of a `/v1/completions` answer or chunk.

    Args:
        shown: tokens whose probabilities it has.
        offset: where the first of them begins in the text of the whole answer.
    """
    logprobs = _logprobs(shown_tokens(shown, form), offset) if shown else None
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason}


def _logprobs(tokens: Sequence[Mapping[str, Any]], offset: int) -> dict[str, Any]:
    """llama-server's `content`, and the same as OpenAI's legacy API has it; not so the probabilities of the draw."""
    logprobs: dict[str, Any] = {"content": tokens}
    if "logprob" not in tokens[0]:
        return logprobs
    texts = [token["token"] for token in tokens]
    logprobs["tokens"] = texts
    logprobs["token_logprobs"] = [token["logprob"] for token in tokens]
    # of two tokens with one text the likelier one counts: it stands first
    best = [{one["token"]: one["logprob"] for one in reversed(token["top_logprobs"])} for token in tokens]
    logprobs["top_logprobs"] = [dict(reversed(one.items())) for one in best]
    logprobs["text_offset"] = [*accumulate(map(len, texts[:-1]), initial=offset)]
    return logprobs


def completion_body(answers: Sequence[tuple[Final, Timings]], form: Format) -> dict[str, Any]:
    """The body of a `/v1/completions` answer that is not streamed: a choice for each answer, the first's timings."""
    choices = [
        completion_choice(index, whole_text(final), finish_reason(final), final.shown, form)
        for index, (final, _) in enumerate(answers)
    ]
    return {
        "choices": choices,
        "created": int(time.time()),
        "model": form.model,
        "system_fingerprint": BUILD,
        "object": "text_completion",
        "usage": summed([usage(final.tokens_evaluated, timings) for final, timings in answers], form.fields.n_cmpl),
        "id": new_id(),
        **verbose(form, lambda native: native.final(0, *answers[0])),
        "timings": answers[0][1].as_dict(),
    }


class CompletionChunks:
    """The chunks of one `/v1/completions` stream."""

    def __init__(self, form: Format) -> None:
        self._form = form
        self._base = {
            "created": int(time.time()),
            "model": form.model,
            "system_fingerprint": BUILD,
            "object": "text_completion",
        }
        self._id = new_id()
        self._offsets: Counter[int] = Counter()

    def of_step(self, index: int, step: Step) -> Iterator[dict[str, Any]]:
        """The chunks of one step of answer `index`; the last one always has the usage."""
        if step.send or step.progress is not None:
            shown = [step.shown] if step.shown is not None and step.shown.best else []
            chunk = self._chunk(index, step.text, shown)
            chunk |= verbose(self._form, lambda native: native.partial(index, step))
            if shows_timings(step, self._form):
                chunk["timings"] = step.timings.as_dict()
            if step.progress is not None:
                chunk["prompt_progress"] = asdict(step.progress)
            yield chunk
        if step.final is not None:
            yield self._last(index, step.final, step.timings)

    def _last(self, index: int, final: Final, timings: Timings) -> dict[str, Any]:
        return {
            "choices": [completion_choice(index, "", finish_reason(final), [], self._form)],
            **self._base,
            "usage": usage(final.tokens_evaluated, timings),
            "id": self._id,
            **verbose(self._form, lambda native: native.final(index, final, timings)),
            "timings": timings.as_dict(),
        }

    def _chunk(self, index: int, text: str, shown: Sequence[Shown] = ()) -> dict[str, Any]:
        choice = completion_choice(index, text, None, shown, self._form, self._offsets[index])
        self._offsets[index] += len(text)
        return {"choices": [choice], **self._base, "id": self._id}

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """The receipt's event.

        For clients that read `choices[0]` of every chunk it has one that adds nothing: no text, and no second reason
        for the end, which some would append to the first.
        """
        return {**self._chunk(0, ""), "bankml_receipt": receipt}
