"""Small chat templates, each with one way of showing reasoning, content or tool calls. All are ours.

Their names say what is special about them; `{name: source}`, without a line end at the end.
"""

from __future__ import annotations

from typing import Final

_TURN: Final = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
_OPENING: Final = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def _chatml(answer: str, opening: str = "", before: str = "") -> str:
    """A ChatML template.

    Args:
        answer: what an assistant's message is between its marks.
        opening: what follows the assistant's mark when an answer is opened.
        before: what comes first.
    """
    loop = f"<|im_start|>assistant\n{answer}<|im_end|>\n"
    opened = f"{{% if add_generation_prompt %}}<|im_start|>assistant\n{opening}{{% endif %}}"
    return (
        f"{before}{{% for m in messages %}}{{% if m.role == 'assistant' %}}{loop}"
        f"{{% else %}}{_TURN}{{% endif %}}{{% endfor %}}{opened}"
    )


_CALLS: Final = "{% for c in m.tool_calls or [] %}%s{% endfor %}"
_TOOLS: Final = "{% if tools %}Tools: {{ tools | tojson }}\n{% endif %}"
_CONTENT: Final = "{{ m.content or '' }}"
_THOUGHT: Final = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
_NO_THOUGHT: Final = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"


def _calls(one: str, between: str = "") -> str:
    text = f"{between}{one}" if between else one
    return _CALLS.replace("%s", text)


_HERMES: Final = (
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>\n'
)
_FUNCTION: Final = "<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>"
_ARGUMENTS: Final = (
    "{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n"
    "{% endfor %}"
)
_MISTRAL: Final = (
    "{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{% if not loop.first %}, {% endif %}"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}'
    "{% endfor %}]{% endif %}"
)
_WITH_ID: Final = "[CALL]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGUMENTS]{{ c.function.arguments | tojson }}[/CALL]"


def _turns(turn: str, opening: str, known_by: str) -> str:
    """A template of a kind that is known by a piece of its source, which stands in a comment here."""
    loop = f"{{% for m in messages %}}{turn}{{% endfor %}}"
    return f"{loop}{{% if add_generation_prompt %}}{opening}{{% endif %}}{{# {known_by} #}}"


