"""Calls that are JSON objects: their expressions, in the three shapes that llama-server b11192 knows.

As everywhere in these parsers, expressions are made in the order of the reference's compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.chat_formats import parts
from engine.chat_formats.parts import at_once, call_name
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.tool_markers import ToolMarkers
from engine.chat_formats.tools import Schemas, ToolUse, arguments
from engine.json_schema.nodes import Node


def json_calls(
    builder: Builder, markers: ToolMarkers, around: tuple[str, str], use: ToolUse, schemas: Schemas
) -> Parser:
    """One call, or several, between two markers.

    Raises:
        InvalidRequest: a function's schema cannot be.
    """
    builder.empty()
    calls = _Calls(builder, markers)
    made = calls.choice(use, schemas)
    inside = made
    if use.parallel:
        inside = builder.plus(
            inside, lambda: builder.many(builder.plus(builder.space, calls.text(","), builder.space, made))
        )
    if markers.in_array:
        inside = builder.plus(calls.text("["), builder.space, inside, builder.space, calls.text("]"))
    start, end = around
    section = builder.plus(calls.text(start), builder.space, inside, builder.space, calls.text(end))
    section = builder.rule("tool-call", section, triggers=True)
    return section if use.must_call else builder.optional(section)


def _split(key: str) -> tuple[str, str]:
    """A key's object, "" for none, and its name in it."""
    outer, dot, name = key.partition(".")
    return (outer, name) if dot else ("", key)


