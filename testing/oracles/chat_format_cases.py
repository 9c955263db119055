"""Chat requests, and answers to them, for every template of a comparison."""

from __future__ import annotations

import random
from typing import Any, Final

Request = dict[str, Any]

_HI: Final = {"role": "user", "content": "Hi"}
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_OBJECT: Final = {"type": "json_object"}
_BY_SCHEMA: Final = {"type": "json_schema", "json_schema": {"schema": _SCHEMA}}


def _begun(content: str, **more: Any) -> Request:
    return {"messages": [_HI, {"role": "assistant", "content": content, **more}]}


def _asked(**more: Any) -> Request:
    return {"messages": [_HI], **more}


_ON, _OFF = ({"chat_template_kwargs": {"enable_thinking": on}} for on in (True, False))
_APART: Final = {"continue_final_message": True, "add_generation_prompt": False}

REQUESTS: Final[tuple[Request, ...]] = (
    _asked(),
    _asked(reasoning_format="none"),
    _asked(reasoning_format="deepseek-legacy"),
    _asked(**_OFF),
    _asked(**_OFF, reasoning_format="none"),
    _asked(response_format=_OBJECT),
    _asked(response_format=_OBJECT, reasoning_format="none"),
    _asked(response_format=_BY_SCHEMA),
    _asked(response_format=_BY_SCHEMA, **_ON),
    _asked(response_format=_BY_SCHEMA, **_OFF),
    _asked(json_schema=_SCHEMA, reasoning_effort="none"),
    _asked(**_ON, reasoning_effort="none"),
    _begun("So far"),
    _begun("", reasoning_content="Hmm"),
    _begun("So", reasoning_content="Hmm"),
    _begun('{"a"', response_format=_BY_SCHEMA),
    {**_begun("So", reasoning_content="Hmm"), **_APART, "continue_final_message": "reasoning_content"},
    {**_begun("", reasoning_content="Hmm"), **_APART, "continue_final_message": "content"},
)
"""What is asked, in the forms that decide how an answer looks."""

ANSWERS: Final = (
    "",
    "Hello",
    " \n",
    "<thi",
    "<think>abc",
    "</think>",
    "</thin",
    "x</think>hello",
    "<think>\nx y\n</think>\n\nHello\n",
    "<think>\n\n</think>\n\nHello",
    '<think>\nx\n</think>\n\n{"a":1}',
    '{"a": 12',
    '{"a": 1} ',
    '{"a": 1} x',
    '```json\n{"a": [1, {"b": "\\u00',
    "```json\n{}\n```",
    "\n\n```jso",
    "<response>foo</respon",
    "<response>\nfoo\n</response>",
    "[THINK]a[/THINK]b",
    "thought[BEGIN FINAL RESPONSE]\nHi",
    'y</think>```json\n{"a": 1}\n```<|role_end|>',
    "[THINK]a[/THINK]```json\n{}```",
    "all\nHello",
    "thought<tool_call>x</think>",
    "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
    "a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|><|END_OF_TURN_TOKEN|>",
    " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b<|eo",
    "Grüße <think>é</think> 😀",
)
"""Answers, some of them cut."""

_FRAGMENTS: Final = (
    *("<think>", "</think>", "<", "</", "[", "]", "```json", "```", "\n", " ", "\n\n", "<response>", "</response>"),
    *("{", "}", "[", "]", '"', '"a"', ":", ",", "1", "-", "0", ".5", "e+", "true", "nul", "null", "false", "\\", "\\u"),
    *("\\u00e9", "\\n", "\\x", "x", "é", "😀", "Hello", '{"a": 1}', '{"b": [1, 2]}', "\t", "[1,2]", "<|im_end|>"),
)


def random_answers(seed: int, count: int) -> list[str]:
    """Answers put together at random from pieces that mean something, cut anywhere."""
    source = random.Random(seed)
    found = []
    for _ in range(count):
        text = "".join(source.choices(_FRAGMENTS, k=source.randrange(1, 12)))
        found.append(text[: source.randrange(len(text) + 1)] if source.random() < 0.5 else text)
    return found


REFUSED: Final[tuple[Request, ...]] = (
    _asked(json_schema={}, grammar='root ::= "a"'),
    _asked(response_format={"type": "yaml"}),
    _asked(reasoning_format="zen"),
    _asked(reasoning_format=5),
    _asked(response_format={**_OBJECT, "schema": {"type": "nonsense"}}),
    _asked(response_format={**_OBJECT, "schema": {"$ref": "#/definitions/none"}}),
    _asked(response_format={**_OBJECT, "schema": {"type": "string", "pattern": "^(a$"}}),
    _asked(chat_template_kwargs={"enable_thinking": "yes"}),
)
"""What is refused before a token is computed."""

FORMS: Final[tuple[Request, ...]] = (
    _asked(response_format={"type": "text"}),
    _asked(response_format={}),
    _asked(response_format=5),
    _asked(response_format={"type": 5}),
    _asked(response_format=_OBJECT),
    _asked(response_format={**_OBJECT, "schema": None}),
    _asked(response_format={**_OBJECT, "schema": {}}),
    _asked(response_format={**_OBJECT, "schema": _SCHEMA}),
    _asked(response_format={**_OBJECT, "schema": True}),
    _asked(response_format=_OBJECT, json_schema=_SCHEMA),
    _asked(response_format=_OBJECT, json_schema=[]),
    _asked(response_format={**_OBJECT, "schema": {"const": 1}}, json_schema=_SCHEMA),
    _asked(response_format={"type": "json_schema"}),
    _asked(response_format={"type": "json_schema", "json_schema": 5}),
    _asked(response_format={"type": "json_schema", "json_schema": {"schema": "x"}}),
    _asked(response_format={"type": "json_schema", "json_schema": {"schema": {"enum": ["é", 1.5]}}}),
    _asked(response_format={"type": "text"}, json_schema=_SCHEMA),
    _asked(json_schema={}),
    _asked(json_schema=_SCHEMA, grammar=""),
    _asked(json_schema=None, grammar='root ::= "a"'),
    _asked(response_format=_OBJECT, grammar='root ::= "a"'),
)
"""Forms of the form: what schema, if any, the template's grammar is made of."""
