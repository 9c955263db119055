"""What a chat template makes use of, found out as llama-server b11192 does (`common/jinja/caps.cpp`).

The template is rendered on small conversations whose parts remember whether the template looked at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, SupportsIndex

_MARKER: Final = "STRING_MARKER"
_REASONING: Final = "<REASONING_CONTENT_PLACEHOLDER>"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What `/props` shows as `chat_template_caps`."""

    supports_string_content: bool = True
    supports_typed_content: bool = False
    supports_tools: bool = True
    supports_tool_calls: bool = True
    supports_parallel_tool_calls: bool = True
    supports_system_role: bool = True
    supports_preserve_reasoning: bool = False
    supports_reasoning_effort: bool = False
    supports_object_arguments: bool = False


class Renderer(Protocol):
    """A compiled template."""

    def render(self, variables: Mapping[str, Any], /) -> str:
        """The text for these variables; raises whatever the template raises."""


class TracedText(str):
    """A text that notes whether it was taken for a list (which fails, as texts cannot be looped over)."""

    tested = False
    listed = False

    def __iter__(self) -> Iterator[str]:
        self.listed = True
        raise TypeError("a text cannot be looped over")

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.listed |= not isinstance(key, slice)
        return super().__getitem__(key)


class TracedList(list[Any]):
    """A list that notes whether its items were asked for."""

    tested = False
    listed = False

    def __iter__(self) -> Iterator[Any]:
        self.listed = True
        return super().__iter__()

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        self.listed = True
        return super().__getitem__(key)


class TracedDict(dict[str, Any]):
    """A mapping that notes which of its keys were read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As dict.get, noted."""
        self.read.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        """As dict.items: all keys are read."""
        self.read |= self.keys()
        return super().items()

    def __repr__(self) -> str:
        """As dict.__repr__: all keys are read."""
        self.read |= self.keys()
        return super().__repr__()

    def values(self) -> Any:
        """As dict.values: all keys are read."""
        self.read |= self.keys()
        return super().values()


def is_string(value: Any) -> bool:
    """The test `string`; traced values note that they were tested."""
    if isinstance(value, TracedText | TracedList):
        value.tested = True
    return isinstance(value, str)


def probe(template: Renderer, variables: frozenset[str]) -> Capabilities:
    """Render a template on conversations that show what it uses.

    Args:
        template: what to render.
        variables: the variables its source reads from outside.
    """
    found = _content(template, Capabilities())
    found = _system(template, found)
    found = _tools(template, found)
    found = replace(found, supports_parallel_tool_calls=_parallel(template, found.supports_object_arguments))
    found = replace(found, supports_preserve_reasoning=_preserves_reasoning(template))
    effort = bool(variables & {"reasoning_effort", "reasoning_strength"})
    return replace(found, supports_reasoning_effort=effort)


def _try(template: Renderer, messages: Sequence[Any], **more: Any) -> str | None:
    """The rendered text, or None where the template fails."""
    context = {"tools": [], "bos_token": "", "eos_token": "", "add_generation_prompt": True, "messages": messages}
    try:
        return template.render(context | more)
    except Exception:  # a template may raise anything; that is what is to be found out
        return None


def _content(template: Renderer, found: Capabilities) -> Capabilities:
    text = TracedText(_MARKER)
    rendered = _try(template, [{"role": "user", "content": text}])
    typed = text.listed
    as_string = rendered is not None and not (text.listed and _MARKER not in rendered)
    if text.tested:
        parts = TracedList()
        rendered = _try(template, [{"role": "user", "content": parts}])
        typed = typed or (parts.listed and rendered is not None)
    return replace(found, supports_string_content=as_string, supports_typed_content=typed)


def _system(template: Renderer, found: Capabilities) -> Capabilities:
    system = TracedDict(role="system", content="System message")
    _try(template, [system, {"role": "user", "content": "User message"}])
    return replace(found, supports_system_role="content" in system.read)


def _call(number: int, arguments: Any) -> TracedDict:
    function = TracedDict(name="tool1", arguments=arguments)
    return TracedDict(id=f"call0000{number}", type="function", function=function)


def _tool() -> TracedDict:
    properties = {"arg": {"type": "string", "description": "Arg description"}}
    parameters = {"type": "object", "properties": properties, "required": ["arg"]}
    function = TracedDict(name="tool1", description="Tool description", parameters=parameters)
    return TracedDict(name="tool", type="function", function=function)


def _conversation(calls: list[TracedDict]) -> list[TracedDict]:
    return [
        TracedDict(role="user", content="User message"),
        TracedDict(role="assistant", content="", tool_calls=calls),
        TracedDict(role="tool", content="Tool response", tool_call_id="call00001"),
        TracedDict(role="assistant", content="The tool response was 'tool response'"),
        TracedDict(role="user", content="User message"),
    ]


def _tools(template: Renderer, found: Capabilities) -> Capabilities:
    """Tools, calls of them, and whether the arguments of a call may be an object: first as one, then as JSON text."""
    arguments = TracedDict(arg="value")
    for given in (arguments, '{"arg": "value"}'):
        tool = _tool()
        messages = _conversation([_call(1, given)])
        if _try(template, messages, tools=[tool]) is None:
            if given is not arguments:
                found = replace(found, supports_tools=False, supports_tool_calls=False)
            continue
        if "name" not in tool["function"].read:
            found = replace(found, supports_tools=False)
        if "tool_calls" not in messages[1].read:
            found = replace(found, supports_tool_calls=False)
        elif "arg" in arguments.read and given is arguments:
            return replace(found, supports_object_arguments=True)
    return found


def _parallel(template: Renderer, object_arguments: bool) -> bool:
    given: Any = {"arg": "value"} if object_arguments else '{"arg": "value"}'
    second = _call(2, given)
    rendered = _try(template, _conversation([_call(1, given), second]), tools=[_tool()])
    return rendered is not None and "function" in second.read


def _preserves_reasoning(template: Renderer) -> bool:
    user = {"role": "user", "content": "User message"}
    assistant = {"role": "assistant", "content": "Assistant message"}
    messages = [
        user,
        {**assistant, "reasoning_content": _REASONING},
        user,
        {**assistant, "reasoning_content": "Reasoning content"},
        user,
    ]
    keep = {"enable_thinking": True, "preserve_thinking": True}
    drop = dict.fromkeys(("clear_thinking", "truncate_history_thinking", "drop_thinking"), False)
    return _REASONING in (_try(template, messages, **keep, **drop) or "")
