"""The one slot: which tokens the KV cache holds, and how much of it the next prompt can keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Slot:
    """The tokens whose keys and values the engine's cache holds, in order.

    `engine.generation.generate` keeps `tokens` true while it runs, whatever ends it; nobody else writes to it.
    """

    tokens: list[int] = field(default_factory=list)

    def reuse(self, prompt: Sequence[int], cache_prompt: bool = True) -> int:
        """How many leading tokens of `prompt` need no evaluation (llama-server's rule).

        The longest common prefix of the slot and the prompt is kept. When that is the whole prompt, one token less is
        kept, for the logits of the last token must be computed anew. With `cache_prompt` false nothing is kept.

        Args:
            prompt: the new prompt's token ids.
            cache_prompt: the request's field of that name.

        Returns:
            `n_past`, from 0 to `len(prompt) - 1` (0 for an empty prompt).
        """
        if not cache_prompt or not prompt:
            return 0
        held = self.tokens
        limit = min(len(held), len(prompt))
        n_past = next((i for i in range(limit) if held[i] != prompt[i]), limit)
        return n_past - 1 if n_past == len(prompt) else n_past

    def clear(self) -> None:
        """Forget everything, as after loading a model."""
        self.tokens.clear()
