"""The names under which a parser reports the parts of a message."""

from __future__ import annotations

from typing import Final

REASONING: Final = "reasoning"
CONTENT: Final = "content"
