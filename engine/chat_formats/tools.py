"""The tools of a request: what a template shows of them, and what their calls must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from engine.chat_formats import parts
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.json_schema import parse_schema
from engine.json_schema.limits import Budget
from engine.json_schema.nodes import Node
from engine.json_schema.warning_list import Warnings

_NO_PARAMETERS: Final = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that may be called.

    Attributes:
        parameters: their JSON schema, as it was given.
    """

    name: str
    description: str
    parameters: Any

    def as_json(self) -> dict[str, Any]:
        """The tool as templates get it: OpenAI's shape."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @property
    def schema(self) -> Any:
        """The schema of its arguments: an object without any where none was given."""
        given = self.parameters
        return _NO_PARAMETERS if given is None or (isinstance(given, Mapping) and not given) else given


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of a request and how they may be called.

    Attributes:
        parallel: several calls may be made in one answer.
    """

    tools: tuple[Tool, ...] = ()
    choice: Literal["auto", "none", "required"] = "auto"
    parallel: bool = False

    @property
    def may_call(self) -> bool:
        """Whether the answer may have calls."""
        return bool(self.tools) and self.choice != "none"

    @property
    def must_call(self) -> bool:
        """Whether it has to have one."""
        return self.choice == "required"


NO_TOOLS: Final = ToolUse()


class Schemas:
    """Reads the schemas of one request's tools.

    Attributes:
        found: what no node of them holds.
    """

    def __init__(self) -> None:
        self._budget = Budget()
        self.found = Warnings()

    def read(self, schema: Any) -> Node:
        """The outermost node of a schema.

        Raises:
            InvalidRequest: the reference refuses it, or it passes a limit.
        """
        return parse_schema(schema, self._budget, self.found).root


def arguments(builder: Builder, name: str, node: Node) -> Parser:
    """The arguments of a function, as JSON that follows their schema."""
    return builder.tag(parts.ARGUMENTS, builder.schema(builder.json(), f"tool-{name}-schema", node))
