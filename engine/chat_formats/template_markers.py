"""The markers that a template puts around the parts of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.chat_formats.tool_markers import ToolMarkers


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How a template shows reasoning.

    Attributes:
        mode: "none", "tags" (before every answer) or "tools" (before tool calls alone).
        start, end: the markers, with their white space; an empty start where reasoning begins unmarked.
    """

    mode: Literal["none", "tags", "tools"] = "none"
    start: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """How a template shows an answer's text.

    Attributes:
        start, end: the markers around it.
        wrapped: it always stands between both.
    """

    start: str = ""
    end: str = ""
    wrapped: bool = False


@dataclass(frozen=True, slots=True)
class TemplateAnalysis:
    """What was found.

    Attributes:
        reasoning, content, tools: the markers.
        preserved: the markers once more, trimmed: where one is a token of its own, an answer shows that token's text.
        stops: stop strings that every chat answer has.
    """

    reasoning: Reasoning
    content: Content
    tools: ToolMarkers
    preserved: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
