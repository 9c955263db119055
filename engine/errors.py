"""What can go wrong in the engine, one exception type per outcome. The server maps each to a status and a body."""

from __future__ import annotations

_LONGEST = 1000  # characters of a text that quotes a model file
_HEAD, _TAIL = 750, 200  # of one that is longer


def one_line(text: str) -> str:
    """A text that quotes what a file says, whatever that is, as one printable line that is not too long."""
    if len(text) <= 4 * _LONGEST:
        line = _printable(text)
        return line if len(line) <= _LONGEST else f"{line[:_HEAD]} ... {line[-_TAIL:]}"
    # A file can say megabytes; only what is shown is worth looking at.
    return f"{_printable(text[: 2 * _LONGEST])[:_HEAD]} ... {_printable(text[-2 * _LONGEST :])[-_TAIL:]}"


def shown(value: object) -> str:
    """A value of a header as a refusal quotes it: of an array only that it is one, for it may be long."""
    return repr(value) if value is None or isinstance(value, str | int | float) else "an array"


def _printable(text: str) -> str:
    text = " ".join(line.strip() for line in text.splitlines())
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class EngineError(Exception):
    """Base of every error the engine raises on purpose; its text is fit for a client."""


class InvalidModelFile(EngineError):
    """The file is not a GGUF v3 file, is cut short, or contradicts itself."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class TruncatedModelFile(InvalidModelFile):
    """The file is the beginning of one that may be good: it was cut, or is still on its way.

    Args:
        message: what is missing.
        needed: bytes that the file must have at the least.
    """

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message)
        self.needed = needed


class ModelFileLost(EngineError):
    """A model file that is in use was cut, written to, or cannot be read any more: what it gave is worth nothing."""

    def __init__(self, path: object) -> None:
        super().__init__(f"model file '{path}' changed while it was in use")


class UnplayableModel(EngineError):
    """A well-formed file that this engine does not play.

    Args:
        reasons: each names a tensor or key and why; the text has the first few of them.
    """

    _SHOWN = 3

    def __init__(self, *reasons: str) -> None:
        reasons = tuple(map(one_line, reasons))
        rest = len(reasons) - self._SHOWN
        more = (f"and {rest} more (bankml guard shows them)",) if rest > 0 else ()
        super().__init__("; ".join((*reasons[: self._SHOWN], *more)))
        self.reasons = reasons


class InvalidRequest(EngineError):
    """A request field has a value that cannot be honoured; the text is llama-server's where it has one."""


class InvalidGrammar(InvalidRequest):
    """A grammar that cannot be played. The text is llama-server's, which says no more than that.

    Args:
        reason: what is wrong with it, one line.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("Failed to initialize samplers: failed to parse grammar")
        self.reason = reason


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


class InputOverflow(ContextOverflow):
    """A text to be embedded has more tokens than the context; the arguments are `ContextOverflow`'s."""

    def __str__(self) -> str:
        return f"input ({self.n_prompt} tokens) is larger than the max context size ({self.n_ctx} tokens). skipping"


class InputTooLarge(InvalidRequest):
    """A text to be embedded has more tokens than can be evaluated at once.

    Args:
        n_tokens: tokens in the text.
        n_ubatch: tokens in a micro-batch.
    """

    def __init__(self, n_tokens: int, n_ubatch: int) -> None:
        super().__init__(
            f"input ({n_tokens} tokens) is too large to process. increase the physical batch size "
            f"(current batch size: {n_ubatch})"
        )


class Cancelled(EngineError):
    """The client left; the evaluation stopped before its next micro-batch or token."""
