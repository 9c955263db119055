"""A model's chat template: messages in, the prompt out, as llama-server b11192 makes it with `--jinja`."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final

import jinja2

from engine.chat_formats.specialized import specialized
from engine.chat_formats.template_analysis import analyze
from engine.chat_formats.template_markers import TemplateAnalysis
from engine.errors import InvalidModelFile, InvalidRequest, UnplayableModel
from engine.jinja_environment import TemplateEnvironment, prepare_source
from engine.json_schema.kinds import json_type
from engine.prompt_pieces import Pieces, PieceTemplate, find_loop, refusals
from engine.template_capabilities import Capabilities, probe
from engine.tokenizer import Tokenizer

Message = dict[str, Any]

# What a model without a template of its own is asked in, as by llama-server.
CHATML: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_KEY: Final = "tokenizer.chat_template"
_MAX_CHARACTERS: Final = 1 << 17  # a second of compiling


class ChatTemplate:
    """A compiled template. Rendering changes nothing, so several threads may render at once.

    Args:
        source: the template.
        bos_token, eos_token: their texts; "" where the vocabulary has none.
        add_bos, add_eos: whether tokenizing the prompt adds them; the prompt then leaves them out.
        tool_use: another template, for conversations with tools.

    Attributes:
        source: the template as llama-server shows it.

    Raises:
        UnplayableModel: a template does not compile.
    """

    def __init__(
        self,
        source: str,
        bos_token: str = "",
        eos_token: str = "",
        *,
        add_bos: bool = False,
        add_eos: bool = False,
        tool_use: str | None = None,
    ) -> None:
        if source in ("", "chatml"):
            source = tool_use or CHATML
        self.source = prepare_source(source)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._strip_bos = bos_token if add_bos else ""
        self._strip_eos = eos_token if add_eos else ""
        self._template = _compile(self.source)
        self._tool_use = None
        if tool_use:
            self._tool_use = ChatTemplate(tool_use, bos_token, eos_token, add_bos=add_bos, add_eos=add_eos)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], tokenizer: Tokenizer, given: str = "") -> ChatTemplate:
        """The template of a model file, or the one `given` instead; ChatML where there is none.

        Raises:
            InvalidModelFile: the template is not a text.
            UnplayableModel: it does not compile.
        """
        source, tool_use = _sources(metadata, given)
        bos, eos = (
            "" if token is None else tokenizer.piece(token, special=True).decode(errors="replace")
            for token in (tokenizer.bos, tokenizer.eos)
        )
        return cls(source, bos, eos, add_bos=tokenizer.add_bos, add_eos=tokenizer.add_eos, tool_use=tool_use or None)

    @staticmethod
    def check(metadata: Mapping[str, Any], given: str = "") -> None:
        """What `from_gguf` would refuse, told without a tokenizer.

        Raises:
            InvalidModelFile, UnplayableModel: as `from_gguf`.
        """
        for source in filter(None, _sources(metadata, given)):
            _compile(prepare_source(source))

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the template makes use of, found by rendering it on a few conversations."""
        return probe(self._template, _ENVIRONMENT.variables_of(self.source))

    @cached_property
    def thinks(self) -> bool:
        """Whether the template knows answers with reasoning; `enable_thinking` is then true unless said otherwise."""
        kind = specialized(self.source)
        return self.analysis.reasoning.mode != "none" if kind is None else kind.thinks

    @property
    def with_tools(self) -> ChatTemplate:
        """The template for conversations with tools, which may be this one."""
        return self._tool_use or self

    @cached_property
    def analysis(self) -> TemplateAnalysis:
        """The markers the template puts around the parts of an answer.

        Raises:
            InvalidRequest: what the template shows of tool calls contradicts itself.
        """
        can = self.capabilities
        return analyze(self, tool_calls=can.supports_tool_calls, parallel_calls=can.supports_parallel_tool_calls)

    def render_probe(self, messages: Sequence[Message], /, **variables: Any) -> str | None:
        """The prompt of a conversation as it stands, nothing added or stripped; None when the template refuses it."""
        given = copy.deepcopy(list(messages))
        for message in given:
            self._shape_content(message)
        try:
            return self._template.render({"messages": given, **self._tokens, **copy.deepcopy(variables)})
        except Exception:  # a template is code: it may raise anything
            return None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt of a conversation.

        Args:
            messages: as `normalize_messages` takes them.
            add_generation_prompt: end in the opening of the assistant's message.
            **variables: more variables for the template, `tools` among them, in OpenAI's form; `enable_thinking` is
                `thinks` unless given.

        Raises:
            InvalidRequest: a message is malformed, or the template refuses the conversation.
        """
        context = self._context(self._adapt(normalize_messages(messages)), add_generation_prompt, variables)
        with refusals():
            prompt = self._template.render(context)
        return prompt.removeprefix(self._strip_bos).removesuffix(self._strip_eos)

    def _context(self, adapted: list[Message], add_generation_prompt: bool, more: Mapping[str, Any]) -> dict[str, Any]:
        """What the template sees."""
        now = datetime.now()
        context: dict[str, Any] = {
            "messages": adapted,
            **self._tokens,
            "enable_thinking": self.thinks,
            "preserve_reasoning": True,
            "datetime": now.strftime("%b %d %Y"),
            "date_string": now.strftime("%d %b %Y"),
            **more,
            **({"add_generation_prompt": True} if add_generation_prompt else {}),
        }
        _spread(context)
        return context

    def pieces(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> Pieces | None:
        """The parts of the prompt that `render` makes of the same; None for a template whose parts are not known to
        stay the same when messages before them go.

        Raises:
            InvalidRequest: as `render`.
        """
        known = specialized(self.source) is not None or not self.capabilities.supports_system_role
        template = None if known or "messages" in variables else _piece_template(self.source)
        if template is None:
            return None
        adapted = self._adapt(normalize_messages(messages))
        contexts = [self._context(adapted, add_generation_prompt, variables)]
        if template.refuses:  # the prompt without the opening of an answer is asked for, too
            contexts.append(self._context(adapted, not add_generation_prompt, variables))
        with refusals():
            (texts, latest), *_ = [template.pieces(context) for context in contexts]
        return Pieces(texts, latest, template, contexts) if len(texts) == len(adapted) else None

    def generation_prompt(self, messages: Sequence[Mapping[str, Any]], /, **variables: Any) -> str:
        """What `add_generation_prompt` adds: the prompt with it from where it leaves the prompt without it.

        Raises:
            InvalidRequest: as `render`.
        """
        without = self.render(messages, **{**variables, "add_generation_prompt": False})
        prompt = self.render(messages, **{**variables, "add_generation_prompt": True})
        same = 0
        while same < min(len(without), len(prompt)) and without[same] == prompt[same]:
            same += 1
        return prompt[same:]

    def _shape_content(self, message: Message) -> None:
        """Content as one text or as parts, where the template understands but one of them."""
        can, content = self.capabilities, message.get("content")
        if isinstance(content, list) and can.supports_string_content and not can.supports_typed_content:
            message["content"] = _joined(content)
        elif isinstance(content, str) and can.supports_typed_content and not can.supports_string_content:
            message["content"] = [{"type": "text", "text": content}]

    def _adapt(self, messages: list[Message]) -> list[Message]:
        """Messages in the shape this template understands."""
        can = self.capabilities
        if "You have access to the following functions in JSONSchema format" in self.source:
            messages = [_trimmed(message) for message in messages]
        kind = specialized(self.source)
        for message in messages:
            self._shape_content(message)
            if kind is not None and kind.copies_thinking and "reasoning_content" in message:
                message["thinking"] = message["reasoning_content"]
            if message["role"] == "developer" and "<|channel|>" not in self.source:
                message["role"] = "system"
            if can.supports_object_arguments:
                for call in message.get("tool_calls", ()):
                    call["function"]["arguments"] = _parsed(call["function"]["arguments"])
        if messages and messages[0]["role"] == "system" and not can.supports_system_role:
            system = messages.pop(0)
            if messages:
                messages[0]["content"] = _as_text(system["content"]) + "\n" + _as_text(messages[0]["content"])
        return [_in_parts(message) for message in messages] if kind and kind.reasoning_in_parts else messages


def normalize_messages(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Messages as llama-server hands them to every template: the keys it knows, in its order.

    `content` is a text or a list of text parts, "" where there was none; the arguments of a tool call are JSON text.

    Raises:
        InvalidRequest: a message is malformed.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise _malformed(f"Expected 'messages' to be an array, got {_dump(messages)}")
    return [_normalize(message) for message in messages]


def _normalize(message: Mapping[str, Any]) -> Message:
    if type(message) is not dict and not isinstance(message, Mapping):
        raise _malformed(f"Expected 'message' to be an object, got {_dump(message)}")
    if "role" not in message:
        raise _malformed(f"Missing 'role' in message: {_dump(message)}")
    if "content" not in message and "tool_calls" not in message:
        raise _malformed("Expected 'content' or 'tool_calls'")
    found: Message = {"role": _text(message, "role"), "content": _content(message.get("content"))}
    for key in ("reasoning_content", "name", "tool_call_id"):
        if key in message and (text := _text(message, key)):
            found[key] = text
    calls = _items(message.get("tool_calls"))
    if calls:
        found["tool_calls"] = [_tool_call(call) for call in calls]
    return found


def _items(value: Any) -> Sequence[Any]:
    """What the reference finds in a value that it goes through like a list."""
    if value is None:
        return ()
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _content(content: Any) -> str | list[Message]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise _malformed(f"Invalid 'content' type: expected string or array, got {_dump(content)}")
    for part in content:
        if not isinstance(part, Mapping) or "type" not in part:
            raise _malformed(f"Missing content part type: {_dump(part)}")
        if part["type"] != "text":
            raise _malformed(f"Unsupported content part type: {_dump(part['type'])}")
    return [{"type": "text", "text": _text(part, "text")} for part in content] or ""


def _tool_call(call: Any) -> Message:
    if not isinstance(call, Mapping) or "type" not in call:
        raise _malformed(f"Missing tool call type: {_dump(call)}")
    if call["type"] != "function":
        raise _malformed(f"Unsupported tool call type: {_dump(call)}")
    if "function" not in call:
        raise _malformed(f"Missing tool call function: {_dump(call)}")
    function = call["function"]
    if not isinstance(function, Mapping) or "name" not in function:
        raise _malformed(f"Missing tool call name: {_dump(call)}")
    name = _text(function, "name")
    if "arguments" not in function:
        raise _malformed("[json.exception.out_of_range.403] key 'arguments' not found")
    arguments = function["arguments"]
    text = arguments if isinstance(arguments, str) else _dump(arguments)
    found: Message = {"type": "function", "function": {"name": name, "arguments": text}}
    if "id" in call and (call_id := _text(call, "id")):
        found["id"] = call_id
    return found


def _text(message: Mapping[str, Any], key: str) -> str:
    if key not in message:
        raise _malformed(f"[json.exception.out_of_range.403] key '{key}' not found")
    if not isinstance(message[key], str):
        kind = json_type(message[key]).replace("integer", "number")
        raise _malformed(f"[json.exception.type_error.302] type must be string, but is {kind}")
    return str(message[key])


def _malformed(reason: str) -> InvalidRequest:
    return InvalidRequest(f"Failed to parse messages: {reason}")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError as error:
        raise InvalidRequest(f"Failed to parse tool call arguments as JSON: {error}") from None


def _joined(parts: Sequence[Mapping[str, Any]]) -> str:
    """Text parts as one text, on lines of their own; no line end before the first text."""
    text = ""
    for part in parts:
        text += ("\n" if text else "") + part["text"]
    return text


def _as_text(content: str | list[Message]) -> str:
    return content if isinstance(content, str) else _joined(content)


def _trimmed(message: Message) -> Message:
    """A StepFun message without the white space around its texts, which makes that model reason in circles."""
    trimmed = {**message}
    for key in ("content", "reasoning_content"):
        if isinstance(message.get(key), str):
            trimmed[key] = message[key].strip(" \t\n\v\f\r")
    if isinstance(message["content"], list):
        trimmed["content"] = [{**part, "text": part["text"].strip(" \t\n\v\f\r")} for part in message["content"]]
    return trimmed


def _in_parts(message: Message) -> Message:
    """A system's or assistant's message with its reasoning as the first part of the content."""
    if message["role"] not in ("system", "assistant"):
        return message
    shown = {key: value for key, value in message.items() if key != "reasoning_content"}
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if "reasoning_content" in message:
        parts.insert(0, {"type": "thinking", "thinking": message["reasoning_content"]})
    return {**shown, "content": parts}


def _spread(context: dict[str, Any]) -> None:
    """One switch under the several names that templates have for it."""
    keep = context.get("preserve_reasoning")
    if isinstance(keep, bool):
        context["preserve_thinking"] = keep
        for name in ("clear_thinking", "truncate_history_thinking", "drop_thinking"):
            context[name] = not keep
    if isinstance(context.get("reasoning_effort"), str):
        context["reasoning_strength"] = context["reasoning_effort"]


_ENVIRONMENT: Final = TemplateEnvironment()


def _sources(metadata: Mapping[str, Any], given: str) -> tuple[str, str]:
    """The template of a file, or the one given instead, and its other one for tools; "" for none."""
    source, tool_use = metadata.get(_KEY, ""), metadata.get(f"{_KEY}.tool_use", "")
    if not (isinstance(source, str) and isinstance(tool_use, str)):
        raise InvalidModelFile(f"{_KEY} is no text")
    sources = (given, "") if given else (source, tool_use)
    if (n_characters := max(map(len, sources))) > _MAX_CHARACTERS:
        raise UnplayableModel(f"{_KEY} has {n_characters} characters, more than {_MAX_CHARACTERS}")
    return sources


@lru_cache(maxsize=4)
def _piece_template(source: str) -> PieceTemplate | None:
    """The template that shows the parts of its prompts, where these are known to stay the same; see there."""
    tree = _ENVIRONMENT.syntax_tree(source)
    loop = find_loop(tree)
    return None if loop is None else PieceTemplate(tree, loop, _ENVIRONMENT)


@lru_cache(maxsize=4)  # a header's check and the loading after it compile the same ones
def _compile(source: str) -> jinja2.Template:
    try:
        return _ENVIRONMENT.from_source(source)
    except jinja2.TemplateSyntaxError as error:
        raise UnplayableModel(f"{_KEY}, line {error.lineno}: {error.message}") from None
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        raise UnplayableModel(f"{_KEY} does not compile: {error}") from None
