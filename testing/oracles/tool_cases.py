"""Chat requests with tools, and answers with calls to them, for every template of a comparison."""

from __future__ import annotations

import random
from typing import Any, Final

from testing.oracles.chat_format_cases import Request

TEMPLATES_WITH_CALLS: Final = (
    *("plain", "content in tags", "reasoning before tools alone", "calls as JSON in tags", "calls as an array of JSON"),
    *("calls with JSON arguments", "calls with arguments in tags", "calls in a section", "calls as bare JSON"),
    *("calls keyed by their names", "calls in OpenAI's shape", "calls with an id", "Ministral", "Kimi K2"),
    "Kimi K3",
    *("Cohere2 MoE", "LFM2", "LFM2.5", "GigaChat 3", "MiniCPM5", "Qwen3-Coder", "Qwen3-Coder that thinks"),
)
"""The templates of `chat_templates` that requests with tools are recorded for."""

_HI: Final = {"role": "user", "content": "Hi"}
_NAMED: Final = {"type": "object", "properties": {"kind": {"enum": ["a", 1]}}, "required": ["kind"]}


def _tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, **more}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


WEATHER: Final = _tool(
    "weather",
    "Tells the weather.",
    parameters=_object(["city"], city={"type": "string"}, days={"type": "integer", "minimum": 1, "maximum": 9}),
)
NOW: Final = _tool("now", "The time.", parameters=_object([]))
_MIXED: Final = _tool(
    "mix_it",
    "All sorts.",
    parameters=_object(
        ["b", "a"],
        a={"type": ["string", "null"]},
        b={"type": "array", "items": {"type": "number"}},
        c={"type": "boolean"},
        d={"$ref": "#/$defs/Named"},
        e={"const": "x"},
    )
    | {"$defs": {"Named": _NAMED}},
)
_OTHER_NAMED: Final = _tool(
    "other",
    parameters=_object(["d"], d={"$ref": "#/$defs/Named"}) | {"$defs": {"Named": {"type": "integer"}}},
)
_LOOSE: Final = _tool("loose", parameters={})
_CALL: Final = {"type": "function", "id": "call12345", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}
_SECOND: Final = {**_CALL, "id": "call67890", "function": {"name": "now", "arguments": "{}"}}


def _asked(tools: list[dict[str, Any]], **more: Any) -> Request:
    return {"messages": [_HI], "tools": tools, **more}


