"""What can go wrong in the engine, one exception type per outcome. The server maps each to a status and a body."""

from __future__ import annotations


class EngineError(Exception):
    """Base of every error the engine raises on purpose; its text is fit for a client."""


class InvalidModelFile(EngineError):
    """The file is not a GGUF v3 file, is cut short, or contradicts itself."""


class UnplayableModel(EngineError):
    """A well-formed file that this engine does not play; the text names the tensor or key and why."""


class InvalidRequest(EngineError):
    """A request field has a value that cannot be honoured; the text is llama-server's where it has one."""


class ContextOverflow(EngineError):
    """The prompt has as many tokens as the context or more.

    Args:
        n_prompt: tokens in the prompt.
        n_ctx: tokens the context holds.
    """

    def __init__(self, n_prompt: int, n_ctx: int) -> None:
        super().__init__(
            f"request ({n_prompt} tokens) exceeds the available context size ({n_ctx} tokens), try increasing it"
        )
        self.n_prompt = n_prompt
        self.n_ctx = n_ctx


class Cancelled(EngineError):
    """The client left; the evaluation stopped before its next micro-batch or token."""
