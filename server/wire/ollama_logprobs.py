"""`logprobs` and `top_logprobs` of Ollama's answers, pure: steps in, its objects out.

Field names are those of `api/types.go` (`Logprob`, `TokenLogprob`). Each token stands with its own bytes, so that the
tokens joined are the text; the tokens of one character stand together, with the probability of the last. The numbers
are llama-server's: the model's own, before any sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.generation import Shown, Step
from server.wire.golang import as_text


class Logprobs:
    """The tokens of one answer with their probabilities, each ready when its text is sent.

    Args:
        n_best: `top_logprobs`, the most likely tokens to show beside each.
        piece: the bytes of a token.
    """

    def __init__(self, n_best: int, piece: Callable[[int], bytes]) -> None:
        self._n_best = n_best
        self._piece = piece
        self._data = b""
        self._tokens: list[dict[str, Any]] = []
        self._n_sent = 0

    def push(self, step: Step) -> list[dict[str, Any]]:
        """What goes out with a step's text: nothing while a stop string may have begun, and nothing of the stop string
        that did. The token that ends an answer has no text and is left out, as Ollama does."""
        final = step.final
        if step.token is not None:
            self._data += self._piece(step.token)
        ended = final is not None and final.stop_type == "eos"
        if step.shown is not None and not ended:
            self._tokens.append(self._entry(step.shown))
            self._data = b""
        if not step.text and final is None:
            return []
        n_kept = len(self._tokens)
        if final is not None and final.stop_type == "word":
            n_kept = len(final.shown)
        ready = self._tokens[self._n_sent : n_kept]
        self._n_sent += len(ready)
        return ready

    def _entry(self, shown: Shown) -> dict[str, Any]:
        entry = _token(self._data, shown.logprob)
        if self._n_best:
            entry["top_logprobs"] = [_token(best.data, best.logprob) for best in shown.best[: self._n_best]]
        return entry


def _token(data: bytes, logprob: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"token": as_text(data), "logprob": logprob}
    if data:
        entry["bytes"] = list(data)
    return entry
