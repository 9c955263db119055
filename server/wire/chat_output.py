"""The form a chat request wants its answer in: `response_format`, `json_schema` and `grammar`.

llama-server's chat endpoint turns them into its template's grammar. What it lets stand goes on to the completion
fields, where a schema that is no object still makes a grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from engine.chat_formats.formats import ChatFormat
from engine.errors import InvalidRequest
from engine.json_schema import json_schema_to_grammar
from engine.sampling import SamplingParams
from server.errors import BadRequest

KNOWN: Final = frozenset({"response_format", "json_schema", "grammar"})
"""The fields read here."""

OVERRIDDEN: Final = frozenset(
    {
        *("chat_format", "chat_parser", "generation_prompt", "grammar_type", "grammar_lazy", "grammar_triggers"),
        "preserved_tokens",
    }
)
"""Completion fields that the chat endpoint sets itself, whatever the request says."""


class Encoder(Protocol):
    """What is needed of a tokenizer."""

    def encode(self, text: str, /, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """What an answer must be.

    Attributes:
        schema: for JSON in the template's grammar; None for any text. Only an object asks for anything.
        grammar: GBNF of the request's own.
        completion_schema: a schema for a grammar without the template's surroundings, None for none.
        ignored: fields without effect.
    """

    schema: Any = None
    grammar: str = ""
    completion_schema: Any = None
    ignored: tuple[str, ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether the template's grammar holds the answer."""
        return isinstance(self.schema, Mapping)


def parse_output(body: Mapping[str, Any]) -> WantedOutput:
    """Read the fields.

    Raises:
        BadRequest: a form nobody knows, or both a schema and a grammar.
    """
    given = body.get("json_schema")
    grammar = body.get("grammar")
    ignored = [name for name in OVERRIDDEN if body.get(name) is not None]
    if grammar is not None and not isinstance(grammar, str):
        ignored.append("grammar")
    grammar = grammar if isinstance(grammar, str) else ""
    if given is not None and grammar:
        raise BadRequest("Cannot use both json_schema and grammar")
    schema = _schema(body.get("response_format"), given)
    if schema == {}:
        schema = {"type": "object"}
    if isinstance(schema, Mapping):
        if grammar:
            ignored.append("grammar")
        return WantedOutput(schema, ignored=tuple(sorted(ignored)))
    if schema is not None and schema is not given:
        ignored.append("response_format")
    without_grammar = "grammar" not in body
    if given is not None and not without_grammar:
        ignored.append("json_schema")
    completion_schema = given if without_grammar else None
    return WantedOutput(None, grammar, completion_schema, tuple(sorted(ignored)))


def _schema(response_format: Any, given: Any) -> Any:
    """The schema that `response_format` and `json_schema` mean together."""
    if not isinstance(response_format, Mapping):
        return given
    kind = response_format.get("type")
    if not isinstance(kind, str) or kind in ("", "text"):
        return given
    if kind == "json_object":
        if "schema" in response_format or given in (None, {}, []):
            return _or_any(response_format.get("schema"))
        return given
    if kind == "json_schema":
        wrapper = response_format.get("json_schema")
        return _or_any(wrapper.get("schema") if isinstance(wrapper, Mapping) else None)
    raise BadRequest(f'response_format type must be one of "text" or "json_object", but got: {kind}')


def _or_any(schema: Any) -> Any:
    return {} if schema is None else schema


def constrained(
    sampling: SamplingParams, wanted: WantedOutput, form: ChatFormat, tokenizer: Encoder
) -> tuple[SamplingParams, tuple[str, ...]]:
    """The sampling of a chat answer: held to a grammar if one is wanted, and with the tokens its template has.

    Returns:
        the parameters, and what of a schema the grammar leaves out.

    Raises:
        InvalidRequest: the schema cannot be.
    """
    preserved = [tokenizer.encode(text, add_special=False, parse_special=True) for text in form.preserved]
    sampling = replace(
        sampling,
        preserved_tokens=tuple(sorted({tokens[0] for tokens in preserved if len(tokens) == 1})),
        generation_prompt=form.generation_prompt,
    )
    if form.grammar:
        return replace(sampling, grammar=form.grammar, grammar_type="tool_calls"), form.warnings
    if wanted.completion_schema is not None:
        try:
            found = json_schema_to_grammar(wanted.completion_schema)
        except InvalidRequest as error:
            raise InvalidRequest(f"Field 'json_schema': \"json_schema\": {error}") from None
        return replace(sampling, grammar=found.text, grammar_type="output_format"), tuple(found.warnings)
    if wanted.grammar:
        return replace(sampling, grammar=wanted.grammar, grammar_type="user"), ()
    return sampling, ()
