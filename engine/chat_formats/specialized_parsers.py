"""Answers of templates that llama-server b11192 parses by code of their own (`common/parsers/`), but for those with
calls: `specialized_calls` has them.

Each kind says how an answer that was begun goes on, and which parser reads an answer. As in `formats`, expressions are
made in the order of the reference's compiled code, whose numbers its grammars show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.chat_formats import specialized_calls
from engine.chat_formats.parts import CONTENT, REASONING
from engine.chat_formats.peg import Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.specialized_calls import SpecialCalls
from engine.chat_formats.specialized_parts import IM_START, Asked, Make

_HEADER: Final = "<|start_header_id|>assistant<|end_header_id|>\n\n"


@dataclass(frozen=True, slots=True)
class SpecialParser:
    """How the answers of a kind of template look.

    Attributes:
        parser: makes the parser.
        begun: what an answer that goes on begins with.
        thought_end: what stands between its reasoning and its content; None where it has no reasoning.
        preserved, stops: as in `ChatFormat`.
        thinking: the marker that begins reasoning, and those that may end it; nothing for none.
        takes_schema: answers may be held to a schema.
        repeats_content: the given content is there even where its reasoning goes on.
        calls: how calls look; None where that is not known here.
    """

    parser: Make
    begun: str
    thought_end: str | None
    preserved: tuple[str, ...]
    stops: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ("<think>", "</think>")
    takes_schema: bool = False
    repeats_content: bool = False
    calls: SpecialCalls | None = None


def _thought(builder: Builder, asked: Asked, body: Parser) -> Parser:
    """A part that is reasoning, or content where reasoning stays."""
    return builder.tag(CONTENT if asked.keep_reasoning else REASONING, body)


def _rest(builder: Builder) -> Parser:
    return builder.tag(CONTENT, builder.rest())


def _value(builder: Builder, name: str, schema: Mapping[str, Any]) -> Parser:
    return builder.tag(CONTENT, builder.schema(builder.json(), name, schema))


def _qwen3_coder(b: Builder, asked: Asked) -> Parser:
    opening, reasoning = b.literal(IM_START), b.empty()
    if "<think>" in asked.source and not asked.keep_reasoning:
        ended = b.choice(b.literal("</think>"), b.peek(b.literal("<tool_call>")))
        thought = b.tag(REASONING, b.until("</think>", "<tool_call>"))
        reasoning = b.optional(b.joined(b.literal("<think>"), b.space(), thought, ended))
    content = _rest(b) if asked.schema is None else _value(b, "response-format", asked.schema)
    return b.joined(opening, b.sequence(reasoning, b.space(), content))


def _minicpm(b: Builder, asked: Asked) -> Parser:
    opening, reasoning = b.literal(IM_START), b.empty()
    if not asked.keep_reasoning:
        after, thought = b.space(), b.tag(REASONING, b.until("</think>"))
        opened = b.sequence(b.literal("<think>"), b.space(), thought)
        closing = b.literal("</think>")
        reasoning = b.sequence(b.sequence(opened, b.space(), closing), after)
    content = _rest(b) if asked.schema is None else _value(b, "response-format", asked.schema)
    return b.joined(opening, reasoning, content)


def _functionary(b: Builder, _: Asked) -> Parser:
    return b.joined(b.literal(_HEADER + ">>>"), b.literal("all\n"), _rest(b), b.end())


def _lfm2(b: Builder, asked: Asked) -> Parser:
    opening, end, reasoning = b.literal(IM_START), b.end(), b.empty()
    if "<think>" in asked.source and not asked.keep_reasoning:
        thought = b.tag(REASONING, b.until("</think>"))
        reasoning = b.optional(b.joined(b.literal("<think>"), thought, b.literal("</think>")))
    content = _rest(b) if asked.schema is None else _value(b, "response-format-schema", asked.schema)
    return b.joined(opening, reasoning, content, end)


def _kimi_k2(b: Builder, asked: Asked) -> Parser:
    reasoning = b.empty()
    if not asked.keep_reasoning:
        thought = b.tag(REASONING, b.until("</think>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>"))
        reasoning = b.optional(b.joined(b.literal("<think>"), thought, b.optional(b.literal("</think>"))))
    return b.joined(b.literal("<|im_assistant|>assistant<|im_middle|>"), reasoning, _rest(b), b.end())


def _k3_tag(opening: str, name: str) -> str:
    return f"<|{opening}|>{name}<|sep|>"


_K3_MESSAGE: Final = _k3_tag("open", 'message role="assistant"')


def _kimi_k3(b: Builder, asked: Asked) -> Parser:
    think, think_end = _k3_tag("open", "think"), _k3_tag("close", "think")
    response, response_end = _k3_tag("open", "response"), _k3_tag("close", "response")
    message_end = _k3_tag("close", "message")
    thought = _thought(b, asked, b.until(think_end, response))
    return b.joined(
        b.optional(b.literal(_K3_MESSAGE)),
        b.optional(b.joined(b.optional(b.literal(think)), thought, b.optional(b.literal(think_end)))),
        b.optional(b.literal(response)),
        b.tag(CONTENT, b.until(response_end, _k3_tag("open", "tools"), message_end)),
        b.optional(b.literal(response_end)),
        b.optional(b.literal(message_end)),
        b.optional(b.literal("<|end_of_msg|>")),
        b.end(),
    )


def _gigachat(b: Builder, _: Asked) -> Parser:
    return b.joined(b.literal("assistant<|role_sep|>\n"), _rest(b))


def _ling(b: Builder, asked: Asked) -> Parser:
    opens = asked.generation_prompt.rfind("<think>") > asked.generation_prompt.rfind("</think>")
    thought = _thought(b, asked, b.until("</think>", "<tool_call>") if opens else b.until("</think>"))
    return b.joined(
        b.optional(b.joined(b.literal("<role>ASSISTANT</role>"), b.optional(b.space()))),
        b.optional(b.joined(b.optional(b.literal("<think>")), thought, b.optional(b.literal("</think>")))),
        b.optional(b.tag(CONTENT, b.until("<|role_end|>"))),
        b.optional(b.literal("<|role_end|>")),
        b.end(),
    )


def _cohere2(b: Builder, asked: Asked) -> Parser:
    opening, end = b.literal("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"), b.end()
    b.empty()
    thought_end = b.optional(b.literal("<|END_THINKING|>"))
    body = b.until("<|END_THINKING|>", "<|START_TEXT|>", "<|START_ACTION|>")
    if asked.keep_reasoning:
        start = b.literal("<|START_THINKING|>")
        reasoning = b.optional(b.tag(CONTENT, b.joined(start, body, thought_end)))
    else:
        body = b.tag(REASONING, body)
        reasoning = b.optional(b.joined(b.literal("<|START_THINKING|>"), body, thought_end))
    if asked.schema is None:
        content = b.tag(CONTENT, b.until("<|END_TEXT|>"))
    else:
        content = _value(b, "response-format-schema", asked.schema)
    text = b.joined(b.literal("<|START_TEXT|>"), content, b.optional(b.literal("<|END_TEXT|>")))
    return b.joined(opening, reasoning, text, b.optional(b.literal("<|END_OF_TURN_TOKEN|>")), end)


def _muse(b: Builder, asked: Asked) -> Parser:
    start = b.literal("<|start|>assistant")
    if asked.keep_reasoning:
        return b.joined(start, _rest(b))
    thought = b.tag(REASONING, b.until("<|eom|>"))
    analysis = b.joined(b.literal(" to=self<|message|>"), thought, b.literal("<|eom|>"))
    content = b.tag(CONTENT, b.until("<|eot|>", "<|eom|>"))
    final = b.joined(b.optional(b.literal(" to=user")), b.literal("<|message|>"), content)
    return b.joined(b.many(b.joined(start, analysis)), start, final)


def _ministral(b: Builder, asked: Asked) -> Parser:
    opening = b.empty()
    if asked.keep_reasoning:
        reasoning = b.empty()
    else:
        thought = b.tag(REASONING, b.until("[/THINK]"))
        reasoning = b.optional(b.joined(b.literal("[THINK]"), thought, b.literal("[/THINK]")))
    if asked.schema is None:
        return b.joined(opening, b.sequence(reasoning, b.space(), _rest(b)))
    value = _value(b, "response-format", asked.schema)
    fence, end = b.literal("```json"), b.literal("```")
    return b.joined(opening, b.sequence(reasoning, b.space(), fence, b.space(), value, b.space(), end))


_COHERE_TOKENS: Final = (
    *("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>"),
    *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    *("<|START_ACTION|>", "<|END_ACTION|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"),
)
_LFM2: Final = ("<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>")
_MUSE: Final = (
    *("<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<atem:function_calls>", "<atem:invoke", "<atem:parameter"),
    *("</atem:parameter>", "</atem:invoke>", "</atem:function_calls>"),
)

MINISTRAL: Final = SpecialParser(
    _ministral,
    "[THINK]",
    "[/THINK]",
    ("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"),
    thinking=("[THINK]", "[/THINK]"),
    takes_schema=True,
    calls=specialized_calls.MINISTRAL,
)
QWEN3_CODER: Final = SpecialParser(
    _qwen3_coder,
    IM_START,
    None,
    ("<tool_call>", "</tool_call>"),
    thinking=(),
    takes_schema=True,
    calls=specialized_calls.QWEN3_CODER,
)
QWEN3_CODER_THINKING: Final = SpecialParser(
    _qwen3_coder,
    IM_START + "<think>\n",
    "\n</think>\n\n",
    ("<tool_call>", "</tool_call>", "<think>", "</think>"),
    thinking=("<think>", "\n</think>", "</think>", "<tool_call>"),
    takes_schema=True,
    calls=specialized_calls.QWEN3_CODER_THINKING,
)
MINICPM: Final = SpecialParser(
    _minicpm,
    IM_START + "<think>\n",
    "\n</think>\n\n",
    ("<function", "<param", "</function>", "</param>", "<think>", "</think>"),
    takes_schema=True,
    calls=specialized_calls.MINICPM,
)
FUNCTIONARY: Final = SpecialParser(
    _functionary, _HEADER + ">>>all\n", None, (">>>all",), thinking=(), repeats_content=True
)
LFM2: Final = SpecialParser(
    _lfm2,
    IM_START + "<think>",
    "</think>",
    (*_LFM2, "<|tool_list_start|>", "<|tool_list_end|>"),
    takes_schema=True,
    calls=specialized_calls.LFM2,
)
LFM2_5: Final = SpecialParser(
    _lfm2,
    IM_START + "<think>",
    "</think>",
    _LFM2,
    takes_schema=True,
    calls=specialized_calls.LFM2,
)
KIMI_K2: Final = SpecialParser(
    _kimi_k2,
    "<|im_assistant|>assistant<|im_middle|><think>",
    "</think>",
    (
        *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
        *("<|tool_call_argument_begin|>", "<|tool_call_end|>", "<think>", "</think>"),
    ),
    calls=specialized_calls.KIMI_K2,
)
KIMI_K3: Final = SpecialParser(
    _kimi_k3,
    _K3_MESSAGE + _k3_tag("open", "think"),
    _k3_tag("close", "think") + _k3_tag("open", "response"),
    ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    thinking=(_k3_tag("open", "think"), _k3_tag("close", "think")),
    calls=specialized_calls.KIMI_K3,
)
GIGACHAT: Final = SpecialParser(
    _gigachat,
    "assistant<|role_sep|>\n",
    None,
    ("<|message_sep|>\n\n", "<|role_sep|>\n"),
    thinking=(),
    repeats_content=True,
    calls=specialized_calls.GIGACHAT,
)
LING: Final = SpecialParser(
    _ling,
    "<role>ASSISTANT</role>\n<think>",
    "</think>",
    (
        *("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>"),
        *("<arg_value>", "</arg_value>", "<|role_end|>"),
    ),
    stops=("<|role_end|>",),
)
COHERE2: Final = SpecialParser(
    _cohere2,
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>",
    "<|END_THINKING|><|START_TEXT|>",
    _COHERE_TOKENS,
    thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
    takes_schema=True,
    calls=specialized_calls.COHERE2,
)
MUSE: Final = SpecialParser(
    _muse,
    "<|start|>assistant to=self<|message|>",
    "<|eom|><|start|>assistant to=user<|message|>",
    _MUSE,
    thinking=(),
)
