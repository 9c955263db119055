"""Chat requests with tools as real exchanges with a server, for each form of calls that a small model can be led into.

Each set is asked of the same model with another template; they run in order against one server each, as those of
`http_shapes`. What the answer begins with is given, for this model makes no calls of its own accord.
"""

from __future__ import annotations

from typing import Any, Final

from testing.oracles.chat_templates import TEMPLATES
from testing.oracles.http_shapes import Exchange
from testing.oracles.tool_cases import NOW, WEATHER

_ASKED: Final = [{"role": "user", "content": "What is the weather in Paris?"}]
_CALL: Final = {
    "id": "abcdefghi",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome", "days": 2}'},
}
_CALLED: Final = [
    {"role": "user", "content": "What is the weather in Rome?"},
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "sunny"},
]
_TOOLS: Final[dict[str, Any]] = {"tools": [WEATHER, NOW]}
_REQUIRED: Final[dict[str, Any]] = {**_TOOLS, "tool_choice": "required"}
_APART: Final[dict[str, Any]] = {"continue_final_message": True, "add_generation_prompt": False}
_USAGE: Final[dict[str, Any]] = {"stream_options": {"include_usage": True}}
_SEEDED: Final[dict[str, Any]] = {"temperature": 0.9, "seed": 7}


def _chat(name: str, begun: str = "", **fields: Any) -> Exchange:
    messages = [*_ASKED, *([{"role": "assistant", "content": begun}] if begun else [])]
    body = {"messages": messages, "temperature": 0, "max_tokens": 28, **fields}
    return Exchange(name, "POST", "/v1/chat/completions", body)


def _both(name: str, begun: str = "", **fields: Any) -> tuple[Exchange, Exchange]:
    return _chat(name, begun, **fields), _chat(f"{name}, streamed", begun, **fields, stream=True)


def _calls(start: str, name: str, body: str) -> tuple[Exchange, ...]:
    """What is asked in every form.

    Args:
        start: what begins calls.
        name: what goes on up to the function's name, and the name.
        body: what goes on up to the inside of a string.
    """
    return (
        *_both("a call", start, **_REQUIRED),
        *_both("a call, drawn", start + name, **_REQUIRED, **_SEEDED),
        *_both("a call that may be", start + name + body, **_TOOLS),
        *_both("text before a call", **_REQUIRED, max_tokens=6),
    )


TOOL_EXCHANGES: Final[dict[str, tuple[Exchange, ...]]] = {
    "calls as JSON in tags": (
        *_calls("<tool_call>\n", '{"name": "weather"', ', "arguments": {"city": "'),
        *_both("one call alone", "<tool_call>\n", **_REQUIRED, parallel_tool_calls=False, max_tokens=40),
        *_both("calls at once", "<tool_call>\n", **_REQUIRED, parallel_tool_calls=True, max_tokens=40),
        *_both("no call wanted", "<tool_call>\n", **_TOOLS, tool_choice="none", max_tokens=8),
        *_both("no call made", **_TOOLS, max_tokens=8),
        *_both("after a result", **_TOOLS, messages=_CALLED, max_tokens=12),
        *_both("after a result, once more", **_TOOLS, messages=[*_CALLED, *_ASKED]),
        *_both("a call that is cut", '<tool_call>\n{"na', **_REQUIRED, max_tokens=4),
        *_both("a call with usage", "<tool_call>\n", **_REQUIRED, **_USAGE, max_tokens=12),
        *_both("a stop string in a call", "<tool_call>\n", **_REQUIRED, stop="arguments"),
        *_both("a wanted form with tools", **_TOOLS, response_format={"type": "json_object"}, max_tokens=12),
        *_both("reasoning left in", "<tool_call>\n", **_REQUIRED, reasoning_format="none", max_tokens=12),
        *_both("a choice of one", '<tool_call>\n{"name": "now"', tools=[NOW], tool_choice={"type": "function"}),
        *_both("continued apart", "<tool_call>\n", **_REQUIRED, **_APART),
        _chat("probabilities", "<tool_call>\n", **_REQUIRED, logprobs=True, top_logprobs=2, max_tokens=3),
        _chat("probabilities in a stream", **_TOOLS, logprobs=True, stream=True),
        _chat("a grammar of the request's own", **_TOOLS, grammar='root ::= "a"'),
        _chat("a tool that is none", tools=[{"type": "function"}]),
        _chat("a choice nobody knows", **_TOOLS, tool_choice="some"),
        _chat("a message with calls is not continued", messages=_CALLED[:2], **_TOOLS),
        _chat("arguments that are no schema", tools=[{"type": "function", "function": {"name": "f", "parameters": 5}}]),
        _chat("and the server still answers", max_tokens=1),
    ),
    "calls as bare JSON": _calls("{", '"name": "weather"', ', "parameters": {"city": "'),
    "calls as an array of JSON": _calls("[TOOL_CALLS]", '[{"name": "weather"', ', "arguments": {"city": "'),
    "calls with arguments in tags": _calls("<tool_call>", "weather\n", "<arg_key>city</arg_key>\n<arg_value>"),
    "plain": _calls("<tool_call>", '{"name": "weather"', ', "arguments": {"city": "'),
}
"""By the names of `chat_templates`."""

SOURCES: Final = {name: TEMPLATES[name] for name in TOOL_EXCHANGES}

PUBLISHED: Final[dict[str, tuple[Exchange, ...]]] = {
    "Qwen-Qwen2.5-7B-Instruct.jinja": TOOL_EXCHANGES["calls as JSON in tags"],
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja": _calls(
        "<tool_call>\n", '{"name": "weather"', ', "arguments": {"city": "'
    ),
    "meta-llama-Llama-3.1-8B-Instruct.jinja": TOOL_EXCHANGES["calls as bare JSON"],
    "mistralai-Mistral-Nemo-Instruct-2407.jinja": TOOL_EXCHANGES["calls as an array of JSON"],
    "Qwen3-Coder.jinja": _calls("<tool_call>\n", "<function=weather>\n", "<parameter=city>\n"),
}
"""By the names of templates in the reference's source archive; compared live, not recorded."""

MODELS_FAULT: Final = frozenset(("a choice of one", "a call that may be"))
"""Exchanges in which the model leaves the form of its answer, which is a 500 here too."""