def _told(*calls: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """A conversation with calls and their results."""
    results = [{"role": "tool", "tool_call_id": call["id"], "name": "x", "content": "sunny"} for call in calls]
    return [_HI, {"role": "assistant", "content": None, "tool_calls": list(calls), **more}, *results]


_TWO: Final = [WEATHER, NOW]
_APART: Final = {"continue_final_message": True, "add_generation_prompt": False}

REQUESTS: Final[tuple[Request, ...]] = (
    _asked(_TWO),
    _asked(_TWO, parallel_tool_calls=True),
    _asked(_TWO, parallel_tool_calls=False),
    _asked(_TWO, tool_choice="required"),
    _asked(_TWO, tool_choice="required", parallel_tool_calls=True),
    _asked(_TWO, tool_choice="required", parallel_tool_calls=False),
    _asked(_TWO, tool_choice="none"),
    _asked([_MIXED, _OTHER_NAMED], tool_choice="required", parallel_tool_calls=True),
    _asked([_OTHER_NAMED, _MIXED, WEATHER], reasoning_format="none"),
    _asked(_TWO, tool_choice="required", reasoning_format="none"),
    _asked([WEATHER], chat_template_kwargs={"enable_thinking": False}),
    _asked([WEATHER], tool_choice="required", chat_template_kwargs={"enable_thinking": False}),
    _asked([WEATHER], response_format={"type": "json_object"}),
    _asked([WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}),
    {"messages": _told(_CALL), "tools": _TWO},
    {"messages": _told(_CALL, _SECOND), "tools": _TWO, "tool_choice": "required"},
    {
        "messages": [*_told(_CALL, reasoning_content="Hmm"), {"role": "assistant", "content": "Sunny"}, _HI],
        "tools": _TWO,
    },
    {"messages": _told(_CALL)},
    {"messages": [_HI, {"role": "assistant", "content": "So"}], "tools": _TWO},
    {
        "messages": [_HI, {"role": "assistant", "content": "", "reasoning_content": "Hmm"}],
        "tools": _TWO,
        "tool_choice": "required",
    },
    {**_asked(_TWO), "messages": [_HI], "chat_template_kwargs": {"tools": [NOW]}},
)
"""What is asked, in the forms that decide what an answer with calls is."""

_ARGUMENTS: Final = ('{"city": "Ulm"}', "{}", '{"city": "Köln \\"am\\" Rhein", "days": 3}', '{"city": "U')

ANSWERS: Final = (
    "",
    "Hello",
    "<think>\nhm\n</think>\n\nLet me see.",
    *(
        text
        for arguments in _ARGUMENTS
        for text in (
            f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>',
            f'x <tool_call>{{"name": "weather", "arguments": {arguments}}}</tool_call>',
            f'{{"name": "weather", "parameters": {arguments}}}',
            f'{{"type": "function", "function": "weather", "parameters": {arguments}}}',
            f'[TOOL_CALLS][{{"name": "weather", "arguments": {arguments}, "id": "123456789"}}]',
            f"[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{arguments}",
            f"[TOOL_CALLS]weather[ARGS]{arguments}",
            f"<function=weather>{arguments}</function>",
            f'<tool_calls>[{{"name": "weather", "arguments": {arguments}, "id": "7"}}]</tool_calls>',
            f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "weather", "parameters": {arguments}}}]'
            "<|END_ACTION|>",
        )
    ),
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Ulm"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
    '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "wea',
    '<tool_call>\n{"arguments": {}, "name": "now"}\n</tool_call>',
    "<tool_ca",
    '{"name": "now", "parameters": {}}; {"name": "now", "parameters": {}}',
    '[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "1"}, {"name": "now", "arguments": {}, "id": "2"}]',
    "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}",
    '<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Ulm "x"</arg_value>\n</tool_call>',
    "<tool_call>weather<arg_key>city</arg_key><arg_value>Ulm</arg_value><arg_key>days</arg_key><arg_value>3</arg_value>"
    "</tool_call>",
    "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "</function>\n</tool_call>",
    "<tool_call>\n<function=mix_it>\n<parameter=b>\n[1, 2]\n</parameter>\n<parameter=a>\nnull\n</parameter>\n"
    "<parameter=c>\nTrue\n</parameter>\n<parameter=e>\nx\n</parameter>\n</function>\n</tool_call>",
    '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Ulm</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "<tool_call>mix_it\n<arg_key>b</arg_key>\n<arg_value>[1, 2]</arg_value>\n<arg_key>a</arg_key>\n"
    "<arg_value>x</arg_value>\n<arg_key>c</arg_key>\n<arg_value>true</arg_value>\n</tool_call>",
    'all\nHello>>>weather\n{"city": "Ulm"}',
    'weather\n{"city": "Ulm"}',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "Ulm"}'
    "<|tool_call_end|><|tool_calls_section_end|>",
    '<|tool_call_start|>[weather(city="Ulm", days=3)]<|tool_call_end|>',
    "<|tool_call_start|>[weather(city='Ulm'), now()]<|tool_call_end|>",
    '<function name="weather"><param name="city">Ulm</param><param name="days">3</param></function>',
    '<|function_call|>{"name": "weather", "arguments": {"city": "Ulm"}}',
    'a<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool="weather" index="0"<|sep|><|open|>argument key="city" '
    'type="string"<|sep|>Ulm<|close|>argument<|sep|><|open|>argument key="days" type="integer"<|sep|>3'
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
    '<|calls|>[{"weather": {"city": "Ulm"}}, {"now": {}}]<|end|>',
    '<call>{"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Ulm"}}}</call>',
    '<|tools_prefix|>[{"weather": {"city": "Ulm"}}]<|tools_suffix|>',
    'Action:\n```json\n[{"tool_name": "weather", "parameters": {"city": "Ulm"}}]```',
    '<TOOLCALL>[{"name": "weather", "arguments": {"city": "Ulm"}}]</TOOLCALL>',
    ' functools[{"name": "weather", "arguments": {"city": "Ulm"}}]',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"  # noqa: RUF001 - the bars are theirs
    '{"city": "Ulm"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',  # noqa: RUF001 - the bars are theirs
)
"""Answers with calls in one form or another, some of them cut or of no form at all."""

