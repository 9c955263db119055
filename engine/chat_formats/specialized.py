"""Templates whose answers llama-server b11192 parses by code of their own, known by pieces of their sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of template: its source has all of some pieces and none of others; `any_of` are lists of which one is had."""

    name: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    def includes(self, source: str) -> bool:
        return (
            all(piece in source for piece in self.has)
            and not any(piece in source for piece in self.lacks)
            and (not self.any_of or any(piece in source for piece in self.any_of))
        )


# In the reference's order: the first that fits counts.
_KINDS: Final = (
    _Kind("Ministral", ("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]"), ("[CALL_ID]",)),
    _Kind("gpt-oss", ("<|channel|>",)),
    _Kind("Muse Glimmer", ("<atem:function_calls>", "<|eom|>")),
    _Kind("Functionary v3.2", (">>>all", ">>>${recipient}")),
    _Kind("Kimi K2", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>")),
    _Kind("Kimi K3", ("<|open|>", "<|close|>", "<|end_of_msg|>")),
    _Kind("Ling 3", ("<role>ASSISTANT</role>", "<arg_key>")),
    _Kind("Cohere2 MoE", ("<|START_TEXT|>", "<|START_ACTION|>")),
    _Kind("LFM2", ("<|tool_list_start|>", "<|tool_list_end|>")),
    _Kind("LFM2.5", ("List of tools: [",), ("<|tool_list_start|>",)),
    _Kind("GigaChat 3", ("<|role_sep|>", "<|message_sep|>"), ("<|function_call|>",)),
    _Kind("MiniMax M3", ("]<]minimax[>[", "<tool_call>", "<invoke name=")),
    _Kind("DeepSeek V3.2", ("dsml_token", "DSML"), any_of=("function_calls", "tool_calls")),
    _Kind("Gemma 4", ("'<|tool_call>call:'",)),
    _Kind("MiniCPM5", ("Tool usage guidelines:", '<function name="', '<param name="')),
    _Kind(
        "Qwen3-Coder",
        ("<tool_call>", "<function=", "<parameter="),
        ("'<tool_call><function=' ~ tool_call.name ~ '>'",),
    ),
)


def specialized_name(source: str) -> str | None:
    """The name of the kind a template is of, None for one whose answers are parsed by what its analysis finds."""
    return next((kind.name for kind in _KINDS if kind.includes(source)), None)
