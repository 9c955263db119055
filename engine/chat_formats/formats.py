"""The form of a chat answer: what is asked of the sampler for it, and how its text is cut into reasoning and content.

For (template, request) this makes what llama-server b11192 makes of them (`common_chat_templates_apply`): the prompt
and the part of it that already belongs to the answer, the grammar of a wanted JSON answer, the parser of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from engine.chat_formats.mapping import message_of
from engine.chat_formats.markers import trim
from engine.chat_formats.messages import ChatMessage, UnexpectedAnswer
from engine.chat_formats.parts import CONTENT, REASONING
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.peg_grammar import add_grammar
from engine.chat_formats.peg_results import FAIL
from engine.chat_formats.specialized import specialized
from engine.chat_formats.specialized_parsers import SpecialParser
from engine.chat_formats.specialized_parts import Asked
from engine.chat_formats.template_markers import TemplateAnalysis
from engine.chat_formats.tool_calls import calling_answer, trigger_of, triggers_of
from engine.chat_formats.tools import NO_TOOLS, Schemas, ToolUse
from engine.errors import InvalidRequest
from engine.grammar import GrammarTrigger, TriggerType
from engine.json_schema import GrammarBuilder
from engine.template_capabilities import Capabilities

Message = dict[str, Any]

_NO_PARSER: Final = "Unable to generate parser for this template. Automatic parser generation failed: "


class Template(Protocol):
    """What is needed of a template; `engine.chat_template.ChatTemplate` is one."""

    @property
    def source(self) -> str: ...
    @property
    def analysis(self) -> TemplateAnalysis: ...
    @property
    def capabilities(self) -> Capabilities: ...
    def render(self, messages: Sequence[Message], /, *, add_generation_prompt: bool = ..., **variables: Any) -> str: ...
    def generation_prompt(self, messages: Sequence[Message], /, **variables: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """An answer that was begun.

    Attributes:
        message: what there is of it.
        part: which part of it goes on; the other one, if that is reasoning, is whole.
    """

    message: ChatMessage
    part: Literal["content", "reasoning"]


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How one request's answer looks.

    Attributes:
        prompt: what the model reads.
        generation_prompt: the end of the prompt that the parser reads before the answer, and so does the grammar.
        grammar: GBNF, "" for none.
        lazy: the grammar holds only from one of its triggers on.
        triggers: what they are.
        warnings: what of a schema the grammar leaves out.
        preserved: texts; where one is a token, the answer shows it though it is a special one.
        stops: further stop strings.
        thinking: the marker that begins reasoning, and those that may end it; nothing where there is none.
    """

    prompt: str
    generation_prompt: str
    parser: Parser
    grammar: str = ""
    lazy: bool = False
    triggers: tuple[GrammarTrigger, ...] = ()
    warnings: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()

    def parse(self, text: str, *, partial: bool) -> ChatMessage:
        """Cut an answer.

        Args:
            text: the answer so far; whole characters.
            partial: more may come.

        Raises:
            UnexpectedAnswer: it is not of this form, and cannot become so.
        """
        whole = self.generation_prompt + text
        try:
            kind, end, captures = self.parser.match(whole, 0, True)
        except RecursionError:  # a tool whose name is that of a rule above it
            raise UnexpectedAnswer("The model produced output that is nested too deep") from None
        if kind != FAIL:
            return message_of(captures)
        if partial and end > 0:
            return ChatMessage()
        raise UnexpectedAnswer("The model produced output that does not match the expected peg-native format")


