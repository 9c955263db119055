"""What ends a command; nothing here is slow to import."""

from __future__ import annotations


class CommandError(Exception):
    """Why a command did not do what it was asked to: one line for stderr, and exit status 1."""
