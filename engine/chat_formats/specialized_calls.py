"""Calls of templates that llama-server b11192 parses by code of their own (`common/parsers/`).

Each function makes the parser of an answer that may have calls. As in `formats`, expressions are made in the order of
the reference's compiled code, whose numbers its grammars show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from engine.chat_formats import parts
from engine.chat_formats.json_calls import json_calls
from engine.chat_formats.parts import CONTENT, REASONING, at_once, call_name
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.python_values import python_or_json
from engine.chat_formats.specialized_calls_k3 import TOOLS, kimi_k3
from engine.chat_formats.specialized_parts import IM_START, Asked, Make
from engine.chat_formats.tool_markers import ToolMarkers
from engine.chat_formats.tools import Tool, arguments
from engine.json_schema.kinds import may_be_string, value_types
from engine.json_schema.nodes import ObjectValue, Property

_VALUE_END: Final = "\n</parameter>\n"
_GIGACHAT_CALL: Final = "<|message_sep|>\n\nfunction call<|role_sep|>\n"


@dataclass(frozen=True, slots=True)
class SpecialCalls:
    """How the calls of a kind of template look.

    Attributes:
        parser: makes the parser of an answer.
        triggers: texts that start a lazy grammar; `{}` stands for each tool's name in turn.
        before_schema: the parser is for a wanted form too, or in its place.
        schema_is_eager: a wanted form makes the grammar hold from the start.
    """

    parser: Make
    triggers: tuple[str, ...]
    before_schema: bool = False
    schema_is_eager: bool = False

    def words(self, tools: tuple[Tool, ...]) -> list[str]:
        """The triggers for these tools."""
        found: list[str] = []
        for text in self.triggers:
            found += [text.format(tool.name) for tool in tools] if "{}" in text else [text]
        return found


def _counts(asked: Asked) -> tuple[int, int]:
    """How many calls there may be."""
    return int(asked.tools.must_call), -1 if asked.tools.parallel else 1


def _json_arguments(b: Builder, asked: Asked, tool: Tool) -> Parser:
    return arguments(b, tool.name, asked.schemas.read(tool.schema))


def _properties(asked: Asked, tool: Tool) -> tuple[Property, ...]:
    node = asked.schemas.read(tool.schema)
    return node.properties if isinstance(node, ObjectValue) else ()


def _ministral(b: Builder, asked: Asked) -> Parser:
    opening, start = b.empty(), "[TOOL_CALLS]"
    if asked.keep_reasoning:
        reasoning = b.empty()
    else:
        thought = partial(_until, b, REASONING, "[/THINK]")
        reasoning = b.optional(b.plus("[THINK]", thought, "[/THINK]"))
    choice = b.choice()
    for tool in asked.tools.tools:

        def named(tool: Tool = tool) -> Parser:
            return at_once(b, parts.CALL_OPEN, b.plus(lambda: call_name(b, tool.name), "[ARGS]"))

        call = b.plus(named, partial(_json_arguments, b, asked, tool))
        choice = b.choice(choice, b.rule(f"tool-{tool.name}", call))
    calls = b.rule("tool-call", b.repeat(b.plus(start, choice), *_counts(asked)), triggers=True)
    return b.plus(opening, lambda: b.spaced(reasoning, partial(_until, b, CONTENT, start), calls))


def _until(b: Builder, tag: str, *delimiters: str) -> Parser:
    return b.tag(tag, b.until(*delimiters))


# -- Qwen3-Coder and its like ------------------------------------------------------------------------------------------


def _qwen3_coder(b: Builder, asked: Asked) -> Parser:
    opening, reasoning = b.literal(IM_START), b.empty()
    thinks = "<think>" in asked.source
    if thinks and not asked.keep_reasoning:
        ended = b.choice(b.literal("</think>"), b.peek(b.literal("<tool_call>")))
        thought = b.tag(REASONING, b.until("</think>", "<tool_call>"))
        reasoning = b.optional(b.plus("<think>", b.space(), thought, ended))
    closing = at_once(b, parts.ARGUMENT_CLOSE, b.literal(_VALUE_END))
    text = b.plus(partial(_until, b, parts.ARGUMENT_TEXT, _VALUE_END), closing)
    text = b.rule("xml-arg-string", b.including(text, _VALUE_END))
    choice = b.choice()
    for tool in asked.tools.tools:
        choice = b.choice(choice, b.rule(f"tool-{tool.name}", _xml_function(b, asked, tool, text, closing)))
    body = b.plus(choice, "</tool_call>", b.space)
    call = first = b.rule("tool-call", b.plus("<tool_call>\n", body))
    if not thinks:  # these models may leave the marker out
        first = b.rule("tool-call-first", b.plus(lambda: b.optional(b.literal("<tool_call>\n")), body))
    calls = b.plus(first, lambda: b.many(call)) if asked.tools.parallel else first
    calls = b.rule("tool-call-root", b.repeat(calls, int(asked.tools.must_call), 1), triggers=True)
    starts = _qwen3_calls(thinks=thinks).words(asked.tools.tools)
    return b.plus(opening, lambda: b.spaced(reasoning, partial(_until, b, CONTENT, *starts), calls))


def _xml_function(b: Builder, asked: Asked, tool: Tool, text: Parser, closing: Parser) -> Parser:
    """A call in tags; required arguments in any order, then any others."""
    required: list[Parser] = []
    optional: list[Parser] = []
    for argument in _properties(asked, tool):
        made = _xml_argument(b, f"tool-{tool.name}-arg-{argument.name}", argument, text, closing)
        (required if argument.required else optional).append(made)
    body = b.permuted(f"tool-{tool.name}-args", required)
    if optional:
        body = b.plus(body, lambda: b.many(b.choice(*optional)))

    def opened() -> Parser:
        return at_once(b, parts.CALL_OPEN, b.plus("<function=", lambda: call_name(b, tool.name), ">\n"))

    def closed() -> Parser:
        return at_once(b, parts.CALL_CLOSE, b.literal("</function>\n"))

    return b.tag(parts.CALL, b.plus(opened, lambda: b.tag(parts.ARGUMENTS, body), closed))


def _xml_argument(b: Builder, name: str, argument: Property, text: Parser, closing: Parser) -> Parser:
    named = partial(at_once, b, parts.ARGUMENT_NAME)
    inside = b.plus("<parameter=", lambda: named(b.literal(argument.name)), ">\n")
    opening = at_once(b, parts.ARGUMENT_OPEN, inside)
    types = value_types(argument.node)
    value = b.empty()
    if "string" not in types:
        json = partial(b.schema, name=f"{name}-schema", schema=argument.node)
        value = b.plus(lambda: b.tag(parts.ARGUMENT_VALUE, json(b.json())), closing)
    elif types == {"string"}:
        value = text
    else:
        value = _json_or_text(b, types, text, closing)
    return b.rule(name, b.tag(parts.ARGUMENT, b.plus(opening, value)))


def _json_or_text(b: Builder, types: frozenset[str], text: Parser, closing: Parser) -> Parser:
    """JSON of one of the types, or else a string; the grammar takes any string."""
    json = b.choice()
    for wanted, make in (
        ({"object"}, b.json_object),
        ({"array"}, b.json_array),
        ({"number", "integer"}, b.json_number),
        ({"boolean"}, b.json_bool),
        ({"null"}, b.json_null),
    ):
        json = b.choice(json, make()) if wanted & types else json
    typed = b.atomic(b.plus(lambda: b.tag(parts.ARGUMENT_VALUE, json), closing))
    return b.written_as(b.choice(typed, text), "xml-arg-string")


def _qwen3_calls(*, thinks: bool) -> SpecialCalls:
    return SpecialCalls(_qwen3_coder, ("<tool_call>",) if thinks else ("<tool_call>", "<function={}>"))


# -- others ------------------------------------------------------------------------------------------------------------


def _kimi_k2(b: Builder, asked: Asked) -> Parser:
    section, call = "<|tool_calls_section_begin|>", "<|tool_call_begin|>"
    end = b.end()
    if asked.keep_reasoning:
        reasoning = b.empty()
    else:
        thought = partial(_until, b, REASONING, "</think>", section, call)
        reasoning = b.optional(b.plus("<think>", thought, lambda: b.optional(b.literal("</think>"))))
    opening, choice = b.literal("<|im_assistant|>assistant<|im_middle|>"), b.choice()
    for tool in asked.tools.tools:
        choice = b.choice(choice, b.rule(f"tool-{tool.name}", _kimi_call(b, asked, tool)))

    def several() -> Parser:
        ended = partial(b.literal, "<|tool_calls_section_end|>")
        repeated = b.plus(
            lambda: b.repeat(b.plus(call, choice), *_counts(asked)),
            lambda: b.optional(ended()),
        )
        return b.rule("tool-call", repeated, triggers=True)

    calls = b.rule("tool-calls", b.plus(lambda: b.optional(b.literal(section)), several))
    return b.plus(opening, reasoning, _until(b, CONTENT, section, call), calls, end)


def _kimi_call(b: Builder, asked: Asked, tool: Tool) -> Parser:
    """A call, whose id names the function."""
    body = b.plus(
        partial(b.literal, "functions."),
        lambda: call_name(b, tool.name),
        partial(b.literal, ":"),
        partial(b.chars, "[0-9]"),
    )
    call_id = at_once(b, parts.CALL_ID, body)
    begun, ended = partial(at_once, b, parts.CALL_OPEN), partial(at_once, b, parts.CALL_CLOSE)
    call = b.plus(
        lambda: begun(b.plus(call_id, partial(b.literal, "<|tool_call_argument_begin|>"))),
        partial(_json_arguments, b, asked, tool),
        lambda: ended(b.optional(b.literal("<|tool_call_end|>"))),
    )
    return b.tag(parts.CALL, call)


def _gigachat(b: Builder, asked: Asked) -> Parser:
    b.empty()
    choice = b.choice()
    for tool in asked.tools.tools:
        name = _member(b, "name", b.plus('"', partial(call_name, b, tool.name), '"'))
        body = _member(b, "arguments", _json_arguments(b, asked, tool))
        opened = at_once(b, parts.CALL_OPEN, b.spaced(partial(b.literal, "{"), name))
        choice = b.choice(choice, b.rule(f"tool-{tool.name}", b.spaced(opened, ",", body, "}")))
    call = b.rule("tool-call", b.plus(partial(b.literal, _GIGACHAT_CALL), choice))
    calls = b.rule("tool-call-root", b.repeat(call, int(asked.tools.must_call), 1), triggers=True)
    answer = b.spaced(partial(_until, b, CONTENT, "<|message_sep|>\n\n"), calls)
    return b.plus(partial(b.literal, "assistant<|role_sep|>\n"), answer)


def _member(b: Builder, key: str, value: Parser) -> Parser:
    """A member of a JSON object."""
    space = b.space()
    return b.sequence(b.literal(f'"{key}"'), space, b.literal(":"), space, value)


def _lfm2(b: Builder, asked: Asked) -> Parser:
    start = "<|tool_call_start|>"
    opening, end, reasoning = b.literal(IM_START), b.end(), b.empty()
    if "<think>" in asked.source and not asked.keep_reasoning:
        reasoning = b.optional(b.plus("<think>", partial(_until, b, REASONING, "</think>"), "</think>"))
    call = b.plus(partial(b.literal, start), lambda: _python_calls(b, asked), partial(b.literal, "<|tool_call_end|>"))
    calls = b.rule("tool-calls", b.rule("tool-call", call, triggers=True))
    return b.plus(opening, reasoning, _until(b, CONTENT, start), calls, end)


def _python_calls(b: Builder, asked: Asked) -> Parser:
    """A list of calls, as Python writes them."""
    choice = b.choice()
    for tool in asked.tools.tools:
        choice = b.choice(choice, b.rule(f"tool-{tool.name}", _python_call(b, tool)))
    others = [lambda: b.many(b.plus(",", b.space, choice))] if asked.tools.parallel else []
    return b.plus("[", b.space, choice, *others, b.space, "]")


def _python_call(b: Builder, tool: Tool) -> Parser:
    body, schema = b.empty(), tool.schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if properties:
        choice = b.choice()
        for name, of_it in properties.items():
            choice = b.choice(choice, _python_argument(b, name, of_it))
        body = b.plus(choice, lambda: b.many(b.plus(",", b.space, choice)))
    begun, ended = partial(at_once, b, parts.CALL_OPEN), partial(at_once, b, parts.CALL_CLOSE)
    call = b.plus(
        lambda: begun(b.plus(lambda: call_name(b, tool.name), partial(b.literal, "("))),
        *(b.space, lambda: b.tag(parts.ARGUMENTS, body), b.space, lambda: ended(b.literal(")"))),
    )
    return b.tag(parts.CALL, call)


def _python_argument(b: Builder, name: str, schema: object) -> Parser:
    named = b.literal(name)
    b.empty()
    quoted = [
        b.plus(partial(b.literal, quote), partial(b.string_content, quote), partial(b.literal, quote))
        for quote in "\"'"
    ]
    value = b.tag(parts.ARGUMENT_VALUE, b.choice(*quoted))
    if not (isinstance(schema, dict) and schema.get("type") == "string"):
        value = b.tag(parts.ARGUMENT_VALUE, python_or_json(b))
    begun, ended = partial(at_once, b, parts.ARGUMENT_OPEN), partial(at_once, b, parts.ARGUMENT_CLOSE)
    argument = b.plus(
        lambda: begun(b.plus(lambda: at_once(b, parts.ARGUMENT_NAME, named), partial(b.literal, "="))),
        value,
        lambda: ended(b.empty()),
    )
    return b.tag(parts.ARGUMENT, argument)


def _minicpm(b: Builder, asked: Asked) -> Parser:
    opening, reasoning = b.literal(IM_START), b.empty()
    if not asked.keep_reasoning:
        thought = partial(_until, b, REASONING, "</think>")
        reasoning = b.plus(lambda: b.spaced("<think>", thought, "</think>"), b.space)
    text = _minicpm_text(b)
    choice = b.choice()
    for tool in asked.tools.tools:
        choice = b.choice(choice, b.rule(f"tool-{tool.name}", _minicpm_call(b, asked, tool, text)))
    most = -1 if asked.tools.parallel else 1
    calls = b.rule("tool-call", b.repeat(b.plus(choice, b.space), 1, most), triggers=True)
    return b.plus(opening, reasoning, _until(b, CONTENT, "<function"), calls, b.end)


def _minicpm_text(b: Builder) -> Parser:
    """A string, be it in a CDATA section, and its end."""
    mark, mark_end, end = "<![CDATA[", "]]>", "</param>"
    closing = partial(at_once, b, parts.ARGUMENT_CLOSE)
    body = partial(_until, b, parts.ARGUMENT_TEXT)

    def marked() -> Parser:
        return b.including(b.plus(partial(body, mark_end), partial(b.literal, mark_end)), mark_end)

    def bare() -> Parser:
        return b.including(b.plus(partial(body, end), lambda: closing(b.literal(end))), end)

    section = b.plus(partial(b.literal, mark), marked, lambda: closing(b.literal(end)))
    return b.choice(section, b.plus(lambda: b.negate(b.literal(mark)), bare))


def _minicpm_call(b: Builder, asked: Asked, tool: Tool, text: Parser) -> Parser:
    made = [_minicpm_argument(b, tool, argument, text) for argument in _properties(asked, tool)]
    body = b.empty()
    if made:
        body = b.many(b.plus(lambda: b.choice(*made), b.space))
    lit = partial(partial, b.literal)
    begun, ended = partial(at_once, b, parts.CALL_OPEN), partial(at_once, b, parts.CALL_CLOSE)
    call = b.spaced(
        lambda: begun(b.plus(lit('<function name="'), lambda: call_name(b, tool.name), lit('">'))),
        lambda: b.tag(parts.ARGUMENTS, body),
        lambda: ended(b.literal("</function>")),
    )
    return b.tag(parts.CALL, call)


def _minicpm_argument(b: Builder, tool: Tool, argument: Property, text: Parser) -> Parser:
    lit = partial(partial, b.literal)
    value = b.empty()
    if may_be_string(argument.node):
        value = text
    else:
        name = f"tool-{tool.name}-arg-{argument.name}-schema"
        value = b.plus(
            lambda: b.tag(parts.ARGUMENT_VALUE, b.schema(b.json(), name, argument.node)),
            lambda: at_once(b, parts.ARGUMENT_CLOSE, b.literal("</param>")),
        )
    named = partial(at_once, b, parts.ARGUMENT_NAME)
    begun = partial(at_once, b, parts.ARGUMENT_OPEN)
    opening = b.plus(lit('<param name="'), lambda: named(b.literal(argument.name)), lit('">'))
    return b.tag(parts.ARGUMENT, b.plus(begun(opening), value))


def _wanted(b: Builder, asked: Asked) -> Parser:
    """The JSON that an answer must be."""
    return b.tag(CONTENT, b.schema(b.json(), "response-format-schema", asked.schema))


_COHERE2: Final = ToolMarkers(
    mode="json",
    in_array=True,
    name_field="tool_name",
    arguments_field="parameters",
    generated_id_field="tool_call_id",
    field_order=("tool_call_id", "tool_name", "parameters"),
)


def _cohere2(b: Builder, asked: Asked) -> Parser:
    opening, end = b.literal("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"), b.end()
    b.empty()
    thought_end = b.optional(b.literal("<|END_THINKING|>"))
    body = b.until("<|END_THINKING|>", "<|START_TEXT|>", "<|START_ACTION|>")
    if asked.keep_reasoning:
        start = b.literal("<|START_THINKING|>")
        reasoning = b.optional(b.tag(CONTENT, b.plus(start, body, thought_end)))
    else:
        body = b.tag(REASONING, body)
        reasoning = b.optional(b.plus(partial(b.literal, "<|START_THINKING|>"), body, thought_end))
    text_end = b.optional(b.literal("<|END_TEXT|>"))
    content = partial(_until, b, CONTENT, "<|END_TEXT|>")
    if asked.schema is not None:
        content = partial(_wanted, b, asked)
    text = b.plus(partial(b.literal, "<|START_TEXT|>"), content, text_end)
    around = ("<|START_ACTION|>", "<|END_ACTION|>")
    calls = json_calls(b, _COHERE2, around, replace(asked.tools, choice="required"), asked.schemas)
    answer = calls if asked.tools.must_call else b.choice(calls, text)
    return b.plus(opening, reasoning, answer, lambda: b.optional(b.literal("<|END_OF_TURN_TOKEN|>")), end)


MINISTRAL: Final = SpecialCalls(_ministral, ("[TOOL_CALLS]",))
QWEN3_CODER: Final = _qwen3_calls(thinks=False)
QWEN3_CODER_THINKING: Final = _qwen3_calls(thinks=True)
KIMI_K2: Final = SpecialCalls(_kimi_k2, ("<|tool_call_begin|>",))
GIGACHAT: Final = SpecialCalls(_gigachat, (_GIGACHAT_CALL,))
LFM2: Final = SpecialCalls(_lfm2, ("<|tool_call_start|>",), before_schema=True, schema_is_eager=True)
MINICPM: Final = SpecialCalls(_minicpm, ("<function",), schema_is_eager=True)
COHERE2: Final = SpecialCalls(_cohere2, ("<|START_ACTION|>",), before_schema=True, schema_is_eager=True)
KIMI_K3: Final = SpecialCalls(kimi_k3, (TOOLS,))
