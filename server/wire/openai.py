"""OpenAI's chat as llama-server b11192 answers it, as pure functions: a body to a request, steps to chunks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.chat_formats.call_ids import CallIds
from engine.chat_formats.formats import ChatFormat, Continuation, chat_format, with_tools
from engine.chat_formats.messages import ChatMessage, MessageDelta
from engine.chat_formats.reader import AnswerReader
from engine.chat_formats.tools import ToolUse
from engine.chat_template import ChatTemplate, normalize_messages
from engine.generation import Final, Step
from engine.prompt_pieces import Pieces
from engine.timings import Timings
from server.errors import BadRequest
from server.receipts import BUILD
from server.wire.chat_output import WantedOutput, parse_output
from server.wire.chat_tools import AskedTools, parse_tools, shown_call_delta, shown_calls
from server.wire.fields import CompletionFields, parse_fields, reasoning_format_of, to_int
from server.wire.llama import Format, shown_tokens, shows_timings, whole_text
from server.wire.openai_parts import finish_reason, new_id, summed, usage, verbose

CHAT_KNOWN = frozenset(
    {
        *("messages", "model", "prompt", "tools", "tool_choice", "parallel_tool_calls"),
        *("top_logprobs", "add_generation_prompt", "chat_template_kwargs", "reasoning_effort"),
        *("message_delimiters", "thinking_budget_tokens"),
    }
)
"""Fields of a chat request that are not completion fields."""

PROMPT_FIELDS = frozenset(
    {
        *("messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "json_schema", "grammar"),
        *("add_generation_prompt", "continue_final_message", "chat_template_kwargs", "reasoning_format"),
        *("reasoning_effort", "logprobs", "top_logprobs"),
    }
)
"""Fields of a chat request that llama-server reads to make its prompt."""

NO_MESSAGES = "'messages' is required"
"""What llama-server says of a chat request without messages, and of one that is no object."""

Message = dict[str, Any]


# -- chat request in -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request, validated.

    Attributes:
        fields: the completion fields.
        output: what the answer must be.
        tools: what the answer may call.
        messages: what the template renders, the continued message left out.
        continuation: the beginning of the answer, given as a final assistant message; None for none.
        echo_prefill: whether a stream repeats that beginning (a whole answer always does).
        add_generation_prompt: whether the prompt ends in the assistant's opening.
        template_kwargs: more variables for the template.
        no_effort: reasoning is off, unless a variable of the template says otherwise.
        reasoning_format: llama-server's name of what becomes of reasoning, None for the server's default.
        ignored: fields that were accepted and change nothing.
    """

    fields: CompletionFields
    output: WantedOutput
    tools: AskedTools
    messages: tuple[Message, ...]
    continuation: Continuation | None
    echo_prefill: bool
    add_generation_prompt: bool
    template_kwargs: Mapping[str, Any]
    no_effort: bool
    reasoning_format: str | None
    ignored: tuple[str, ...]


