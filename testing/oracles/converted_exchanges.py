"""Requests of the APIs that llama-server converts to chat requests, and of token counts, as real exchanges.

`EXCHANGES` are asked of the model as it is, `THINKING` of the same model with a template that opens reasoning,
`CALLING` with one that has tools. They run in order against one server each, as those of `http_shapes`.
"""

from __future__ import annotations

from typing import Any, Final

from testing.oracles.http_shapes import Exchange

ASKED: Final = {"role": "user", "content": "Say hi."}
_EMOJI: Final = {"role": "user", "content": "Repeat only this: 😀 😃 😄 😁"}
_LONG: Final = {"role": "user", "content": "word " * 9000}
_PIXEL: Final = "iVBORw0KGgo="
_HEADER: Final = "x-anthropic-billing-header: cc_version=1; cch="


def _message(name: str, **fields: Any) -> Exchange:
    body = {"model": "any", "messages": [ASKED], "max_tokens": 5, "temperature": 0, **fields}
    return Exchange(f"message: {name}", "POST", "/v1/messages", body)


def _messages(name: str, **fields: Any) -> tuple[Exchange, Exchange]:
    return _message(name, **fields), _message(f"{name}, streamed", **fields, stream=True)


def _count(name: str, **body: Any) -> Exchange:
    return Exchange(f"count: {name}", "POST", "/v1/messages/count_tokens", body)


def _response(name: str, **fields: Any) -> Exchange:
    body = {"model": "any", "input": "Say hi.", "max_output_tokens": 5, "temperature": 0, **fields}
    return Exchange(f"response: {name}", "POST", "/v1/responses", body)


def _responses(name: str, **fields: Any) -> tuple[Exchange, Exchange]:
    return _response(name, **fields), _response(f"{name}, streamed", **fields, stream=True)


def _tokens(path: str, name: str, **body: Any) -> Exchange:
    return Exchange(f"{path}: {name}", "POST", f"{path}/input_tokens", body)