def chat_format(
    template: Template,
    messages: Sequence[Message],
    *,
    variables: Mapping[str, Any],
    add_generation_prompt: bool = True,
    continuation: Continuation | None = None,
    schema: Any = None,
    tools: ToolUse = NO_TOOLS,
    keep_reasoning: bool = False,
) -> ChatFormat:
    """The form of the answer to a request.

    Args:
        template: the model's; for a request with tools, that for such ones.
        messages: the conversation, the message to continue left out.
        variables: for the template.
        continuation: the answer's beginning; `add_generation_prompt` is then false.
        schema: JSON that the answer must be, which goes before calls; None for any text. What is no object asks for
            nothing.
        tools: what may be called. The template gets them too, unless `variables` has others for it.
        keep_reasoning: leave reasoning in the content (the reasoning format "none").

    Raises:
        InvalidRequest: the template refuses the conversation, the schema cannot be, or the template is of a kind whose
            constrained answers or calls are not reproduced.
    """
    constrained = isinstance(schema, Mapping) and bool(schema)
    variables = with_tools(variables, tools)
    prompt = template.render(messages, add_generation_prompt=add_generation_prompt, **variables)
    opening = template.generation_prompt(messages, **variables)
    if continuation is not None and not continuation.message:
        continuation = None
    kind = specialized(template.source)
    if kind is not None:
        if constrained and not (kind.parser and kind.parser.takes_schema):
            raise InvalidRequest(f"constrained answers are not supported for {kind.name} templates")
        no_calls = kind.parser is None and (tools.tools or any("tool_calls" in message for message in messages))
        if no_calls or (tools.may_call and kind.parser and kind.parser.calls is None):
            raise InvalidRequest(f"tools are not supported for {kind.name} templates")
        asked = Asked(template.source, opening, opening, schema if constrained else None, keep_reasoning, tools)
        return _special(prompt, asked, kind.parser, continuation)
    analysis = template.analysis
    generation_prompt = opening
    if continuation is not None:
        generation_prompt = _continued(opening, analysis, continuation)
        prompt += generation_prompt
    try:
        form = _analyzed(template, opening, tools, schema if constrained else None, keep_reasoning=keep_reasoning)
    except InvalidRequest as error:
        raise InvalidRequest(f"{_NO_PARSER}{error}") from None
    return replace(form, prompt=prompt, generation_prompt=generation_prompt)


def with_tools(variables: Mapping[str, Any], tools: ToolUse) -> Mapping[str, Any]:
    """A template's variables with what may be called, unless they have others for it."""
    return {"tools": [tool.as_json() for tool in tools.tools], **variables} if tools.tools else variables


def _analyzed(template: Template, opening: str, tools: ToolUse, schema: Any, *, keep_reasoning: bool) -> ChatFormat:
    """The form of an answer by what was found of the template; the prompts are to be added."""
    analysis = template.analysis
    builder, schemas = Builder(), Schemas()
    calls = tools if tools.may_call and schema is None and template.capabilities.supports_tool_calls else NO_TOOLS
    parser = _answer(builder, analysis, opening, schema, calls, schemas, keep_reasoning=keep_reasoning)
    lazy = schema is None and calls.choice == "auto"
    held = schema is not None
    if calls.tools and analysis.tools.mode != "none":
        held = calls.must_call or bool(trigger_of(analysis.tools))
    grammar, warnings = _grammar(parser, builder, lazy=lazy) if held else ("", ())
    markers = (trim(analysis.reasoning.start), trim(analysis.reasoning.end))
    return ChatFormat(
        "",
        "",
        parser,
        grammar,
        lazy=lazy and held,
        triggers=triggers_of(analysis.tools) if lazy and held else (),
        warnings=tuple(dict.fromkeys((*schemas.found.texts(), *warnings))),
        preserved=analysis.preserved,
        stops=analysis.stops,
        thinking=markers if analysis.reasoning.mode != "none" and markers[1] else (),
    )


def _grammar(parser: Parser, builder: Builder, *, lazy: bool = False) -> tuple[str, tuple[str, ...]]:
    """The grammar of a parser, and what of the schemas it leaves out."""
    grammar = GrammarBuilder()
    add_grammar(grammar, parser, builder.rules, lazy=lazy)
    return grammar.text(), grammar.warnings


def _continued(opening: str, analysis: TemplateAnalysis, continuation: Continuation) -> str:
    """What of the answer is there: its opening, its reasoning in markers if the template has such, and its text."""
    message, reasoning = continuation.message, analysis.reasoning
    if reasoning.start:
        opening = opening.partition(reasoning.start)[0] + reasoning.start + message.reasoning
        if continuation.part == "content":
            opening += reasoning.end
    return opening + message.content if continuation.part == "content" else opening


