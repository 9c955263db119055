"""What a template makes use of is found out by rendering it, as llama-server does."""

from __future__ import annotations

import pytest

from engine.chat_template import ChatTemplate
from engine.template_capabilities import Capabilities


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("{{ messages[0].content }}", {}),
        (
            "{% for p in messages[0].content %}{{ p.text }}{% endfor %}",
            {"typed_content": True, "string_content": False},
        ),
        ("{{ messages[0]['content'][0]['text'] }}", {"typed_content": True, "string_content": False}),
        ("{{ messages[-1].content }}", {"system_role": False}),
        ("{{ messages[0].content }}{{ tools | tojson }}", {"tools": True}),
        (
            "{{ messages | tojson }}",
            {"tool_calls": True, "parallel_tool_calls": True, "object_arguments": True, "preserve_reasoning": True},
        ),
        ("{{ messages[0].content }}{{ messages[1].reasoning_content }}", {"preserve_reasoning": True}),
        ("{{ messages[0].content }}{{ reasoning_effort }}", {"reasoning_effort": True}),
        ("{{ raise_exception('never') }}", {"string_content": False, "system_role": False}),
    ],
)
def test_what_a_template_makes_use_of_is_found_out(source: str, changes: dict[str, bool]) -> None:
    nothing = dict.fromkeys(("tools", "tool_calls", "parallel_tool_calls"), False)
    expected = Capabilities(**{f"supports_{name}": value for name, value in (nothing | changes).items()})
    assert ChatTemplate(source).capabilities == expected
