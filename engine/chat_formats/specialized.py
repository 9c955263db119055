"""Templates whose answers llama-server b11192 parses by code of their own, known by pieces of their sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.chat_formats import specialized_parsers as parsers
from engine.chat_formats.specialized_parsers import SpecialParser


@dataclass(frozen=True, slots=True)
class SpecialKind:
    """A kind of template: its source has all of some pieces, none of others and one of a third list, if there is one.

    Attributes:
        thinks: it knows reasoning.
        parser: how its answers look; None where that is not known here, and all of an answer is content.
        copies_thinking: its template wants reasoning under the name `thinking` too.
        reasoning_in_parts: its template wants reasoning as a part of the content.
    """

    name: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    thinks: bool = True
    parser: SpecialParser | None = None
    copies_thinking: bool = False
    reasoning_in_parts: bool = False

    def includes(self, source: str) -> bool:
        return (
            all(piece in source for piece in self.has)
            and not any(piece in source for piece in self.lacks)
            and (not self.any_of or any(piece in source for piece in self.any_of))
        )


# In the reference's order: the first that fits counts.
_KINDS: Final = (
    SpecialKind(
        "Ministral",
        ("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]"),
        ("[CALL_ID]",),
        parser=parsers.MINISTRAL,
        reasoning_in_parts=True,
    ),
    SpecialKind("gpt-oss", ("<|channel|>",)),
    SpecialKind("Muse Glimmer", ("<atem:function_calls>", "<|eom|>"), parser=parsers.MUSE),
    SpecialKind("Functionary v3.2", (">>>all", ">>>${recipient}"), thinks=False, parser=parsers.FUNCTIONARY),
    SpecialKind("Kimi K2", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"), parser=parsers.KIMI_K2),
    SpecialKind("Kimi K3", ("<|open|>", "<|close|>", "<|end_of_msg|>"), parser=parsers.KIMI_K3),
    SpecialKind("Ling 3", ("<role>ASSISTANT</role>", "<arg_key>"), parser=parsers.LING),
    SpecialKind("Cohere2 MoE", ("<|START_TEXT|>", "<|START_ACTION|>"), parser=parsers.COHERE2),
    SpecialKind("LFM2", ("<|tool_list_start|>", "<|tool_list_end|>"), parser=parsers.LFM2, copies_thinking=True),
    SpecialKind("LFM2.5", ("List of tools: [",), ("<|tool_list_start|>",), parser=parsers.LFM2_5, copies_thinking=True),
    SpecialKind(
        "GigaChat 3", ("<|role_sep|>", "<|message_sep|>"), ("<|function_call|>",), thinks=False, parser=parsers.GIGACHAT
    ),
    SpecialKind("MiniMax M3", ("]<]minimax[>[", "<tool_call>", "<invoke name=")),
    SpecialKind("DeepSeek V3.2", ("dsml_token", "DSML"), any_of=("function_calls", "tool_calls")),
    SpecialKind("Gemma 4", ("'<|tool_call>call:'",)),
    SpecialKind("MiniCPM5", ("Tool usage guidelines:", '<function name="', '<param name="'), parser=parsers.MINICPM),
    SpecialKind(
        "Qwen3-Coder",
        ("<tool_call>", "<function=", "<parameter="),
        ("'<tool_call><function=' ~ tool_call.name ~ '>'", "<think>"),
        thinks=False,
        parser=parsers.QWEN3_CODER,
    ),
    SpecialKind(
        "Qwen3-Coder",
        ("<tool_call>", "<function=", "<parameter=", "<think>"),
        ("'<tool_call><function=' ~ tool_call.name ~ '>'",),
        parser=parsers.QWEN3_CODER_THINKING,
    ),
)


def specialized(source: str) -> SpecialKind | None:
    """The kind a template is of, None for one whose answers are parsed by what its analysis finds."""
    return next((kind for kind in _KINDS if kind.includes(source)), None)