def _special(prompt: str, asked: Asked, special: SpecialParser | None, continuation: Continuation | None) -> ChatFormat:
    """The form of an answer that has a parser of its own; without one it is all content."""
    if special is None:
        special = SpecialParser(_all_content, asked.opening, None, (), thinking=(), repeats_content=True)
    generation_prompt = asked.opening
    if continuation is not None:
        generation_prompt = special.begun
        if special.thought_end is not None:
            generation_prompt += continuation.message.reasoning
            generation_prompt += special.thought_end if continuation.part == "content" else ""
        if continuation.part == "content" or special.repeats_content:
            generation_prompt += continuation.message.content
        prompt += generation_prompt
    builder = Builder()
    asked = replace(asked, generation_prompt=generation_prompt)
    wanted, calls = asked.schema is not None, special.calls if asked.tools.may_call else None
    makes_calls = calls is not None and (calls.before_schema or not wanted)
    parser = (calls.parser if calls and makes_calls else special.parser)(builder, asked)
    held = wanted or makes_calls
    lazy = calls is not None and asked.tools.choice == "auto" and not (wanted and calls.schema_is_eager)
    grammar, warnings = _grammar(parser, builder, lazy=lazy) if held else ("", ())
    words = calls.words(asked.tools.tools) if calls and lazy else []
    return ChatFormat(
        prompt,
        generation_prompt,
        parser,
        grammar,
        lazy=lazy,
        triggers=tuple(GrammarTrigger(TriggerType.WORD, word) for word in words),
        warnings=tuple(dict.fromkeys((*asked.schemas.found.texts(), *warnings))),
        preserved=special.preserved,
        stops=special.stops,
        thinking=special.thinking,
    )


def _all_content(builder: Builder, asked: Asked) -> Parser:
    return builder.joined(builder.literal(asked.opening), builder.tag(CONTENT, builder.rest()))


# The expressions are made in the order of the reference's compiled code: their numbers are in the grammar.


def _answer(
    builder: Builder,
    analysis: TemplateAnalysis,
    opening: str,
    schema: Any,
    tools: ToolUse,
    schemas: Schemas,
    *,
    keep_reasoning: bool,
) -> Parser:
    """The parser of an answer with its opening: JSON, or text and calls, or text."""
    reasons = analysis.reasoning.mode != "none"
    builder.empty()
    reasoning = _reasoning(builder, analysis) if reasons and not keep_reasoning else builder.empty()
    builder.empty()
    if schema is not None:
        parser = _json_answer(builder, reasoning, schema)
    elif tools.tools:
        parser = calling_answer(builder, analysis, reasoning, tools, schemas)
    else:
        parser = _text_answer(builder, analysis, reasoning, reasons and not keep_reasoning)
    start = trim(analysis.reasoning.start)
    known = opening.partition(start)[0] if start else opening
    prefix = builder.literal(known) if opening else builder.empty()
    if schema is None and not tools.tools and not reasons:
        return builder.sequence(prefix, parser)
    return builder.sequence(prefix, builder.space(), parser)


def _reasoning(builder: Builder, analysis: TemplateAnalysis) -> Parser:
    """Reasoning and its markers, if it comes."""
    start, end = analysis.reasoning.start, analysis.reasoning.end
    if not end:
        return builder.empty()
    ending = _spaced(builder, end)
    thought = builder.tag(REASONING, builder.until(trim(end)))
    if not start:
        return builder.optional(builder.sequence(thought, ending))
    return builder.optional(builder.joined(_spaced(builder, start), thought, ending))


def _spaced(builder: Builder, text: str) -> Parser:
    """A marker, each character of the white space around it optional."""
    inner = trim(text)
    at = text.find(inner) if inner else len(text)
    parser = builder.empty()
    for char in text[:at]:
        parser = builder.sequence(parser, builder.optional(builder.literal(char)))
    parser = builder.sequence(parser, builder.literal(inner))
    for char in text[at + len(inner) :]:
        parser = builder.sequence(parser, builder.optional(builder.literal(char)))
    return parser


def _json_answer(builder: Builder, reasoning: Parser, schema: Any) -> Parser:
    """JSON, be it in a fence."""
    value = builder.schema(builder.json(), "response-format-schema", schema)
    answer = builder.rule("response-format", builder.tag(CONTENT, value))
    fenced = builder.joined(
        builder.literal("```json"), builder.space(), answer, builder.space(), builder.literal("```")
    )
    bare = builder.joined(builder.space(), answer, builder.space())
    return builder.joined(reasoning, builder.space(), builder.choice(fenced, bare), builder.end())


def _text_answer(builder: Builder, analysis: TemplateAnalysis, reasoning: Parser, extracts: bool) -> Parser:
    """Any text; between markers where the template always has them."""
    content = analysis.content
    if not content.wrapped:
        return builder.joined(reasoning, builder.tag(CONTENT, builder.rest()), builder.end())
    before = reasoning if extracts else builder.tag(CONTENT, builder.until(content.start))
    return builder.joined(
        before,
        builder.literal(content.start),
        builder.tag(CONTENT, builder.until(content.end)),
        builder.literal(content.end),
        builder.end(),
    )
