"""Calls of Kimi K3, whose messages are sections between marks of three tokens; see `specialized_calls`."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from engine.chat_formats import parts
from engine.chat_formats.parts import CONTENT, REASONING, at_once, call_name
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.specialized_parts import Asked
from engine.chat_formats.tools import Tool

_SEP: Final = "<|sep|>"


def _opened(name: str) -> str:
    return f"<|open|>{name}{_SEP}"


def _closed(name: str) -> str:
    return f"<|close|>{name}{_SEP}"


TOOLS: Final = _opened("tools")
"""What begins calls."""


def kimi_k3(b: Builder, asked: Asked) -> Parser:
    """The parser of an answer that may have calls."""
    lit = partial(partial, b.literal)
    end, start = b.end(), b.optional(b.literal(_opened('message role="assistant"')))
    body = b.until(_closed("think"), _opened("response"))
    thought = b.tag(CONTENT if asked.keep_reasoning else REASONING, body)

    def maybe(text: str) -> partial[Parser]:
        return partial(_maybe, b, text)

    reasoning = b.optional(b.plus(maybe(_opened("think")), thought, maybe(_closed("think"))))
    ends = (_closed("response"), TOOLS, _closed("message"))
    text = b.plus(maybe(_opened("response")), lambda: b.tag(CONTENT, b.until(*ends)), maybe(_closed("response")))
    trailer = b.plus(maybe(_closed("message")), maybe("<|end_of_msg|>"))
    choice = b.choice()
    for tool in asked.tools.tools:
        choice = b.choice(choice, b.rule(f"kimi-k3-tool-{tool.name}", _call(b, tool)))
    section = b.plus(
        *(lit(TOOLS), lambda: b.repeat(choice, 1, -1), lit(_closed("tools"))),
        *(maybe(_closed("message")), maybe("<|end_of_msg|>")),
    )
    calls = b.rule("kimi-k3-tool-call", section, triggers=True)
    calls = calls if asked.tools.must_call else b.optional(calls)
    return b.plus(start, reasoning, text, calls, trailer, end)


def _maybe(b: Builder, text: str) -> Parser:
    return b.optional(b.literal(text))


def _call(b: Builder, tool: Tool) -> Parser:
    lit = partial(partial, b.literal)
    body, schema = b.empty(), tool.schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if properties:
        choice = b.choice()
        for key, of_it in properties.items():
            rule = b.rule(f"kimi-k3-arg-{tool.name}-{key}", _argument(b, key, of_it))
            choice = b.choice(choice, rule)
        body = b.many(choice)

    def opening() -> Parser:
        named = partial(call_name, b, tool.name)
        inside = b.plus(lit('<|open|>call tool="'), named, lit('"'), partial(b.until, _SEP), lit(_SEP))
        return at_once(b, parts.CALL_OPEN, inside)

    def closing() -> Parser:
        return at_once(b, parts.CALL_CLOSE, b.literal(_closed("call")))

    return b.tag(parts.CALL, b.plus(opening, lambda: b.tag(parts.ARGUMENTS, body), closing))


def _argument(b: Builder, key: str, schema: Any) -> Parser:
    """An argument; what its schema does not call something else is text."""
    lit, end = partial(partial, b.literal), _closed("argument")
    kind = schema.get("type") if isinstance(schema, dict) else None
    is_text = kind == "string" or not isinstance(kind, str)
    value = b.tag(parts.ARGUMENT_TEXT if is_text else parts.ARGUMENT_VALUE, b.until(end))
    opening, closing = partial(at_once, b, parts.ARGUMENT_OPEN), partial(at_once, b, parts.ARGUMENT_CLOSE)
    named = partial(at_once, b, parts.ARGUMENT_NAME)
    argument = b.plus(
        *(lambda: opening(b.literal('<|open|>argument key="')), lambda: named(b.literal(key)), lit('"')),
        *(partial(b.until, _SEP), lit(_SEP), value, lambda: closing(b.literal(end))),
    )
    return b.tag(parts.ARGUMENT, argument)
