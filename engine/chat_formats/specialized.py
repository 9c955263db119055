"""Templates whose answers llama-server b11192 parses by code of their own, known by pieces of their sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SpecialKind:
    """A kind of template: its source has all of some pieces, none of others and one of a third list, if there is one.

    Attributes:
        thinks: it knows reasoning.
    """

    name: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    thinks: bool = True

    def includes(self, source: str) -> bool:
        return (
            all(piece in source for piece in self.has)
            and not any(piece in source for piece in self.lacks)
            and (not self.any_of or any(piece in source for piece in self.any_of))
        )


# In the reference's order: the first that fits counts.
_KINDS: Final = (
    SpecialKind("Ministral", ("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]"), ("[CALL_ID]",)),
    SpecialKind("gpt-oss", ("<|channel|>",)),
    SpecialKind("Muse Glimmer", ("<atem:function_calls>", "<|eom|>")),
    SpecialKind("Functionary v3.2", (">>>all", ">>>${recipient}"), thinks=False),
    SpecialKind("Kimi K2", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>")),
    SpecialKind("Kimi K3", ("<|open|>", "<|close|>", "<|end_of_msg|>")),
    SpecialKind("Ling 3", ("<role>ASSISTANT</role>", "<arg_key>")),
    SpecialKind("Cohere2 MoE", ("<|START_TEXT|>", "<|START_ACTION|>")),
    SpecialKind("LFM2", ("<|tool_list_start|>", "<|tool_list_end|>")),
    SpecialKind("LFM2.5", ("List of tools: [",), ("<|tool_list_start|>",)),
    SpecialKind("GigaChat 3", ("<|role_sep|>", "<|message_sep|>"), ("<|function_call|>",), thinks=False),
    SpecialKind("MiniMax M3", ("]<]minimax[>[", "<tool_call>", "<invoke name=")),
    SpecialKind("DeepSeek V3.2", ("dsml_token", "DSML"), any_of=("function_calls", "tool_calls")),
    SpecialKind("Gemma 4", ("'<|tool_call>call:'",)),
    SpecialKind("MiniCPM5", ("Tool usage guidelines:", '<function name="', '<param name="')),
    SpecialKind(
        "Qwen3-Coder",
        ("<tool_call>", "<function=", "<parameter="),
        ("'<tool_call><function=' ~ tool_call.name ~ '>'", "<think>"),
        thinks=False,
    ),
    SpecialKind(
        "Qwen3-Coder",
        ("<tool_call>", "<function=", "<parameter=", "<think>"),
        ("'<tool_call><function=' ~ tool_call.name ~ '>'",),
    ),
)


def specialized(source: str) -> SpecialKind | None:
    """The kind a template is of, None for one whose answers are parsed by what its analysis finds."""
    return next((kind for kind in _KINDS if kind.includes(source)), None)
