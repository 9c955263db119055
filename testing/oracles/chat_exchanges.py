"""Chat requests whose answers have a wanted form, or reasoning, as real exchanges with a server.

`EXCHANGES` are asked of the model as it is, `THINKING` of the same model with a template that opens reasoning,
`WRAPPED` with one that wraps answers in tags, which this model never writes. They run in order against one server
each, as those of `http_shapes`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

from engine.gguf import GGUFFile
from testing.oracles.http_shapes import Exchange

ALIGNMENT: Final = 32
"""Of the tensors in a GGUF file."""

THINKING_TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}{% endif %}"
)

WRAPPED_TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{% if m.content %}<response>{{ m.content }}</response>{% endif %}{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_ASKED: Final = [{"role": "user", "content": "Name one city and its country as JSON."}]
_OBJECT: Final = {"type": "json_object"}
_CITY: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}, "big": {"type": "boolean"}},
    "required": ["city", "people"],
}
_YES_NO: Final = 'root ::= ("yes" | "no") ("," [ ] root)?'


def _by(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def _begun(content: str, **more: Any) -> list[dict[str, Any]]:
    return [*_ASKED, {"role": "assistant", "content": content, **more}]


def _chat(name: str, **fields: Any) -> Exchange:
    body = {"messages": _ASKED, "temperature": 0, "max_tokens": 24, **fields}
    return Exchange(name, "POST", "/v1/chat/completions", body)


def _both(name: str, **fields: Any) -> tuple[Exchange, Exchange]:
    return _chat(name, **fields), _chat(f"{name}, streamed", **fields, stream=True)


_APART: Final = {"continue_final_message": True, "add_generation_prompt": False}
_SEEDED: Final = {"temperature": 0.9, "seed": 7}

EXCHANGES: Final = (
    *_both("any object", response_format=_OBJECT),
    *_both("any object, drawn", response_format=_OBJECT, **_SEEDED),
    *_both("any object, hot", response_format=_OBJECT, temperature=2.5, seed=3, top_k=0, top_p=1, min_p=0),
    *_both("an object by schema", **_by(_CITY), max_tokens=64),
    *_both("an object by schema, drawn", **_by(_CITY), **_SEEDED, max_tokens=64),
    *_both("an object by schema, cut", **_by(_CITY), max_tokens=5),
    *_both("an object by schema, one token", **_by(_CITY), max_tokens=1),
    *_both("one of some words", **_by({"enum": ["Paris", "Rome", 3, None]})),
    *_both("characters of several tokens", **_by({"const": "é 😀 日本"})),
    *_both("an array of numbers", **_by({"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 4})),
    *_both("a text of a pattern", **_by({"type": "string", "pattern": "^[A-Z][a-z]{3}-[0-9]{2}$"}), **_SEEDED),
    *_both("a schema beside the messages", json_schema={"type": "object", "properties": {"x": {"type": "null"}}}),
    *_both("a schema that is no object", json_schema=True),
    *_both("a grammar", grammar=_YES_NO),
    *_both("a grammar, drawn", grammar=_YES_NO, **_SEEDED),
    *_both("a grammar beside a form", grammar=_YES_NO, response_format=_OBJECT),
    *_both("a stop string inside", **_by(_CITY), stop='",'),
    *_both("a stop string, drawn", **_by(_CITY), stop=["people", "zz"], **_SEEDED),
    *_both("with probabilities", **_by(_CITY), logprobs=True, top_logprobs=2, max_tokens=6),
    *_both("with probabilities of the draw", **_by(_CITY), n_probs=2, post_sampling_probs=True, max_tokens=6),
    *_both("begun", **_by(_CITY), messages=_begun('{"city": "Lon')),
    *_both("begun in a fence", response_format=_OBJECT, messages=_begun("```json\n{"), max_tokens=40),
    *_both("continued", **_by(_CITY), messages=_begun('{"city"'), **_APART),
    *_both("continued and echoed", **_by(_CITY), messages=_begun('{"city"'), **_APART, echo=True),
    *_both("reasoning not parsed", **_by(_CITY), reasoning_format="none", max_tokens=8),
    *_both("with usage", **_by({"const": 1}), stream_options={"include_usage": True}),
    *_both("with every sampler", **_by(_CITY), seed=1, temperature=1, mirostat=2, dry_multiplier=0.8, max_tokens=40),
    _chat("with timings per token", response_format=_OBJECT, timings_per_token=True, stream=True, max_tokens=3),
    _chat("a schema and a grammar", json_schema={}, grammar=_YES_NO),
    _chat("a strange form", response_format={"type": "yaml"}),
    _chat("a schema that refers to nothing", **_by({"$ref": "#/definitions/none"})),
    _chat("a pattern that does not close", **_by({"type": "string", "pattern": "^(a$"})),
    _chat("a schema of no type", **_by({"type": "nonsense"})),
    _chat("a grammar that does not parse", grammar='root ::= "a'),
    _chat("a grammar without a root", grammar='start ::= "a"'),
    _chat("a strange reasoning format", reasoning_format="zen"),
    _chat("a number for a reasoning format", reasoning_format=5),
    _chat("a form nobody reads", response_format=5),
    _chat("a schema of no use", json_schema=5, grammar=""),
    _chat("and the server still answers", max_tokens=1),
)

_REASONED: Final = "The user wants a city."

THINKING: Final = (
    *_both("reasoning"),
    *_both("reasoning, drawn", **_SEEDED),
    *_both("reasoning left in the content", reasoning_format="none"),
    *_both("reasoning, the old way", reasoning_format="deepseek-legacy"),
    *_both("no reasoning", chat_template_kwargs={"enable_thinking": False}),
    *_both("no effort", reasoning_effort="none"),
    *_both("reasoning that ends", messages=_begun("", reasoning_content=_REASONED + "\n</think"), max_tokens=16),
    *_both("reasoning given", messages=_begun("I", reasoning_content=_REASONED)),
    *_both("reasoning continued", messages=_begun("", reasoning_content=_REASONED)),
    *_both(
        "reasoning continued apart",
        messages=_begun("", reasoning_content=_REASONED),
        add_generation_prompt=False,
        continue_final_message="reasoning_content",
    ),
    *_both("JSON behind reasoning", **_by(_CITY)),
    *_both("JSON without reasoning", **_by(_CITY), chat_template_kwargs={"enable_thinking": False}),
    *_both("JSON, reasoning not parsed", **_by(_CITY), reasoning_format="none"),
    *_both("JSON behind given reasoning", **_by(_CITY), messages=_begun("{", reasoning_content=_REASONED)),
    *_both("a grammar behind reasoning", grammar=_YES_NO),
    *_both("a stop string in reasoning", stop="city"),
    _chat("a limit of reasoning that is none", reasoning_budget_tokens=-1, max_tokens=2),
)


WRAPPED: Final = (
    *_both("an answer without its tags", max_tokens=3),
    *_both("an answer without its tags, reasoning left in", max_tokens=3, reasoning_format="none"),
    *_both("JSON is not wrapped", **_by(_CITY)),
)


def write_model(model: Path, template: str, target: Path) -> Path:
    """A copy of the model with another template: the same bytes but for the template's and its length's.

    The template ends in a comment, so that no tensor moves against the alignment.

    Returns:
        `target`.
    """
    with GGUFFile.open(model) as file:
        old = file.metadata["tokenizer.chat_template"].encode()
    new = template.encode()
    longer = max(0, len(new) + 4 - len(old))
    length = len(old) + -(-longer // ALIGNMENT) * ALIGNMENT
    new += b"{#" + b" " * (length - len(new) - 4) + b"#}"
    data = model.read_bytes()
    assert data.count(old) == 1
    target.write_bytes(data.replace(struct.pack("<Q", len(old)) + old, struct.pack("<Q", len(new)) + new))
    return target
