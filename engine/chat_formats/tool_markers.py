"""The markers that a template puts around tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ToolMarkers:
    """How a template shows tool calls.

    Attributes:
        mode: "none", "json" (a call is one JSON object), "tag_json" (the name in a tag, the arguments as JSON) or
            "tags" (each argument in tags of its own).
        section_start, section_end: around all calls.
        call_start, call_end: around each call.
        name_is_key: of a JSON object, the function's name is the key of its arguments.
        in_array: the JSON objects are items of an array.
        openai_wrapper: the model writes OpenAI's wrapper around a call.
        function_field, name_field, arguments_field, id_field, generated_id_field: keys of the JSON object.
        field_order: those keys in their order.
        name_prefix, name_suffix: around the function's name.
        arguments_separator: between the name and the arguments.
        function_end: behind the arguments.
        arguments_start, arguments_end: around the arguments.
        argument_prefix, argument_suffix: around an argument's name.
        value_prefix, value_suffix: around its value.
        argument_separator: between arguments.
        space_between_arguments: white space may stand there too.
        id_position: where a call's id stands, "" for nowhere.
        id_prefix, id_suffix: around the id.
    """

    mode: Literal["none", "json", "tag_json", "tags"] = "none"
    section_start: str = ""
    section_end: str = ""
    call_start: str = ""
    call_end: str = ""
    name_is_key: bool = False
    in_array: bool = False
    openai_wrapper: bool = False
    function_field: str = "function"
    name_field: str = "name"
    arguments_field: str = "arguments"
    id_field: str = ""
    generated_id_field: str = ""
    field_order: tuple[str, ...] = ()
    name_prefix: str = ""
    name_suffix: str = ""
    arguments_separator: str = ""
    function_end: str = ""
    arguments_start: str = ""
    arguments_end: str = ""
    argument_prefix: str = ""
    argument_suffix: str = ""
    value_prefix: str = ""
    value_suffix: str = ""
    argument_separator: str = ""
    space_between_arguments: bool = False
    id_position: Literal["", "before_name", "before_arguments", "behind_arguments"] = ""
    id_prefix: str = ""
    id_suffix: str = ""

    def texts(self) -> tuple[str, ...]:
        """The markers, empty ones too, in the reference's order."""
        return (
            *(self.section_start, self.section_end, self.call_start, self.call_end),
            *(self.name_prefix, self.name_suffix, self.arguments_separator, self.function_end),
            *(self.arguments_start, self.arguments_end, self.argument_prefix, self.argument_suffix),
            *(self.argument_separator, self.value_prefix, self.value_suffix, self.id_prefix, self.id_suffix),
        )
