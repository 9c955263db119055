"""What can go wrong on the way from or to a registry. The texts are Ollama's where it has one, and fit for one line."""

from __future__ import annotations

from registry.errors import DownloadError


class TransferError(DownloadError):
    """It did not come, or did not go; the message says why."""


class NotThere(TransferError):
    """The registry does not have it (404); the text is Ollama's, which is Go's for a file that is not there."""

    def __init__(self) -> None:
        super().__init__("file does not exist")


class Refused(TransferError):
    """The registry answered with an error that another try does not change.

    Args:
        status: the answer's.
        text: what it says.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Unauthorized(TransferError):
    """The registry wants to know who asks."""


class NotPlayable(TransferError):
    """The model is there, and cannot be played here; nothing of it is kept."""