def parse_chat(body: Mapping[str, Any]) -> ChatRequest:
    """A chat request's body, validated in llama-server's order.

    Raises:
        BadRequest, InvalidRequest: what llama-server refuses (where it gives 500 for the client's fault, we give 400).
    """
    output = parse_output(body)
    if "messages" not in body:
        raise BadRequest(NO_MESSAGES)
    messages = _parse_messages(body["messages"])
    tools = parse_tools(body)
    add_generation_prompt = body.get("add_generation_prompt")
    add_generation_prompt = add_generation_prompt if isinstance(add_generation_prompt, bool) else True
    asked = body.get("continue_final_message")
    continues = asked is True or asked in ("content", "reasoning_content")
    ends_in_assistant = bool(messages) and messages[-1]["role"] == "assistant"
    if not continues and ends_in_assistant:
        if len(messages) >= 2 and messages[-2]["role"] == "assistant":
            raise BadRequest("Cannot have 2 or more assistant messages at the end of the list.")
        continues, add_generation_prompt = True, False
        asked = None
    if continues and add_generation_prompt:
        raise BadRequest("Cannot set both add_generation_prompt and continue_final_message to true.")
    if continues and ends_in_assistant and "tool_calls" in messages[-1]:
        raise BadRequest("Cannot continue an assistant message that contains tool calls.")
    reasoning_format = _reasoning_format(body)
    if tools.may_call and "grammar" in body:
        raise BadRequest("Cannot use custom grammar constraints with tools.")
    kwargs = _template_kwargs(body)
    add_generation_prompt = bool(kwargs.pop("add_generation_prompt", False)) or add_generation_prompt
    if body.get("logprobs") is True and tools.tools and body.get("stream") is True:
        raise BadRequest("logprobs is not supported with tools + stream")
    if body.get("logprobs") in (None, False) and body.get("top_logprobs") is not None:
        raise BadRequest("top_logprobs requires logprobs to be set to true")
    fields = parse_fields(_for_completion(body, output), CHAT_KNOWN)
    continuation = _continuation(messages.pop(), asked) if continues and messages else None
    return ChatRequest(
        fields=fields,
        output=output,
        tools=tools,
        messages=tuple(messages),
        continuation=continuation,
        echo_prefill=fields.echo or not asked,
        add_generation_prompt=add_generation_prompt,
        template_kwargs=kwargs,
        no_effort=body.get("reasoning_effort") == "none",
        reasoning_format=reasoning_format,
        ignored=(*fields.ignored, *_unused(body), *tools.ignored, *output.ignored),
    )