def _user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def _assistant(*parts: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _said(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "status": "completed", "content": list(parts), **fields}


def _output(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


_MESSAGES: Final = (
    *_messages("as it is"),
    *_messages("system", system="You are brief."),
    *_messages("system of blocks", system=[_text("You are "), {"type": "image"}, _text("brief."), 5]),
    _message("system of a billing header", system=_HEADER + "a1b2c;You are brief."),
    _message("system of the same header with another stamp", system=_HEADER + "fffff;You are brief."),
    _message("system of a header without a stamp", system=_HEADER + "a1b2"),
    _message("system of another kind", system=5),
    _message("no system", system=None),
    *_messages("blocks of text", messages=[_user(_text("Say"), {**_text("hi."), "cache_control": {}})]),
    *_messages("turns", messages=[ASKED, _assistant(_text("Hi.")), {"role": "user", "content": "Again."}]),
    *_messages("a stop sequence", stop_sequences=["there", "zz"]),
    *_messages("a stop sequence that does not come", stop_sequences=["Hello there,x"], max_tokens=4),
    _message("a stop sequence that is a text", stop_sequences="there"),
    _message("stop sequences of another kind", stop_sequences=5),
    *_messages("one token", max_tokens=1),
    *_messages("until it ends", messages=[{"role": "user", "content": "Hi"}], max_tokens=16),
    *_messages("characters of several tokens", messages=[_EMOJI], max_tokens=12),
    *_messages("begun", messages=[ASKED, {"role": "assistant", "content": "Hello, I"}]),
    *_messages("begun with nothing", messages=[ASKED, {"role": "assistant", "content": ""}]),
    _message("begun in blocks", messages=[ASKED, _assistant(_text("Hello,"), _text("I"))]),
    _message("begun twice", messages=[ASKED, _assistant(_text("a")), _assistant(_text("b"))]),
    *_messages("drawn from one", temperature=1, top_k=1, top_p=0.5),
    *_messages("thinking, without a template for it", thinking={"type": "enabled", "budget_tokens": 50}),
    _message("thinking off", thinking={"type": "disabled"}),
    _message(
        "what has no effect", metadata={"user_id": "me"}, seed=5, service_tier="auto", tool_choice={"type": "none"}
    ),
    _message("no messages at all", messages=[]),
    _message("messages of another kind", messages="x"),
    _message("a message of another kind", messages=[5]),
    _message("a message without content", messages=[{"role": "user"}]),
    _message("an assistant without content", messages=[{"role": "assistant"}, ASKED]),
    _message("a message without role", messages=[{"content": [_text("x")]}]),
    _message("content of another kind", messages=[{"role": "user", "content": 5}]),
    _message("content that is null", messages=[{"role": "user", "content": None}]),
    _message("content of no known block", messages=[_user({"type": "document"}, 5), ASKED]),
    _message("a text block without text", messages=[_user({"type": "text"})]),
    _message("an image", messages=[_user({"type": "image", "source": {"type": "base64", "data": _PIXEL}})]),
    _message("an image by address", messages=[_user({"type": "image", "source": {"type": "url", "url": "x"}})]),
    _message("an image of no source", messages=[_user({"type": "image"}), ASKED]),
    _message("tools that are no list", tools="x"),
    _message("max_tokens as text", max_tokens="x"),
    _message("temperature as text", temperature="hot"),
    _message("stream as a number", stream=1),
    _message("thinking as text", chat_template_kwargs={"enable_thinking": "x"}),
    *_messages("too long", messages=[_LONG]),
    Exchange("message: nothing", "POST", "/v1/messages", {"model": "any", "max_tokens": 5}),
    Exchange("message: broken JSON", "POST", "/v1/messages", raw="{bad"),
)

_COUNTS: Final = (
    _count("as it is", messages=[ASKED]),
    _count("system and blocks", system="You are brief.", messages=[_user(_text("Say"), _text("hi."))]),
    _count("begun", messages=[ASKED, {"role": "assistant", "content": "Hello, I"}]),
    _count("no messages", messages=[]),
    _count("nothing"),
    _count("more than the context", messages=[_LONG]),
    _count("what would be refused elsewhere", messages=[ASKED], temperature="hot", max_tokens="x", stream=1),
    _tokens("/v1/chat/completions", "as it is", messages=[ASKED]),
    _tokens("/v1/chat/completions", "an effort", messages=[ASKED], reasoning_effort="low", stop=5, n="x"),
    _tokens("/chat/completions", "no opening", messages=[ASKED], add_generation_prompt=False),
    _tokens("/v1/chat/completions", "nothing"),
    _tokens("/v1/chat/completions", "a strange form", messages=[ASKED], response_format={"type": "yaml"}),
    _tokens("/v1/chat/completions", "probabilities", messages=[ASKED], top_logprobs=2),
    _tokens("/v1/responses", "as it is", input="Say hi."),
    _tokens("/responses", "instructions", instructions="You are brief.", input="Say hi."),
    _tokens("/v1/responses", "nothing"),
)


_RESPONSES: Final = (
    *_responses("as it is"),
    Exchange("response: the other path", "POST", "/responses", {"input": "Say hi.", "max_tokens": 2, "temperature": 0}),
    *_responses("instructions", instructions="You are brief."),
    _response("instructions that are null", instructions=None),
    _response("instructions of another kind", instructions=5),
    *_responses("items", input=[{"role": "system", "content": "You are brief."}, ASKED]),
    _response(
        "a developer's item", input=[{"role": "developer", "content": "You are brief.", "type": "message"}, ASKED]
    ),
    _response("parts", input=[_user({"type": "input_text", "text": "Say"}, {"type": "input_text", "text": "hi."})]),
    *_responses("turns", input=[ASKED, _said(_output("Hi.")), {"role": "user", "content": "Again."}]),
    _response("turns of texts", input=[ASKED, _said(content="Hi."), {"role": "user", "content": "Again."}]),
    _response("turns said in two", input=[ASKED, _said(_output("Hi.")), _said(_output("Yes?")), ASKED]),
    *_responses("begun", input=[ASKED, _said(_output("Hello, I"))]),
    _response("a refusal", input=[ASKED, _said({"type": "refusal", "refusal": "No."}), ASKED]),
    _response("a refusal without one", input=[ASKED, _said({"type": "refusal"})]),
    _response("an output without text", input=[ASKED, _said({"type": "output_text"})]),
    _response("an output of another kind", input=[ASKED, _said({"type": "zzz"})]),
    _response("an assistant of no type", input=[ASKED, {"role": "assistant", "content": "Hi."}]),
    _response("an input without text", input=[_user({"type": "input_text"})]),
    _response("an image", input=[_user({"type": "input_image", "image_url": "data:image/png;base64,AA=="})]),
    _response("an image without address", input=[_user({"type": "input_image"})]),
    _response("a file", input=[_user({"type": "input_file"})]),
    _response("an input of another kind", input=[_user({"type": "text", "text": "x"})]),
    _response("an item of another kind", input=[{"type": "zzz"}]),
    _response("an item that is a number", input=[5]),
    _response(
        "a tool's output without type", input=[ASKED, {"type": "function_call_output", "call_id": "c", "output": [5]}]
    ),
    _response(
        "a tool's output of another kind",
        input=[ASKED, {"type": "function_call_output", "call_id": "c", "output": [{"type": "text"}]}],
    ),
    _response("reasoning without content", input=[ASKED, {"type": "reasoning", "summary": []}]),
    _response("reasoning of nothing", input=[ASKED, {"type": "reasoning", "summary": [], "content": []}]),
    _response("reasoning of no text", input=[ASKED, {"type": "reasoning", "summary": [], "content": [{}]}]),
    _response("tools that are no list", tools=None),
    *_responses("tools of another kind", tools=[{"type": "web_search"}, 5]),
    _response("input of another kind", input=5),
    _response("no items", input=[]),
    _response("an answer before", previous_response_id="resp_1"),
    _response("no answer before", previous_response_id=None),
    _response("an effort", reasoning={"effort": "low", "summary": "auto"}),
    _response("reasoning of another kind", reasoning="x"),
    _response(
        "what has no effect", store=True, metadata={}, include=[], truncation="auto", text={"format": {"type": "text"}}
    ),
    _response("max_output_tokens as text", max_output_tokens="x"),
    _response("a field of llama-server's", n_predict=2, stop=["there"]),
    *_responses("a stop string", stop=["there"]),
    *_responses("one token", max_output_tokens=1),
    *_responses("until it ends", input="Hi", max_output_tokens=16),
    *_responses("characters of several tokens", input=[_EMOJI], max_output_tokens=12),
    *_responses("a form", response_format={"type": "json_object"}, max_output_tokens=16),
    _response("timings per token", stream=True, timings_per_token=True, max_output_tokens=3),
    _response("progress", input="word " * 40, stream=True, return_progress=True, timings_per_token=True),
    _response("progress of a beginning", input=[ASKED, _said(_output("Well"))], stream=True, return_progress=True),
    _response("probabilities", logprobs=True, top_logprobs=2, max_output_tokens=2),
    _response("probabilities alone", top_logprobs=2),
    *_responses("too long", input=[_LONG]),
    Exchange("response: nothing", "POST", "/v1/responses", {"model": "any"}),
)

EXCHANGES: Final = (
    *_MESSAGES,
    *_COUNTS,
    *_RESPONSES,
    _message("and the server still answers", max_tokens=1),
)

_THOUGHT: Final = "The user wants a greeting."

THINKING: Final = (
    *_messages("reasoning"),
    *_messages("a limit of reasoning", thinking={"type": "enabled", "budget_tokens": 3}, max_tokens=12),
    *_messages("the usual limit of reasoning", thinking={"type": "enabled", "budget_tokens": "x"}),
    *_messages("no reasoning", chat_template_kwargs={"enable_thinking": False}),
    *_messages("reasoning that ends", messages=[ASKED, _assistant({"type": "thinking", "thinking": _THOUGHT})]),
    *_messages(
        "reasoning and an answer",
        messages=[ASKED, _assistant({"type": "thinking", "thinking": _THOUGHT}, _text("Hi"))],
    ),
    *_messages(
        "reasoning before",
        messages=[ASKED, _assistant({"type": "thinking", "thinking": _THOUGHT}, _text("Hi.")), ASKED],
        chat_template_kwargs={"enable_thinking": False},
    ),
    *_responses("reasoning"),
    *_responses("no effort", reasoning={"effort": "none"}),
    *_responses(
        "reasoning and an answer",
        input=[
            ASKED,
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": _THOUGHT}]},
            _said(_output("Hi")),
        ],
    ),
    *_responses(
        "an answer and reasoning",
        input=[ASKED, _said(_output("Hi")), {"type": "reasoning", "summary": [], "content": _THOUGHT}],
    ),
    *_responses("reasoning left in the content", reasoning_format="none"),
)


CALLING_TEMPLATE: Final = (
    "{% if tools %}<|im_start|>system\nTools:\n"
    "{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content %}{{ m.content }}{% endif %}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "\n</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Tools as the Hermes models have them, in few words."""

_CITY: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Final = {"name": "get_weather", "description": "The weather of a city", "input_schema": _CITY}
FUNCTION: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": _CITY,
}
_TIME: Final = {"name": "get_time", "input_schema": {"type": "object", "properties": {}}}


def weather_in(city: str) -> dict[str, Any]:
    """The user's question."""
    return {"role": "user", "content": f"What is the weather in {city}?"}


def weather_told(city: str, call: str) -> list[dict[str, Any]]:
    """A question, the call it led to, the tool's answer and the assistant's, as Anthropic's messages: what a small
    model needs to have seen before it calls a tool.
    """
    use = {"type": "tool_use", "id": call, "name": "get_weather", "input": {"city": city}}
    result = {"type": "tool_result", "tool_use_id": call, "content": [_text("sunny")]}
    return [weather_in(city), _assistant(use), _user(result), {"role": "assistant", "content": "It is sunny."}]


TOLD: Final = (*weather_told("London", "c1"), *weather_told("Rome", "c2"))


def weather_items(city: str, call: str) -> list[dict[str, Any]]:
    """The same as items of OpenAI's Responses API."""
    arguments = f'{{"city": "{city}"}}'
    return [
        weather_in(city),
        {"type": "function_call", "call_id": call, "name": "get_weather", "arguments": arguments},
        {"type": "function_call_output", "call_id": call, "output": "sunny"},
        _said(_output("It is sunny.")),
    ]


TOLD_ITEMS: Final = (*weather_items("London", "c1"), *weather_items("Rome", "c2"))
_TO_CALL: Final = {
    "messages": [*TOLD, weather_in("Paris")],
    "tools": [WEATHER, _TIME],
    "max_tokens": 48,
}
_CALL: Final[dict[str, Any]] = {
    "input": [*TOLD_ITEMS, weather_in("Paris")],
    "tools": [FUNCTION],
    "max_output_tokens": 48,
}
_BEGUN: Final = {"role": "assistant", "content": "<tool_call>\n"}
_ANSWERED: Final = [*_CALL["input"], *weather_items("Paris", "c3")[1:3]]

CALLING: Final = (
    *_messages("a call", **_TO_CALL),
    *_messages("a call of any", **_TO_CALL, tool_choice={"type": "any"}),
    *_messages("a call of one", **_TO_CALL, tool_choice={"type": "tool", "name": "get_time"}),
    _message("a choice of none", **_TO_CALL, tool_choice={"type": "none"}),
    *_messages("a call that is cut", **{**_TO_CALL, "max_tokens": 24}),
    *_messages("a call that is cut in its name", **{**_TO_CALL, "max_tokens": 12}),
    *_messages("a call begun", **{**_TO_CALL, "messages": [weather_in("Paris"), _BEGUN]}, tool_choice={"type": "any"}),
    *_messages("a stop sequence in a call", **_TO_CALL, stop_sequences=["Paris"]),
    *_messages("an answer to a result", **{**_TO_CALL, "messages": [*TOLD, *weather_told("Paris", "c3")[:3]]}),
    *_messages("no call", messages=[*TOLD, ASKED], tools=[WEATHER]),
    _message("no tools", messages=[*TOLD, weather_in("Paris")], tools=[]),
    _message("a tool without a name", messages=[ASKED], tools=[{}]),
    _message("a tool of another kind", messages=[ASKED], tools=[5]),
    _message("a schema of another kind", messages=[ASKED], tools=[{**WEATHER, "input_schema": "x"}]),
    _message("a call without its message", messages=[ASKED, _assistant({"type": "tool_use"})]),
    _count("tools", messages=[*TOLD, weather_in("Paris")], tools=[WEATHER]),
    *_responses("a call", **_CALL),
    *_responses("a call that must be", **_CALL, tool_choice="required"),
    _response("a choice of no tool", **_CALL, tool_choice="none"),
    _response("a choice of one tool", **_CALL, tool_choice={"type": "function", "name": "get_weather"}),
    *_responses("a call that is cut", **{**_CALL, "max_output_tokens": 24}),
    *_responses("calls beside each other", **_CALL, parallel_tool_calls=True),
    *_responses("an answer to an output", **{**_CALL, "input": _ANSWERED}),
    _response("a strange choice", **_CALL, tool_choice="zzz"),
    _response("probabilities and tools in a stream", **_CALL, logprobs=True, stream=True),
    _tokens("/v1/responses", "tools", **_CALL),
)
