"""What a template makes of tool calls: the markers around their parts, found as llama-server b11192 finds them.

Conversations that differ in one thing of a call are rendered and compared, as in its `chat-diff-analyzer.cpp`.
Answers need the result even without tools: the markers are among the tokens whose text an answer shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from engine.chat_formats.markers import difference, segments, shared_length, trim
from engine.chat_formats.peg import SPACE, Parser
from engine.chat_formats.peg_builder import Builder
from engine.chat_formats.probing import (
    CALL_ID,
    FIRST_ARGUMENT,
    FIRST_FUNCTION,
    OTHER_CALL_ID,
    SECOND_ARGUMENT,
    SECOND_CALL_ID,
    SECOND_FUNCTION,
    USER,
    Comparison,
    Message,
    Renderer,
    answer,
    call,
    compare,
    marker,
    marker_and_space,
    tags_anywhere,
    tags_at_start,
)
from engine.chat_formats.tool_markers import ToolMarkers
from engine.errors import InvalidRequest

_ONE: Final = {FIRST_ARGUMENT: "XXXX"}
_BOTH: Final = {FIRST_ARGUMENT: "XXXX", SECOND_ARGUMENT: "YYYY"}
_FIRST: Final = call(FIRST_FUNCTION, _BOTH)
_SECOND: Final = call(SECOND_FUNCTION, _BOTH, SECOND_CALL_ID)


def find_tool_markers(template: Renderer, reasoning: tuple[str, str], *, parallel: bool) -> ToolMarkers:
    """Probe a template that knows tool calls.

    Args:
        reasoning: the markers around reasoning.
        parallel: the template knows several calls in one answer.

    Raises:
        InvalidRequest: calls look like JSON and are not.
    """
    shown = _compare_calls(template, [], [_FIRST])
    if shown is None or not shown.difference.right:
        return ToolMarkers()
    text = shown.difference.right
    found = ToolMarkers(mode="tags")
    if _is_quoted(text, FIRST_FUNCTION):
        found = replace(found, mode="json")
    elif _is_quoted(text, FIRST_ARGUMENT):
        found = replace(found, mode="tag_json")
    for reasoning_marker in reasoning:
        text = text.replace(reasoning_marker, "", 1) if reasoning_marker else text
    if found.mode == "json":
        found = _json_call(text, found)
        if parallel:
            found = _sections_are_calls(template, found)
    else:
        found = _tagged_call(text, found)
    found = replace(found, section_end=trim(found.section_end), call_end=trim(found.call_end))
    if found.mode == "json":
        return found
    if parallel:
        found = _calls_in_section(template, found)
    found = _function(template, found)
    if found.mode == "tags":
        found = _argument_values(template, _argument_names(template, found))
    found = _argument_separator(template, found)
    return _call_id(template, found)


def _compare_calls(template: Renderer, left: list[Message], right: list[Message]) -> Comparison | None:
    """Compare answers with these calls; one without calls has words."""
    answers = [answer("", tool_calls=calls) if calls else answer() for calls in (left, right)]
    return compare(template, [USER, answers[0]], [USER, answers[1]], tools=True)


def _is_quoted(text: str, name: str) -> bool:
    """Whether a name stands in quotes behind `{` or `:`."""

    def quoted(builder: Builder) -> Parser:
        opening = builder.choice(builder.literal("{"), builder.literal(":"))
        return builder.sequence(opening, builder.space(), builder.literal(f'"{name}"'))

    return tags_anywhere(quoted, text) is not None


# -- calls as JSON objects ---------------------------------------------------------------------------------------------


def _json_call(text: str, found: ToolMarkers) -> ToolMarkers:
    """The keys of a call's object, and what stands around it."""
    start, end = text.find("{"), text.rfind("}") + 1
    shown = text[start:end]
    try:
        fields = json.loads(shown) if start >= 0 else None
    except ValueError:
        fields = None
    if not isinstance(fields, Mapping):
        raise InvalidRequest("the tool calls of this template look like JSON and are not")
    found = _json_fields(fields, found)

    def in_array(builder: Builder) -> Parser:
        before = builder.tag("before", builder.sequence(builder.literal("["), builder.space()))
        behind = builder.tag("behind", builder.sequence(builder.space(), builder.literal("]")))
        return builder.sequence(before, builder.literal(shown), behind)

    tags = tags_anywhere(in_array, text)
    if tags is not None:
        start, end = start - len(tags["before"]), end + len(tags["behind"])
    named = (found.name_field, found.arguments_field, found.id_field, found.generated_id_field)
    # A dotted key is nowhere to be found: it comes last.
    places = sorted((text.find(name) if name in text else len(text) + 1, name) for name in named if name)
    section_end = trim(text[end:])
    return replace(
        found,
        in_array=tags is not None,
        field_order=tuple(name for _, name in places),
        section_start=text[:start].lstrip(SPACE),
        section_end="" if tags is not None and section_end == "]" else section_end,
    )


