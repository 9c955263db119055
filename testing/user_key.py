"""A user's key, as `ssh-keygen` wrote it for the tests; nobody's account knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PUBLIC: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILcMiO+L/GELsYpiXf2Cl+aP9s/c0UEWicP6L5Z3J/LH tests\n"
PRIVATE: Final = (
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
    "QyNTUxOQAAACC3DIjvi/xhC7GKYl39gpfmj/bP3NFBFonD+i+WdyfyxwAAAIgbidGtG4nR",
    "rQAAAAtzc2gtZWQyNTUxOQAAACC3DIjvi/xhC7GKYl39gpfmj/bP3NFBFonD+i+Wdyfyxw",
    "AAAEDk0IaGNf/cX+HzrGOpmhAaLvpTbOClI3OQF12xb4vkALcMiO+L/GELsYpiXf2Cl+aP",
    "9s/c0UEWicP6L5Z3J/LHAAAABXRlc3Rz",
)
"""The lines of the private key's file, between its first and its last."""


def written(lines: tuple[str, ...] = PRIVATE) -> str:
    """A private key's file with these lines."""
    return "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])


def put_key(home: Path, text: str | None = None) -> Path:
    """Writes the key, or this text in its place, where Ollama keeps it in a home; its path."""
    path = home / ".ollama" / "id_ed25519"
    path.parent.mkdir(exist_ok=True)
    path.write_text(written() if text is None else text)
    return path
