"""What the parsers of special kinds of templates are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.tools import NO_TOOLS, Schemas, ToolUse

IM_START: Final = "<|im_start|>assistant\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides the parser.

    Attributes:
        source: the template's.
        opening: what the template opens an answer with.
        generation_prompt: the same, or what there is of an answer that goes on.
        schema: the answer's JSON schema, or None.
        keep_reasoning: reasoning stays in the content.
        tools: what may be called.
        schemas: reads their schemas.
    """

    source: str
    opening: str
    generation_prompt: str
    schema: Mapping[str, Any] | None
    keep_reasoning: bool
    tools: ToolUse = NO_TOOLS
    schemas: Schemas = field(default_factory=Schemas)


Make = Callable[[Builder, Asked], Parser]
