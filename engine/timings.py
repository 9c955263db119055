"""What a generation took, as llama-server says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's `timings` object, measured in nanoseconds and shown in its units.

    Attributes:
        cache_n: prompt tokens that were in the slot already.
        prompt_n: prompt tokens evaluated.
        prompt_ns: from the start to the first sampled token (to the last micro-batch while there is none).
        predicted_n: tokens sampled, the end token included.
        predicted_ns: from the first sampled token to the newest.
    """

    cache_n: int = 0
    prompt_n: int = 0
    prompt_ns: int = 0
    predicted_n: int = 0
    predicted_ns: int = 0

    @property
    def prompt_ms(self) -> float:
        return self.prompt_ns // 1000 / 1000.0

    @property
    def prompt_per_token_ms(self) -> float:
        return self.prompt_ms / self.prompt_n if self.prompt_n else 0.0

    @property
    def prompt_per_second(self) -> float:
        return 1e3 / self.prompt_ms * self.prompt_n if self.prompt_ms else 0.0

    @property
    def predicted_ms(self) -> float:
        # llama-server counts in microseconds, at least one once a token is there
        return max(1, self.predicted_ns // 1000) / 1000.0 if self.predicted_n else 0.0

    @property
    def _predicted_steps(self) -> int:
        # the first token is free: its logits come with the prompt
        return max(0, self.predicted_n - 1)

    @property
    def predicted_per_token_ms(self) -> float:
        return self.predicted_ms / self._predicted_steps if self._predicted_steps else 0.0

    @property
    def predicted_per_second(self) -> float:
        return 1e3 / self.predicted_ms * self._predicted_steps if self.predicted_n else 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The object as llama-server writes it, its keys in its order."""
        return {
            "cache_n": self.cache_n,
            "prompt_n": self.prompt_n,
            "prompt_ms": self.prompt_ms,
            "prompt_per_token_ms": self.prompt_per_token_ms,
            "prompt_per_second": self.prompt_per_second,
            "predicted_n": self.predicted_n,
            "predicted_ms": self.predicted_ms,
            "predicted_per_token_ms": self.predicted_per_token_ms,
            "predicted_per_second": self.predicted_per_second,
        }