class _Calls:
    """Makes the expressions of calls with these keys."""

    def __init__(self, builder: Builder, markers: ToolMarkers) -> None:
        self._b = builder
        self._markers = markers
        name, arguments_ = markers.name_field, markers.arguments_field
        if markers.function_field not in ("", "function") and "." not in name:
            name, arguments_ = f"{markers.function_field}.{name}", f"{markers.function_field}.{arguments_}"
        self._name_key, self._arguments_key = name or "name", arguments_ or "arguments"
        self._bare_arguments = not arguments_

    def text(self, text: str) -> Callable[[], Parser]:
        """Makes a fixed text in its turn."""
        return partial(self._b.literal, text)

    def choice(self, use: ToolUse, schemas: Schemas) -> Parser:
        """A call of any of the functions."""
        choice = self._b.choice()
        make = self._shape()
        for tool in use.tools:
            call = make(tool.name, schemas.read(tool.schema))
            choice = self._b.choice(choice, self._b.rule(f"tool-{tool.name}", self._b.tag(parts.CALL, call)))
        return choice

    def _shape(self) -> Callable[[str, Node], Parser]:
        if self._markers.name_is_key:
            return self._keyed
        if "." in self._name_key or "." in self._arguments_key:
            return self._nested
        name_key = self._b.literal(f'"{self._name_key}"')
        return partial(self._flat, name_key, self._b.literal(f'"{self._arguments_key}"'))

    def _field(self, key: Parser | Callable[[], Parser], value: Parser | Callable[[], Parser]) -> Parser:
        """A key, a colon and a value."""
        return self._b.plus(key, self._b.space, self.text(":"), self._b.space, value)

    def _name(self, name: str) -> Parser:
        """The function's name in quotes."""
        inside = self._b.plus(self.text('"'), lambda: call_name(self._b, name), self.text('"'))
        return self._b.atomic(inside)

    def _open(self) -> Parser:
        return at_once(self._b, parts.CALL_OPEN, self._b.literal("{"))

    def _close(self) -> Parser:
        return at_once(self._b, parts.CALL_CLOSE, self._b.literal("}"))

    # -- ids -------------------------------------------------------------------------------------------------------

    def _text_id(self) -> Parser:
        """An id in quotes."""
        body = partial(at_once, self._b, parts.CALL_ID)
        return self._b.plus(self.text('"'), lambda: body(self._b.string_content('"')), self.text('"'))

    def _text_or_number(self) -> Parser:
        """An id in quotes, or a number."""
        text = self._text_id()
        return self._b.choice(text, at_once(self._b, parts.CALL_ID, self._b.json_number()))

    def _text_id_field(self, key: str) -> Parser:
        """A field whose value is an id in quotes."""
        b = self._b
        body = partial(at_once, b, parts.CALL_ID)
        return b.atomic(
            b.plus(
                *(self.text(f'"{key}"'), b.space, self.text(":"), b.space),
                *(self.text('"'), lambda: body(b.string_content('"')), self.text('"')),
            )
        )

    def _id_field(self, key: str) -> Parser:
        """A field whose value is an id, in quotes or a number."""
        return self._b.atomic(self._field(self.text(f'"{key}"'), self._text_or_number))

    # -- shapes ----------------------------------------------------------------------------------------------------

    def _flat(self, name_key: Parser, arguments_key: Parser, name: str, node: Node) -> Parser:
        """`{"name": ..., "arguments": ...}`, with ids where the template has them, in its order."""
        b, markers = self._b, self._markers
        fields = [
            (self._name_key, self._field(name_key, lambda: self._name(name))),
            (self._arguments_key, self._field(arguments_key, lambda: arguments(b, name, node))),
        ]
        ids = [(key, self._id_or_nothing(key)) for key in (markers.id_field, markers.generated_id_field)]
        fields += [(key, b.optional(field)) for key, field in ids if key]
        order = markers.field_order
        fields.sort(key=lambda field: order.index(field[0]) if field[0] in order else len(order))
        kind = b.empty()
        if markers.openai_wrapper:
            wrapper = ('"type"', ":", '"function"', ",")
            kind = b.optional(b.plus(*(part for text in wrapper for part in (self.text(text), b.space))))
        call = b.plus(self._open, b.space, kind)
        for number, (_, field) in enumerate(fields):
            call = b.plus(call, field)
            if number < len(fields) - 1:
                call = b.plus(call, b.space, self.text(","), b.space)
        return b.plus(call, b.space, self._close)

    def _id_or_nothing(self, key: str) -> Parser:
        nothing = self._b.empty()  # made in any case, as there
        return self._id_field(key) if key else nothing

    def _nested(self, name: str, node: Node) -> Parser:
        """`{"function": {"name": ..., "arguments": ...}}`, behind ids where the template has them."""
        b, markers = self._b, self._markers
        (outer, name_key), (other, arguments_key) = map(_split, (self._name_key, self._arguments_key))
        outer = outer or other
        named = self._field(self.text(f'"{name_key}"'), lambda: self._name(name))
        given = self._field(self.text(f'"{arguments_key}"'), lambda: arguments(b, name, node))
        inner = b.plus(
            *(self.text("{"), b.space, named, b.space, self.text(","), b.space),
            *(given, b.space, self.text("}")),
        )
        call = b.plus(self._open, b.space)
        ids = ((markers.id_field, self._text_id_field), (markers.generated_id_field, self._id_field))
        for key, make in ids:
            if key and "." not in key:
                call = self._with_id(call, make(key))
        field = self._field(self.text(f'"{outer}"'), inner)
        return b.plus(call, field, b.space, self._close)

    def _with_id(self, call: Parser, field: Parser) -> Parser:
        b = self._b
        return b.plus(call, lambda: b.optional(b.plus(field, b.space, self.text(","), b.space)))

    def _comma(self) -> Parser:
        return self._b.optional(self._b.plus(self.text(","), self._b.space))

    def _keyed(self, name: str, node: Node) -> Parser:
        """`{"function's name": {...}}`: the arguments themselves, or an object with ids and them."""
        b, markers = self._b, self._markers
        fields = []
        ids = ((markers.id_field, self._text_id_field), (markers.generated_id_field, self._id_field))
        for key, make in ids:
            if key:
                fields.append(b.optional(b.plus(make(key), b.space, self._comma)))
        b.empty()
        if self._bare_arguments:
            fields.append(arguments(b, name, node))
        else:
            fields.append(self._field(self.text(f'"{self._arguments_key}"'), lambda: arguments(b, name, node)))
        inner = b.empty()
        if self._bare_arguments and len(fields) == 1:
            inner = fields[0]
        else:
            inner = b.plus(self.text("{"), b.space)
            for number, field in enumerate(fields):
                inner = b.plus(inner, field)
                inner = b.plus(inner, b.space) if number < len(fields) - 1 else inner
            inner = b.plus(inner, b.space, self.text("}"))
        return b.plus(
            *(self._open, b.space, self.text('"'), lambda: call_name(b, name), self.text('"')),
            *(b.space, self.text(":"), b.space, inner, b.space, self._close),
        )
