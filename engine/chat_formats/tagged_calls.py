"""Calls whose function is named in tags, and whose arguments are JSON or stand in tags of their own.

As everywhere in these parsers, expressions are made in the order of the reference's compiled code
(llama-server b11192, `chat-auto-parser-generator.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.chat_formats import parts
from engine.chat_formats.parts import at_once, call_name
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.tool_markers import ToolMarkers
from engine.chat_formats.tools import Schemas, Tool, ToolUse, arguments
from engine.json_schema.kinds import may_be_string
from engine.json_schema.nodes import ObjectValue, Property


class TaggedCalls:
    """Makes the expressions of calls between these markers.

    Args:
        builder: makes expressions.
        markers: the template's.
        schemas: reads the functions' schemas.
    """

    def __init__(self, builder: Builder, markers: ToolMarkers, schemas: Schemas) -> None:
        self._b = builder
        self._m = markers
        self._schemas = schemas

    def _text(self, text: str) -> Callable[[], Parser]:
        """Makes a fixed text in its turn."""
        return partial(self._b.literal, text)

    # -- all calls -------------------------------------------------------------------------------------------------

    def with_json(self, use: ToolUse) -> Parser:
        """One call or several; the arguments are one JSON object.

        Raises:
            InvalidRequest: a function's schema cannot be.
        """
        b, m = self._b, self._m
        choice = b.choice()
        for tool in use.tools:
            choice = b.choice(choice, b.rule(f"tool-{tool.name}", self._json_function(tool)))
        b.empty()
        if not m.call_start:
            calls = self._in_section(use, choice)
        else:
            wrapped = b.plus(m.call_start, choice, m.call_end)
            if use.parallel:
                wrapped = b.plus(wrapped, partial(self._more, wrapped))
            calls = b.rule("tool-call", wrapped, triggers=True)
            if m.section_start:
                end = self._text(m.section_end) if m.section_end else b.end
                section = b.plus(self._text(m.section_start), b.space, calls, b.space, end)
                calls = b.rule("tool-calls", section, triggers=True)
        return calls if use.must_call else b.optional(calls)

    def _in_section(self, use: ToolUse, choice: Parser) -> Parser:
        """Calls without markers of their own, between those of the section."""
        start, end = self._m.section_start, self._m.section_end
        others = [partial(self._separated, choice)] if use.parallel else []
        return self._b.rule("tool-call", self._b.plus(start, choice, *others, end), triggers=True)

    def _more(self, wrapped: Parser) -> Parser:
        return self._b.many(self._b.plus(self._b.space, wrapped))

    def _separated(self, choice: Parser) -> Parser:
        return self._b.many(self._b.plus(", ", choice))

    def with_tags(self, use: ToolUse) -> Parser:
        """One call or several; each argument has tags of its own.

        Raises:
            InvalidRequest: a function's schema cannot be.
        """
        b, m = self._b, self._m
        value = b.rule("until-suffix", b.until(m.value_suffix))
        choice = b.choice()
        for tool in use.tools:
            choice = b.choice(choice, b.rule(f"tool-{tool.name}", self._tagged_function(tool, value)))
        b.empty()
        if not m.call_start:
            others = [partial(self._separated, choice)] if use.parallel else []
            section = b.plus(m.section_start, b.space, choice, *others, b.space, m.section_end)
            calls = b.rule("tool-call", section, triggers=True)
        else:
            wrapped = b.plus(m.call_start, b.space, choice, b.space, m.call_end)
            others = [partial(self._more, wrapped)] if use.parallel else []
            calls = b.rule("tool-call", b.plus(wrapped, *others, b.space), triggers=True)
            if m.section_start:
                section = b.plus(self._text(m.section_start), b.space, calls, b.space, self._section_end)
                calls = b.rule("tool-calls", section, triggers=True)
        return calls if use.must_call else b.optional(calls)

    def _section_end(self) -> Parser:
        b = self._b
        return b.plus(self._text(self._m.section_end), b.space) if self._m.section_end else b.end()

    # -- one call --------------------------------------------------------------------------------------------------

    def _json_function(self, tool: Tool) -> Parser:
        b, m = self._b, self._m
        node = self._schemas.read(tool.schema)
        call_id = self._call_id(inside=False)
        body = arguments(b, tool.name, node)
        peek = b.peek(b.literal(m.arguments_start)) if m.arguments_start else None
        return self._function(tool.name, call_id, self._bracketed(body), peek)

    def _bracketed(self, body: Parser) -> Parser:
        """Arguments between their markers."""
        b, m = self._b, self._m
        body = b.plus(self._text(m.arguments_start), body) if m.arguments_start else body
        return b.plus(body, self._text(m.arguments_end)) if m.arguments_end else body

    def _tagged_function(self, tool: Tool, value: Parser) -> Parser:
        b, m = self._b, self._m
        node = self._schemas.read(tool.schema)
        required: list[Parser] = []
        optional: list[Parser] = []
        for argument in node.properties if isinstance(node, ObjectValue) else ():
            name = f"tool-{tool.name}-arg-{argument.name}"
            named = b.rule(name, self._argument(name, argument, value))
            (required if argument.required else optional).append(named)
        body = b.empty()
        for number, argument_ in enumerate(required):
            body = b.plus(b.plus(body, b.space) if number else body, argument_)
        if optional:
            any_ = b.choice()
            for argument_ in optional:
                any_ = b.choice(any_, argument_)
            body = b.plus(body, lambda: b.many(b.plus(b.space, any_)))
        body = self._bracketed(body)
        call_id = self._call_id(inside=True)
        peek = b.peek(b.literal(m.argument_prefix)) if m.argument_prefix and required else None
        return self._function(tool.name, call_id, body, peek)

    def _argument(self, name: str, argument: Property, value: Parser) -> Parser:
        """An argument in its tags; a string is taken as it is, anything else is JSON."""
        b, m = self._b, self._m

        def opening() -> Parser:
            inside = b.plus(
                m.argument_prefix,
                lambda: at_once(b, parts.ARGUMENT_NAME, b.literal(argument.name)),
                m.argument_suffix,
            )
            return at_once(b, parts.ARGUMENT_OPEN, inside)

        def closing() -> Parser:
            return at_once(b, parts.ARGUMENT_CLOSE, b.literal(m.value_suffix))

        def text() -> Parser:
            return b.including(b.plus(lambda: b.tag(parts.ARGUMENT_TEXT, value), closing), m.value_suffix)

        def json() -> Parser:
            return b.plus(
                lambda: b.tag(parts.ARGUMENT_VALUE, b.schema(b.json(), f"{name}-schema", argument.node)), closing
            )

        body = text if may_be_string(argument.node) else json
        return b.tag(parts.ARGUMENT, b.plus(opening, m.value_prefix, body))

    def _call_id(self, *, inside: bool) -> tuple[Parser, bool]:
        """A call's id between the name and the arguments, and whether one can stand there.

        Args:
            inside: without an id its closing marker is missing too.
        """
        b, m = self._b, self._m
        nothing = b.empty()
        if m.id_position != "before_arguments" or not m.id_prefix or not (m.id_suffix or m.arguments_start):
            return nothing, False
        body = partial(self._id_body, m.id_suffix or m.arguments_start)
        if not m.id_suffix:
            return b.optional(b.plus(m.id_prefix, body)), True
        if inside:
            return b.optional(b.plus(m.id_prefix, body, m.id_suffix)), True
        return b.plus(lambda: b.optional(b.plus(m.id_prefix, body)), m.id_suffix), True

    def _id_body(self, end: str) -> Parser:
        return at_once(self._b, parts.CALL_ID, self._b.until(end))

    def _function(self, name: str, call_id: tuple[Parser, bool], body: Parser, peek: Parser | None) -> Parser:
        """A call: its opening is reported when it is clear that it is one."""
        b, m = self._b, self._m
        between, has_id = call_id
        opened = b.plus(m.name_prefix, lambda: call_name(b, name), m.name_suffix)
        opening = at_once(b, parts.CALL_OPEN, opened)
        b.empty()
        if m.arguments_separator:
            opening = b.plus(opening, b.space, self._text(m.arguments_separator))
        whole = False
        if m.name_suffix:
            call = b.plus(opening, between, b.space, body)
        elif has_id:
            call = b.plus(lambda: b.atomic(b.plus(opening, between)), b.space, body)
        elif peek is not None:
            call = b.plus(lambda: b.atomic(b.plus(opening, between, b.space, peek)), body)
        else:
            call, whole = b.plus(opening, between, b.space, body), True
        call = self._closed(call)
        return b.atomic(call) if whole else call

    def _closed(self, call: Parser) -> Parser:
        b, m = self._b, self._m
        if m.function_end:
            ended = partial(at_once, b, parts.CALL_CLOSE)
            return b.plus(call, b.space, lambda: ended(b.literal(m.function_end)))
        if not m.call_end:
            return b.plus(call, lambda: at_once(b, parts.CALL_CLOSE, b.space()))
        ahead = b.peek(b.plus(b.space, self._text(m.call_end)) if m.space_between_arguments else b.literal(m.call_end))
        return b.plus(call, lambda: at_once(b, parts.CALL_CLOSE, ahead))