def for_prompt(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a chat request says about its prompt: where nothing is generated, nobody looks at the rest."""
    return {name: value for name, value in body.items() if name in PROMPT_FIELDS}


def _continuation(message: Mapping[str, Any], asked: Any) -> Continuation:
    """What there is of the answer, and which part of it goes on: reasoning too if that is all there is."""
    content, reasoning = _content_text(message["content"]), message.get("reasoning_content", "")
    in_reasoning = asked == "reasoning_content" or (asked != "content" and reasoning and not message["content"])
    return Continuation(ChatMessage(content, reasoning), "reasoning" if in_reasoning else "content")


def _reasoning_format(body: Mapping[str, Any]) -> str | None:
    if "reasoning_format" not in body:
        return None
    try:
        return reasoning_format_of(body["reasoning_format"])
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _reasoning_budget(body: Mapping[str, Any]) -> int | None:
    """The limit of reasoning, None for the server's; a value of another type is not looked at."""
    for name in ("reasoning_budget_tokens", "thinking_budget_tokens"):
        if isinstance(body.get(name), int | float):
            budget = to_int(body[name])
            return None if budget == -1 else budget
    return None


def _for_completion(body: Mapping[str, Any], output: WantedOutput) -> Mapping[str, Any]:
    """The body that the completion fields see.

    `n_probs` is as llama-server reads it out of `logprobs` and `top_logprobs`, 20 if it cannot.
    """
    left = {name: value for name, value in body.items() if name not in output.consumed}
    left["reasoning_budget_tokens"] = _reasoning_budget(body)
    if body.get("logprobs") is True:
        asked = body.get("top_logprobs")
        left["n_probs"] = asked if isinstance(asked, int | float) else 20
    return left


def _unused(body: Mapping[str, Any]) -> list[str]:
    """Fields of a type llama-server takes no notice of."""
    types: Mapping[str, type] = {"chat_template_kwargs": dict, "response_format": dict}
    types = {**types, "add_generation_prompt": bool, "reasoning_effort": str}
    return [name for name, kind in types.items() if body.get(name) is not None and not isinstance(body[name], kind)]


def chat_form(
    chat: ChatRequest,
    template: ChatTemplate,
    reasoning_format: str = "deepseek",
    variables: Mapping[str, Any] | None = None,
) -> ChatFormat:
    """The prompt of a chat request and the form of its answer.

    Args:
        reasoning_format: the server's, for a request that names none.
        variables: for the template, where the request has none of the name.

    Raises:
        InvalidRequest: the template refuses the conversation, or the wanted form cannot be.
    """
    return chat_format(
        template.with_tools if chat.tools.tools else template,
        chat.messages,
        variables=_variables(chat, template, variables),
        add_generation_prompt=chat.add_generation_prompt,
        continuation=chat.continuation,
        schema=chat.output.schema,
        tools=_tools(chat, template),
        keep_reasoning=(chat.reasoning_format or reasoning_format) == "none",
    )


def prompt_pieces(
    chat: ChatRequest, template: ChatTemplate, variables: Mapping[str, Any] | None = None
) -> Pieces | None:
    """The parts that its messages make of a chat request's prompt, but for a continued message; None where it is not
    known that they are the same when messages go. Arguments and errors as of `chat_form`."""
    given = with_tools(_variables(chat, template, variables), _tools(chat, template))
    rendering = template.with_tools if chat.tools.tools else template
    return rendering.pieces(chat.messages, add_generation_prompt=chat.add_generation_prompt, **given)


def _variables(chat: ChatRequest, template: ChatTemplate, variables: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a request's template sees besides the conversation and the tools."""
    return {"enable_thinking": template.thinks and not chat.no_effort, **(variables or {}), **chat.template_kwargs}


def _tools(chat: ChatRequest, template: ChatTemplate) -> ToolUse:
    return chat.tools.use(parallel=template.with_tools.capabilities.supports_parallel_tool_calls)


def required_template(template: ChatTemplate | None) -> ChatTemplate:
    """The model's chat template.

    Raises:
        BadRequest: it has none.
    """
    if template is None:
        raise BadRequest("this model has no chat template")
    return template


def _content_text(content: str | list[Mapping[str, Any]]) -> str:
    """A continued message's text; parts stand in paragraphs of their own, none before the first text."""
    if isinstance(content, str):
        return content
    text = ""
    for part in content:
        text += ("\n\n" if text else "") + part["text"]
    return text


def _parse_messages(value: Any) -> list[Message]:
    if not isinstance(value, list):
        raise BadRequest("Expected 'messages' to be an array")
    for message in value:
        _check_message(message)
    return normalize_messages(value)


def _check_message(message: Any) -> None:
    given = message if isinstance(message, dict) else {}
    if given.get("role") != "assistant":
        if "content" not in given:
            raise BadRequest("All non-assistant messages must contain 'content'")
    elif "content" not in given and "tool_calls" not in given:
        raise BadRequest("Assistant message must contain either 'content' or 'tool_calls'!")
    content = given.get("content")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise BadRequest("Expected 'content' to be a string or an array")
    for part in content:
        _check_part(part)


def _check_part(part: Any) -> None:
    part_type = part.get("type") if isinstance(part, dict) else None
    media = {"image_url": "image", "input_audio": "audio", "input_video": "video", "video_url": "video"}
    if isinstance(part_type, str) and part_type in media:
        hint = "hint: if this is unexpected, you may need to provide the mmproj"
        raise BadRequest(f"{media[part_type]} input is not supported - {hint}")
    if part_type != "text":
        raise BadRequest("unsupported content[].type")


def _template_kwargs(body: Mapping[str, Any]) -> dict[str, Any]:
    given = body.get("chat_template_kwargs")
    kwargs: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
    if isinstance(kwargs.get("enable_thinking"), str):
        raise BadRequest('invalid type for "enable_thinking" (expected boolean, got string)')
    effort = body.get("reasoning_effort")
    if effort == "none":
        kwargs.pop("reasoning_effort", None)
    elif isinstance(effort, str) and effort:
        kwargs["reasoning_effort"] = effort
    return kwargs


# -- steps out -----------------------------------------------------------------------------------------------------


def chat_message(form: ChatFormat, final: Final) -> ChatMessage:
    """The message of a whole chat answer, its given beginning too; an answer that has no part is all content.

    Raises:
        UnexpectedAnswer: the answer is not of the form.
    """
    return CallIds().added(form.parse(final.text, partial=False)) or ChatMessage(whole_text(final))


def chat_body(message: ChatMessage, final: Final, timings: Timings, form: Format) -> dict[str, Any]:
    """The body of a chat answer that is not streamed."""
    shown: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.reasoning:
        shown["reasoning_content"] = message.reasoning
    if message.tool_calls:
        shown["tool_calls"] = shown_calls(message.tool_calls)
    choice: dict[str, Any] = {"finish_reason": finish_reason(final, message), "index": 0, "message": shown}
    if final.shown:
        choice["logprobs"] = {"content": shown_tokens(final.shown, form)}
    return {
        "choices": [choice],
        "created": int(time.time()),
        "model": form.model,
        "system_fingerprint": BUILD,
        "object": "chat.completion",
        "usage": usage(final.tokens_evaluated, timings),
        "id": new_id(),
        **verbose(form, lambda native: native.final(0, final, timings)),
        "timings": timings.as_dict(),
    }


def together(bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The body of several answers to one prompt, made of their bodies; what there is one of is the first's."""
    choices = [{**body["choices"][0], "index": index} for index, body in enumerate(bodies)]
    count = summed([body["usage"] for body in bodies], len(bodies))
    return {**bodies[0], "choices": choices, "usage": count}


class ChatChunks:
    """The chunks of one answer of a chat stream.

    Args:
        reader: reads the answer.
        form: what the chunks show.
        index: the answer's number.
        answer_id: the stream's id; a new one when left out.
    """

    def __init__(self, reader: AnswerReader, form: Format, index: int = 0, answer_id: str = "") -> None:
        self._form = form
        self._reader = reader
        self._index = index
        self._deltas: list[MessageDelta] = []
        self._last_deltas: list[MessageDelta] = []
        self._has_logprobs = False
        self._base = {
            "created": int(time.time()),
            "id": answer_id or new_id(),
            "model": form.model,
            "system_fingerprint": BUILD,
            "object": "chat.completion.chunk",
        }

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"choices": [{"finish_reason": reason, "index": self._index, "delta": delta}], **self._base}

    def text_of(self, step: Step) -> str:
        """The text this step puts on the wire: reasoning, content, arguments of calls."""
        self._deltas = self._reader.add(step.text) if step.send or step.progress is not None else []
        self._last_deltas = self._reader.end() if step.final is not None else []
        return "".join(delta.text for delta in (*self._deltas, *self._last_deltas))

    def of_step(self, step: Step, text: str) -> Iterator[dict[str, Any]]:
        """The chunks of one step, whose `text_of` is `text`; the role goes with the first token and with progress."""
        chunks = []
        if step.progress is not None or (step.send and step.n_decoded == 1):
            chunks.append(self._chunk({"role": "assistant", "content": None}))
        chunks += [self._chunk(_shown_delta(delta)) for delta in self._deltas]
        if chunks and step.shown is not None and step.shown.best:
            chunks[-1]["choices"][0]["logprobs"] = {"content": shown_tokens([step.shown], self._form)}
            self._has_logprobs = True
        if chunks and shows_timings(step, self._form):
            chunks[-1]["timings"] = step.timings.as_dict()
        if step.progress is not None:
            chunks[-1]["prompt_progress"] = asdict(step.progress)
        yield from chunks
        if step.final is not None:
            yield from self._last(step.final, step.timings)

    def _last(self, final: Final, timings: Timings) -> Iterator[dict[str, Any]]:
        chunks = [self._chunk(_shown_delta(delta)) for delta in self._last_deltas]
        chunks.append(self._chunk({}, finish_reason(final, self._reader.message)))
        if self._form.fields.stream_options.include_usage:
            chunks.append({"choices": [], **self._base, "usage": usage(final.tokens_evaluated, timings)})
        chunks[-1]["timings"] = timings.as_dict()
        chunks[0] |= verbose(self._form, lambda native: native.final(self._index, final, timings))
        yield from chunks

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """The receipt's event.

        For clients that read `choices[0]` of every chunk it has one that adds nothing: no text, no tokens where they
        had probabilities, and no second reason for the end, which some would append to the first.
        """
        chunk = self._chunk({})
        if self._has_logprobs:
            chunk["choices"][0]["logprobs"] = {"content": []}
        return {**chunk, "bankml_receipt": receipt}


def _shown_delta(delta: MessageDelta) -> dict[str, Any]:
    shown = {"reasoning_content": delta.reasoning, "content": delta.content}
    return {name: text for name, text in shown.items() if text} | shown_call_delta(delta)
