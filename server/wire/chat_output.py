"""The form a chat request wants its answer in: `response_format`, `json_schema` and `grammar`.

llama-server's chat endpoint makes its template's grammar of a schema. What it lets stand goes on to the completion
fields: a grammar of the request's own, or a schema that is no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.chat_formats.formats import ChatFormat
from engine.json_schema import SchemaGrammar
from server.errors import BadRequest
from server.wire.fields import CompletionFields

OVERRIDDEN: Final = frozenset(
    {
        *("chat_format", "chat_parser", "generation_prompt", "grammar_type", "grammar_lazy", "grammar_triggers"),
        "preserved_tokens",
    }
)
"""Completion fields that the chat endpoint sets itself, whatever the request says."""


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """What an answer must be.

    Attributes:
        schema: a JSON schema for the template's grammar, None for any text.
        consumed: fields that are not the completion fields' any more.
        ignored: fields without effect.
    """

    schema: Mapping[str, Any] | None = None
    consumed: frozenset[str] = OVERRIDDEN | {"response_format"}
    ignored: tuple[str, ...] = ()


def parse_output(body: Mapping[str, Any]) -> WantedOutput:
    """Read the fields.

    Raises:
        BadRequest: a form nobody knows, or both a schema and a grammar.
    """
    given, grammar = body.get("json_schema"), body.get("grammar")
    if given is not None and isinstance(grammar, str) and grammar:
        raise BadRequest("Cannot use both json_schema and grammar")
    schema = _schema(body.get("response_format"), given)
    ignored = {name for name in OVERRIDDEN if body.get(name) is not None}
    if isinstance(schema, Mapping):
        consumed = {"response_format", "json_schema", "grammar"}
        ignored |= {"grammar"} if grammar else set()
        ignored |= {"json_schema"} if given is not None and schema is not given else set()
        return WantedOutput(schema or {"type": "object"}, OVERRIDDEN | consumed, tuple(sorted(ignored)))
    if schema is not given:
        ignored.add("response_format")
    return WantedOutput(ignored=tuple(sorted(ignored)))


def _schema(response_format: Any, given: Any) -> Any:
    """The schema that `response_format` and `json_schema` mean together."""
    if not isinstance(response_format, Mapping):
        return given
    kind = response_format.get("type")
    if not isinstance(kind, str) or kind in ("", "text"):
        return given
    if kind == "json_object":
        empty = given is None or given in ({}, [])
        return _or_any(response_format.get("schema")) if "schema" in response_format or empty else given
    if kind == "json_schema":
        wrapper = response_format.get("json_schema")
        return _or_any(wrapper.get("schema") if isinstance(wrapper, Mapping) else None)
    raise BadRequest(f'response_format type must be one of "text" or "json_object", but got: {kind}')


def _or_any(schema: Any) -> Any:
    return {} if schema is None else schema


def formed(fields: CompletionFields, form: ChatFormat, reasoning_message: str = "") -> CompletionFields:
    """The completion fields of a chat request, with what the form of its answer asks of them.

    Args:
        reasoning_message: the command line's, for a request that has none.
    """
    update: dict[str, Any] = {
        "generation_prompt": form.generation_prompt,
        "preserved_tokens": form.preserved,
        "stop": (*fields.stop, *form.stops),
    }
    if form.thinking:
        start, *ends = form.thinking
        update |= {"reasoning_budget_start_tag": start, "reasoning_budget_end_tags": tuple(ends)}
        if fields.reasoning_budget_message is None:
            update["reasoning_budget_message"] = reasoning_message
    if form.grammar:
        update["json_schema"] = SchemaGrammar(form.grammar, form.warnings)
        update |= {"grammar_lazy": form.lazy, "grammar_triggers": form.triggers if form.lazy else None}
    return fields.model_copy(update=update)