def _json_fields(fields: Mapping[str, Any], found: ToolMarkers) -> ToolMarkers:
    """The keys by what their values are."""
    for key, value in fields.items():
        if key == FIRST_FUNCTION:
            found = replace(found, name_is_key=True, name_field="", arguments_field="")
            continue
        if isinstance(value, Mapping) and FIRST_ARGUMENT not in json.dumps(value):
            found = replace(found, function_field=key)
            for inner, inner_value in value.items():
                found = _json_field(f"{key}.{inner}", inner, inner_value, found)
        found = _json_field(key, key, value, found)
    return found


def _json_field(path: str, key: str, value: Any, found: ToolMarkers) -> ToolMarkers:
    if isinstance(value, str) and "call0000" in value:
        return replace(found, id_field=path)
    if value == FIRST_FUNCTION:
        return replace(found, name_field=path)
    if FIRST_ARGUMENT in json.dumps(value):
        return replace(found, arguments_field=path)
    return replace(found, generated_id_field=path) if "id" in key else found


def _sections_are_calls(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """Whether a second call has the markers again: then they are each call's."""
    shown = _compare_calls(template, [_FIRST], [_FIRST, _SECOND])
    if shown is None or not found.section_start or found.section_start not in shown.difference.right:
        return found
    return _as_call_markers(found)


def _as_call_markers(found: ToolMarkers) -> ToolMarkers:
    start, end = found.section_start, found.section_end
    return replace(found, call_start=start, call_end=end, section_start="", section_end="")


# -- calls in tags -----------------------------------------------------------------------------------------------------


def _name_in_marker(builder: Builder) -> Parser:
    """The function's name inside a marker."""
    name = FIRST_FUNCTION
    square = builder.sequence(builder.space(), builder.literal("["), builder.until("]"), builder.literal("]"))
    angled = builder.sequence(
        builder.tag("before", builder.sequence(builder.literal("<"), builder.until(">", name))),
        builder.literal(name),
        builder.tag(
            "behind",
            builder.sequence(
                builder.negate(builder.sequence(builder.space(), builder.literal("<"))),
                builder.until(">"),
                builder.literal(">"),
            ),
        ),
        builder.space(),
    )
    squared = builder.sequence(
        builder.tag("before", builder.sequence(builder.literal("["), builder.until("]", name))),
        builder.literal(name),
        builder.tag("behind", builder.sequence(builder.negate(square), builder.space())),
    )
    return builder.tag("all", builder.choice(angled, squared))


def _tagged_call(text: str, found: ToolMarkers) -> ToolMarkers:
    """The markers around all calls, around one call and before the name."""
    tags = tags_anywhere(_name_in_marker, text) or {}
    function = tags.get("all", FIRST_FUNCTION)

    def two_markers(builder: Builder) -> Parser:
        return builder.sequence(
            builder.tag("section", marker_and_space(builder)),
            builder.tag("call", marker_and_space(builder)),
            builder.until(function),
            builder.literal(function),
            builder.tag("rest", builder.rest()),
        )

    def one_marker(builder: Builder) -> Parser:
        section = builder.tag("section", marker_and_space(builder))
        return builder.sequence(section, builder.literal(function), builder.tag("rest", builder.rest()))

    def two_ends(builder: Builder) -> Parser:
        call_end = builder.tag("call", marker_and_space(builder))
        return builder.sequence(call_end, builder.tag("section", marker_and_space(builder)), builder.end())

    def one_end(builder: Builder) -> Parser:
        return builder.sequence(builder.tag("section", marker_and_space(builder)), builder.end())

    starts, ending = tags_anywhere(two_markers, text), two_ends
    if starts is not None:
        found = replace(found, name_prefix=tags.get("before", "") + found.name_prefix)
    else:
        starts, ending = tags_anywhere(one_marker, text) or {}, one_end
    ends = tags_anywhere(ending, starts.get("rest", "")) or {}
    return replace(
        found,
        section_start=starts.get("section", ""),
        section_end=ends.get("section", ""),
        call_start=starts.get("call", ""),
        call_end=ends.get("call", ""),
    )


def _calls_in_section(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """Which of the markers a second call has again."""
    shown = _compare_calls(template, [_FIRST], [_FIRST, _SECOND])
    if shown is None:
        return found
    second = difference(shown.difference.suffix, shown.difference.right).right.lstrip(SPACE)
    if found.section_start and second.startswith(found.section_start):
        found = _as_call_markers(found)
    if found.call_end and 0 < shown.left.count(found.call_end) == shown.right.count(found.call_end):
        found = replace(found, section_end=found.call_end, call_end="")
    return found


def _plain(builder: Builder) -> Parser:
    """Characters up to a marker."""
    return builder.many(builder.sequence(builder.negate(marker(builder)), builder.any()))


def _function(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """What stands around the function's name, and behind its arguments."""
    shown = _compare_calls(template, [_FIRST], [_SECOND])
    if shown is None:
        return found
    delta = shown.difference
    if FIRST_FUNCTION not in delta.left or SECOND_FUNCTION not in delta.right:
        return found
    before = found.call_start or found.section_start
    if before and before in delta.prefix:
        found = replace(found, name_prefix=delta.prefix[delta.prefix.rfind(before) + len(before) :])

    def named(builder: Builder) -> Parser:
        pre = builder.tag("before", builder.until(FIRST_FUNCTION))
        return builder.sequence(pre, builder.literal(FIRST_FUNCTION), builder.tag("behind", _plain(builder)))

    tags = tags_at_start(named, delta.left)
    if tags is not None:
        found = replace(found, name_prefix=found.name_prefix + tags["before"], name_suffix=tags["behind"])
    found = _behind_name(delta.suffix, found)
    return replace(found, function_end=_function_end(template, delta.suffix, found).lstrip(SPACE))


def _behind_name(suffix: str, found: ToolMarkers) -> ToolMarkers:
    """What stands between the name and the arguments."""
    if found.mode == "tag_json":

        def before_json(builder: Builder) -> Parser:
            no_json = builder.sequence(
                builder.negate(builder.literal("{")), builder.negate(builder.literal("[")), builder.any()
            )
            before = builder.tag("before", builder.many(builder.choice(marker(builder), no_json)))
            return builder.sequence(before, _plain(builder), marker(builder))

        tags = tags_at_start(before_json, suffix)
        return found if tags is None else replace(found, name_suffix=found.name_suffix + tags["before"])

    tags = tags_at_start(lambda builder: builder.tag("before", _plain(builder)), suffix) or {"before": ""}
    found = replace(found, name_suffix=found.name_suffix + tags["before"])

    def argument(builder: Builder) -> Parser:
        names = builder.choice(builder.literal(FIRST_ARGUMENT), builder.literal(SECOND_ARGUMENT))
        return builder.sequence(marker(builder), builder.space(), names)

    def separated(builder: Builder) -> Parser:
        other = builder.many(builder.sequence(builder.negate(argument(builder)), builder.any()))
        return builder.sequence(builder.tag("separator", other), argument(builder))

    tags = tags_at_start(separated, suffix[len(tags["before"]) :])
    return found if tags is None else replace(found, arguments_separator=trim(tags["separator"]))


def _function_end(template: Renderer, suffix: str, found: ToolMarkers) -> str:
    """What stands between the last argument and the end of the call."""
    behind = found.call_end or found.section_end
    if behind:
        at = suffix.find(behind)
        ending = suffix if at < 0 else suffix[:at]
    else:
        shown = _compare_calls(template, [_FIRST], [])
        left = "" if shown is None else shown.difference.left
        ending = left[left.find("YYYY") + 4 :] if "YYYY" in left else left[3:]
    if "YYYY" not in ending:
        return ""
    rest = ending[ending.find("YYYY") + 4 :]
    if found.mode == "tags":

        def closed(builder: Builder) -> Parser:
            return builder.sequence(builder.space(), marker_and_space(builder), builder.tag("end", builder.rest()))

        return (tags_at_start(closed, rest) or {"end": ""})["end"]
    at = max(rest.rfind("}"), rest.rfind("]"))
    return rest[at + 1 :] if 0 <= at < len(rest) - 1 else ""


def _argument_names(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """What stands around an argument's name."""
    other = call(FIRST_FUNCTION, {SECOND_ARGUMENT: "YYYY"})
    shown = _compare_calls(template, [call(FIRST_FUNCTION, _ONE)], [other])
    if shown is None or not shown.difference.left or not shown.difference.right:
        return found
    delta = shown.difference

    def named(argument: str, value: str) -> dict[str, str] | None:
        def around(builder: Builder) -> Parser:
            before = builder.tag("before", builder.until(argument))
            return builder.sequence(before, builder.literal(argument), builder.tag("behind", builder.until('"', value)))

        return tags_anywhere(around, delta.left if argument == FIRST_ARGUMENT else delta.right)

    first, second = named(FIRST_ARGUMENT, "X"), named(SECOND_ARGUMENT, "Y")
    if first is not None and first["before"] and first == second:
        return replace(found, argument_prefix=first["before"], argument_suffix=first["behind"])
    if not delta.left.startswith(FIRST_ARGUMENT) or not delta.right.startswith(SECOND_ARGUMENT):
        return found
    found = replace(found, argument_prefix=_from_last_marker(delta.prefix))
    behind = tags_anywhere(
        lambda builder: builder.tag("behind", builder.sequence(_plain(builder), marker_and_space(builder))),
        delta.left[len(FIRST_ARGUMENT) :] + delta.suffix,
    )
    return found if behind is None else replace(found, argument_suffix=behind["behind"])


def _from_last_marker(text: str) -> str:
    """The text from the marker on behind which no other begins; all of it when it has none."""
    found = _last_marker(text)
    return text if found is None else text[found[0] :]


def _last_marker(text: str) -> tuple[int, int] | None:
    """Where the first marker lies behind whose end no other begins, or None."""
    closed = {opening: text.rfind(closing) for opening, closing in ("<>", "[]")}
    starts = [at for at, char in enumerate(text) if char in closed and closed[char] > at]
    for start in starts:
        end = text.find(">" if text[start] == "<" else "]", start) + 1
        if starts[-1] < end:
            return start, end
    return None


def _argument_values(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """What stands around an argument's value."""
    shown = _compare_calls(template, [call(FIRST_FUNCTION, _ONE)], [call(FIRST_FUNCTION, {FIRST_ARGUMENT: "YYYY"})])
    if shown is None or (shown.difference.left, shown.difference.right) != ("XXXX", "YYYY"):
        return found
    prefix, suffix = shown.difference.prefix, shown.difference.suffix
    name = FIRST_ARGUMENT + found.argument_suffix
    if name in prefix:
        prefix = prefix[prefix.rfind(name) + len(name) :]
    if prefix:
        found = replace(found, value_prefix=_from_last_marker(prefix))
    ending = found.function_end or found.call_end or found.section_end
    if ending and ending in suffix:
        suffix = suffix[: suffix.find(ending)]
    return replace(found, value_suffix=suffix) if trim(suffix) else found


def _argument_separator(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """What stands between two arguments."""
    shown = _compare_calls(template, [call(FIRST_FUNCTION, _ONE)], [_FIRST])
    if shown is None or not shown.difference.right:
        return found
    shared = FIRST_ARGUMENT[: shared_length(FIRST_ARGUMENT, SECOND_ARGUMENT)]
    text = shown.difference.right
    return replace(found, argument_separator=text[: text.find(shared)] if shared and shared in text else "")


# -- the call's id -----------------------------------------------------------------------------------------------------


def _marker_behind(text: str) -> str:
    """The last marker of a text, "" for none."""
    found = _last_marker(text)
    return "" if found is None else text[slice(*found)]


def _marker_before(text: str) -> str:
    """The first marker of a text, "" for none."""
    return next((piece.text for piece in segments(text) if piece.is_marker), "")


def _call_id(template: Renderer, found: ToolMarkers) -> ToolMarkers:
    """Where a call's id stands, and what around it."""
    shown = _compare_calls(template, [_FIRST], [call(FIRST_FUNCTION, _BOTH, OTHER_CALL_ID)])
    if shown is None or not (shown.difference.left or shown.difference.right):
        return found
    prefix, suffix = shown.difference.prefix, shown.difference.suffix
    before, behind = FIRST_FUNCTION in prefix, FIRST_FUNCTION in suffix
    if before and not behind:
        found = _id_behind_name(prefix[prefix.rfind(FIRST_FUNCTION) :], suffix, found)
    elif behind and not before:
        head = suffix[: suffix.find(FIRST_FUNCTION)]
        found = replace(
            found, id_position="before_name", id_prefix=_marker_behind(prefix), id_suffix=_marker_before(head)
        )
    if found.id_prefix == found.arguments_end:
        found = replace(found, id_prefix="")
    if found.id_suffix == found.arguments_start:
        found = replace(found, id_suffix="")
    if found.id_position and found.id_suffix and found.call_end.startswith(found.id_suffix):
        found = replace(found, call_end="")
    return found


def _id_behind_name(behind_name: str, suffix: str, found: ToolMarkers) -> ToolMarkers:
    """The markers of an id behind the function's name.

    Args:
        behind_name: from the name to the id.
        suffix: what follows the id.
    """
    arguments = behind_name.find("{")
    if arguments < 0 and "{" in suffix:
        shared = "".join(
            a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(CALL_ID, OTHER_CALL_ID, strict=True))
        )
        between = behind_name[len(FIRST_FUNCTION) :]

        def before_id(builder: Builder) -> Parser:
            other = builder.sequence(
                builder.negate(marker(builder)), builder.negate(builder.literal(shared)), builder.any()
            )
            return builder.sequence(builder.tag("m", marker(builder)), builder.many(other), builder.literal(shared))

        def behind_id(builder: Builder) -> Parser:
            other = builder.sequence(
                builder.negate(marker(builder)), builder.negate(builder.literal("{")), builder.any()
            )
            return builder.sequence(builder.many(other), builder.tag("m", marker(builder)))

        tags = tags_anywhere(before_id, between)
        return replace(
            found,
            id_position="before_arguments",
            id_prefix=_marker_behind(between) if tags is None else tags["m"],
            id_suffix=(tags_anywhere(behind_id, suffix) or {"m": found.id_suffix})["m"],
        )
    if arguments < 0:
        return found
    closed = behind_name.rfind("}", arguments)
    return replace(
        found,
        id_position="behind_arguments",
        id_prefix=_marker_behind(behind_name[closed + 1 :]) if closed >= 0 else found.id_prefix,
        id_suffix=_marker_before(suffix),
    )