TEMPLATES: Final[dict[str, str]] = {
    "plain": _chatml(_CONTENT),
    "reasoning in tags, switched by an empty one": _chatml(_THOUGHT + _CONTENT, _NO_THOUGHT),
    "reasoning that the prompt opens": _chatml(
        _THOUGHT + _CONTENT, "{% if enable_thinking %}<think>\n{% else %}</think>{% endif %}"
    ),
    "reasoning opened and shown nowhere": _chatml(_CONTENT, "{% if enable_thinking %}<think>\n{% endif %}"),
    "reasoning taken off and not shown": _chatml("{{ m.content.split('</think>')[-1] }}"),
    "reasoning with an end alone": _chatml(
        "{% if m.reasoning_content %}{{ m.reasoning_content }}[BEGIN FINAL RESPONSE]\n{% endif %}" + _CONTENT
    ),
    "reasoning in square brackets": _chatml(
        "{% if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]{% endif %}" + _CONTENT
    ),
    "reasoning before tools alone": _chatml(
        "{% if m.tool_calls and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>\n{% endif %}"
        + _CONTENT
        + _calls(_HERMES),
        before=_TOOLS,
    ),
    "thinking changes the system message": _chatml(
        _CONTENT,
        _NO_THOUGHT,
        "<|im_start|>system\n{% if enable_thinking %}Mode: think{% else %}Mode: hurry{% endif %}<|im_end|>\n",
    ),
    "content in tags": _chatml("{% if m.content %}<response>{{ m.content }}</response>{% endif %}"),
    "content in tags behind reasoning": _chatml(_THOUGHT + "<response>\n{{ m.content }}\n</response>"),
    "content as parts": _chatml("{% for p in m.content %}{{ p.text }}{% endfor %}").replace(
        _TURN, "<|im_start|>{{ m.role }}\n{% for p in m.content %}{{ p.text }}{% endfor %}<|im_end|>\n"
    ),
    "calls as JSON in tags": _chatml(_THOUGHT + _CONTENT + _calls(_HERMES), _NO_THOUGHT, _TOOLS),
    "calls as an array of JSON": _chatml(_CONTENT + _MISTRAL, before=_TOOLS),
    "calls with JSON arguments": _chatml(_CONTENT + _calls(_FUNCTION), before=_TOOLS),
    "calls with arguments in tags": _chatml(
        _CONTENT + _calls("<tool_call>{{ c.function.name }}\n" + _ARGUMENTS + "</tool_call>\n"), before=_TOOLS
    ),
    "calls in a section": _chatml(
        _CONTENT
        + "{% if m.tool_calls %}<calls>\n"
        + _calls("<invoke name={{ c.function.name }}>\n" + _ARGUMENTS + "</invoke>\n")
        + "</calls>{% endif %}",
        before=_TOOLS,
    ),
    "calls as bare JSON": _chatml(
        _CONTENT + _calls('{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}'),
        before=_TOOLS,
    ),
    "calls keyed by their names": _chatml(
        _CONTENT + "{% if m.tool_calls %}<|calls|>[{% for c in m.tool_calls %}{% if not loop.first %}, {% endif %}"
        '{"{{ c.function.name }}": {{ c.function.arguments | tojson }}}{% endfor %}]<|end|>{% endif %}',
        before=_TOOLS,
    ),
    "calls in OpenAI's shape": _chatml(
        _CONTENT
        + _calls(
            '<call>{"id": "{{ c.id }}", "type": "function", "function": {"name": "{{ c.function.name }}", '
            '"arguments": {{ c.function.arguments | tojson }}}}</call>'
        ),
        before=_TOOLS,
    ),
    "calls with an id": _chatml(_CONTENT + _calls(_WITH_ID), before=_TOOLS),
    "Laguna": _chatml(
        "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}" + _CONTENT,
        before="{#- laguna_glm_thinking -#}",
    ),
    "Granite": _chatml(
        _CONTENT,
        before="{% if thinking %}Write your thoughts between <think></think> and write your response between "
        "<response></response>{% endif %}",
    ),
    "Command R": (
        "{{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|>"
        "{% if m.role == 'assistant' %}<|CHATBOT_TOKEN|>{% else %}<|USER_TOKEN|>{% endif %}"
        "{{ m.content }}<|END_OF_TURN_TOKEN|>{% endfor %}"
        "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"
    ),
    "marks of letters and bars": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<｜Assistant｜>"  # noqa: RUF001
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{{ eos_token }}"
        "{% else %}<｜User｜>{{ m.content }}{% endif %}{% endfor %}"  # noqa: RUF001
        "{% if add_generation_prompt %}<｜Assistant｜>{% if enable_thinking %}<think>\n{% endif %}{% endif %}"  # noqa: RUF001
    ),
    "no marks": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}",
    "Ministral": _turns(
        "[{{ m.role }}]{% for p in m.content if m.content is not string %}{{ p.text or p.thinking }}{% endfor %}"
        "{{ m.content if m.content is string }}",
        "",
        "[SYSTEM_PROMPT] [TOOL_CALLS] [ARGS]",
    ),
    "Muse Glimmer": _turns(
        "<|start|>{{ m.role }} to=user<|message|>{{ m.content }}<|eot|>",
        "<|start|>assistant",
        "<atem:function_calls> <|eom|>",
    ),
    "Functionary v3.2": _turns(
        "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}",
        "<|start_header_id|>assistant<|end_header_id|>\n\n>>>",
        ">>>all >>>${recipient}",
    ),
    "Kimi K2": _turns(
        "<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>{{ m.content }}<|im_end|>",
        "<|im_assistant|>assistant<|im_middle|>",
        "<|tool_calls_section_begin|> <|tool_call_begin|>",
    ),
    "Kimi K3": _turns(
        '<|open|>message role="{{ m.role }}"<|sep|>{{ m.content }}<|close|>message<|sep|><|end_of_msg|>',
        '<|open|>message role="assistant"<|sep|><|open|>{{ "think" if enable_thinking else "response" }}<|sep|>',
        "",
    ),
    "Ling 3": _turns(
        "<role>{{ m.role }}</role>{{ m.content }}<|role_end|>",
        "<role>ASSISTANT</role>\n<think>{% if not enable_thinking %}</think>{% endif %}",
        "<arg_key>",
    ),
    "Cohere2 MoE": _turns(
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{ m.content }}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>",
        "<|START_TEXT|> <|START_ACTION|>",
    ),
    "LFM2": _chatml("{% if m.thinking %}<think>{{ m.thinking }}</think>{% endif %}{{ m.content }}").replace(
        "{% for", "{# <|tool_list_start|> <|tool_list_end|> #}{% for", 1
    ),
    "LFM2.5": _chatml(_CONTENT, before="{# List of tools: [ #}"),
    "GigaChat 3": _turns("{{ m.role }}<|role_sep|>\n{{ m.content }}<|message_sep|>\n\n", "assistant<|role_sep|>\n", ""),
    "MiniCPM5": _chatml(_CONTENT, before='{# Tool usage guidelines: <function name=" <param name=" #}'),
    "Qwen3-Coder": _chatml(_CONTENT, before="{# <tool_call> <function= <parameter= #}"),
    "Qwen3-Coder that thinks": _chatml(
        _THOUGHT + _CONTENT, "<think>\n", before="{# <tool_call> <function= <parameter= #}"
    ),
    "no opening": "{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}",
}