_FRAGMENTS: Final = (
    *("<tool_call>", "</tool_call>", "\n", " ", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<function=", "</function>"),
    *('{"name": "weather"', '"name"', ": ", ", ", '"weather"', "weather", "now", '"arguments"', '"parameters"'),
    *('{"city": "Ulm"}', '{"ci', '"Ulm"}', "{}", "}", "]", "[", '"id": "123456789"', "<think>", "</think>", "Hello"),
    *("<arg_key>", "city", "</arg_key>", "<arg_value>", "Ulm", "</arg_value>", "é", "<parameter=", ">", "</parameter>"),
)


def random_answers(seed: int, count: int) -> list[str]:
    """Answers put together at random: pieces of calls, or calls with something changed, cut anywhere."""
    source = random.Random(seed)
    found = []
    for _ in range(count):
        if source.random() < 0.5:
            text = "".join(source.choices(_FRAGMENTS, k=source.randrange(1, 12)))
        else:
            text = source.choice(ANSWERS)
            at = source.randrange(len(text) + 1)
            text = text[:at] + source.choice(("", source.choice(_FRAGMENTS))) + text[at + source.randrange(3) :]
        found.append(text[: source.randrange(len(text) + 1)] if source.random() < 0.5 else text)
    return found


_BAD: Final[tuple[Any, ...]] = (
    5,
    {},
    "x",
    [5],
    [[]],
    [{}],
    [{"type": 5}],
    [{"type": "web_search"}],
    [{"type": "function"}],
    [{"type": "function", "function": 5}],
    [{"type": "function", "function": {}}],
    [{"type": "function", "function": {"name": None}}],
    [{"type": "function", "function": {"name": "f", "description": 5}}],
    [{"type": "function", "function": {"name": "f", "description": None}}],
    [_tool("f", parameters=5)],
    [_tool("f", parameters=None)],
    [_tool("f", parameters="x")],
    [_tool("f", parameters=[])],
    [_tool("f", parameters=_object([], a={"type": "nonsense"}))],
    [_tool("f", parameters=_object([], a={"type": "string", "pattern": "^(a$"}))],
    [_tool("f", parameters=_object([], a={"$ref": "#/$defs/none"}))],
    [_tool("f", parameters=True)],
    [_tool("f"), _tool("f", parameters=_object(["a"], a={"type": "null"}))],
    [_tool("a b.c/é", "ü \n")],
    [_tool("")],
    [_LOOSE],
)


def _with_calls(calls: Any) -> Request:
    return {"messages": [_HI, {"role": "assistant", "tool_calls": calls}, _HI], "tools": [NOW]}


_FUNCTION: Final = {"name": "f", "arguments": "{}"}

ODD: Final[tuple[Request, ...]] = (
    *(_asked(tools, tool_choice=choice) for tools in _BAD for choice in ("auto", "required")),
    _asked([NOW], tool_choice="zzz"),
    _asked([NOW], tool_choice=5),
    _asked([NOW], tool_choice=None),
    _asked([NOW], parallel_tool_calls="yes"),
    _asked([NOW], parallel_tool_calls=None),
    _asked([NOW], grammar='root ::= "a"'),
    _asked([NOW], grammar=None),
    _asked([NOW], grammar='root ::= "a"', tool_choice="none"),
    _asked([NOW], json_schema={"type": "object"}),
    _asked([NOW], logprobs=True, stream=True),
    _asked([NOW], logprobs=True),
    _asked([], tool_choice="required"),
    {"messages": [_HI], "tools": None, "tool_choice": "required"},
    {"messages": [_HI, {"role": "assistant", "tool_calls": [_CALL]}], "tools": [NOW]},
    {"messages": [_HI, {"role": "assistant", "content": "a", "tool_calls": [_CALL]}], "tools": [NOW], **_APART},
    *map(_with_calls, (None, 5, "x", {}, [], [5], [{}], [{"type": "x"}], [{"type": "function"}])),
    _with_calls([{"type": "function", "function": 5}]),
    _with_calls([{"type": "function", "function": {}}]),
    _with_calls([{"type": "function", "function": {"name": "f"}}]),
    _with_calls([{"type": "function", "function": {"name": 5, "arguments": "{}"}}]),
    _with_calls([{"type": "function", "function": {"name": "f", "arguments": {"a": [1.5, "é"]}}}]),
    _with_calls([{"type": "function", "function": {"name": "f", "arguments": None}}]),
    _with_calls([{"type": "function", "id": 5, "function": _FUNCTION}]),
    _with_calls([{"type": "function", "id": "", "function": _FUNCTION}]),
    {"messages": [_HI, {"role": "tool", "content": "x", "tool_call_id": 5}], "tools": [NOW]},
    {"messages": [_HI, {"role": "tool", "content": "x"}], "tools": [NOW]},
    {"messages": [_HI, {"role": "tool", "content": [{"type": "text", "text": "x"}], "name": "now"}], "tools": [NOW]},
)
"""Tools, choices and calls that are odd or refused."""
