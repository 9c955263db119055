"""A template is known to write each message's part alike only where its source proves it; the parts make the prompt."""

from __future__ import annotations

from typing import Final

import pytest

from engine.chat_template import CHATML, ChatTemplate
from engine.errors import InvalidRequest
from engine.jinja_environment import TemplateEnvironment
from engine.prompt_pieces import find_loop

ENVIRONMENT: Final = TemplateEnvironment()
TURN: Final = "<{{ message.role }}>{{ message.content }}"


def loop(body: str, before: str = "", after: str = "{% if add_generation_prompt %}<assistant>{% endif %}") -> str:
    return f"{before}{{% for message in messages %}}{body}{{% endfor %}}{after}"


ALIKE = {
    "each message by itself": loop(TURN),
    "something before the first": loop("{% if loop.first and messages[0].role != 'system' %}Hi{% endif %}" + TURN),
    "the first one by its number": loop("{% if loop.index0 == 0 or loop.index != 1 %}x{% endif %}" + TURN),
    "something behind the last": loop(TURN + "{% if loop.last %}{{ messages[0].content }}{% endif %}"),
    "a system message before all": loop(
        TURN, "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    ),
    "an inner loop with its places": loop(
        TURN + "{% for call in message.tool_calls %}{{ loop.index0 }}{{ call.function.name }}{% endfor %}"
    ),
    "a variable of its own": loop("{% set text = message.content %}{{ text | trim }}"),
    "a refusal": loop("{% if message.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}" + TURN),
}
NEAR = {
    "the message before": loop("{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<t>{% endif %}" + TURN),
    "the message behind": loop(TURN + "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}.{% endif %}"),
}
UNKNOWN = {
    "every second message": loop("{% if loop.index0 % 2 == 0 %}x{% endif %}" + TURN),
    "the number of messages": loop("{{ messages | length }}" + TURN),
    "the messages left": loop("{% if loop.revindex == 2 %}x{% endif %}" + TURN),
    "the first message in every part": loop("{{ messages[0].content }}" + TURN),
    "the one before the one before": loop("{{ messages[loop.index0 - 2].content }}" + TURN),
    "the neighbour by an inner loop": loop(
        "{% for call in message.tool_calls %}{{ messages[loop.index0 - 1].role }}{% endfor %}"
    ),
    "a state": loop(
        "{% if message.role == 'user' %}{% set ns.n = 1 %}{% endif %}{{ ns.n }}", "{% set ns = namespace(n=0) %}"
    ),
    "a list that grows": loop("{% set _ = seen.append(message) %}{{ seen }}", "{% set seen = [] %}"),
    "a method by a filter": loop("{{ (seen | attr('append'))(message) }}" + TURN, "{% set seen = [] %}"),
    "what was found before": loop("{{ found }}" + TURN, "{% set found = messages[0].content %}"),
    "what was found before, behind": loop(TURN, "{% set found = messages[0].content %}", "{{ found }}"),
    "a slice": "{% for message in messages[1:] %}" + TURN + "{% endfor %}",
    "other messages by the same name": loop(TURN, "{% set messages = messages[1:] %}"),
    "a choice of messages": "{% for message in messages if message.role == 'user' %}" + TURN + "{% endfor %}",
    "two loops": loop(TURN) + loop(TURN),
    "an inner loop through all": loop("{% for other in messages %}{{ other.role }}{% endfor %}"),
    "a loop that ends": loop("{% if message.role == 'tool' %}{% break %}{% endif %}" + TURN),
    "an end that looks back": loop(TURN, after="{% if messages[0].role == 'system' %}x{% endif %}"),
    "a loop before": loop(TURN, "{% for message in messages %}{{ message.role }}{% endfor %}"),
    "a macro": "{% macro show(m) %}{{ m.role }}{% endmacro %}" + loop("{{ show(message) }}"),
    "chance": loop("{{ [1, 2] | random }}" + TURN),
    "no loop": "{{ messages[0].content }}",
}


SEARCH: Final = (
    "{% set ns = namespace(searching=true, last=messages|length - 1) %}"
    "{% for message in messages[::-1] %}"
    "{% set index = (messages|length - 1) - loop.index0 %}"
    "{% if ns.searching and message.role == 'user' and not message.content.startswith('<') %}"
    "{% set ns.searching = false %}{% set ns.last = index %}"
    "{% endif %}{% endfor %}"
)
AFTER: Final = TURN + "{% if loop.index0 > ns.last %}!{% endif %}"


def test_parts_may_hang_on_where_the_last_query_stands() -> None:
    found = find_loop(ENVIRONMENT.syntax_tree(loop(AFTER, SEARCH)))
    assert found is not None
    assert found.query is not None
    assert (found.query.space, found.query.field) == ("ns", "last")


@pytest.mark.parametrize(
    ("search", "body"),
    [
        (SEARCH, "{{ ns.last }}" + AFTER),
        (SEARCH, "{% if loop.index0 >= ns.last %}x{% endif %}" + AFTER),
        (SEARCH, "{% if loop.last %}{{ ns.searching }}{% endif %}" + AFTER),
        (SEARCH, "{% set ns.last = 0 %}" + AFTER),
        (SEARCH + "{{ ns.last }}", AFTER),
        (SEARCH.replace("[::-1]", "[::-2]"), AFTER),
        (SEARCH.replace("index %}{% endif", "0 %}{% endif"), AFTER),
        (SEARCH.replace("- loop.index0", "+ loop.index0"), AFTER),
        (SEARCH.replace("ns.searching and ", ""), AFTER),
        (SEARCH.replace("message.role ==", "messages[0].role =="), AFTER),
        (SEARCH.replace("message.role ==", "loop.index0 =="), AFTER),
        (SEARCH.replace("searching=true", "searching=false"), AFTER),
        (SEARCH.replace("{% endfor %}", "{{ message.role }}{% endfor %}"), AFTER),
        (SEARCH.replace("'<')", "[].append(1))"), AFTER),
    ],
)
def test_but_nothing_else_may_be_searched_or_done_with_it(search: str, body: str) -> None:
    assert search != SEARCH or body != AFTER
    assert find_loop(ENVIRONMENT.syntax_tree(loop(body, search))) is None


@pytest.mark.parametrize(("roles", "latest"), [("uaua", 2), ("uaaa", 0), ("aaaa", 3), ("suas", 1)])
def test_conversations_that_begin_behind_the_last_query_may_have_other_parts(roles: str, latest: int) -> None:
    names = {"u": "user", "a": "assistant", "s": "system"}
    messages = [{"role": names[role], "content": str(n)} for n, role in enumerate(roles)]
    template = ChatTemplate(loop(AFTER, SEARCH))
    pieces = template.pieces(messages)
    assert pieces is not None
    assert pieces.latest == latest
    assert "".join(pieces.texts) == template.render(messages)
    for first in range(latest + 1):
        assert template.render(messages[first:]) == "".join(pieces.texts[first:])


@pytest.mark.parametrize("name", ALIKE)
def test_parts_that_hang_on_their_message_alone_are_known_to(name: str) -> None:
    found = find_loop(ENVIRONMENT.syntax_tree(ALIKE[name]))
    assert found is not None
    assert not found.near


@pytest.mark.parametrize("name", NEAR)
def test_parts_that_hang_on_the_messages_beside_are_known_to(name: str) -> None:
    found = find_loop(ENVIRONMENT.syntax_tree(NEAR[name]))
    assert found is not None
    assert found.near


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_known_of_a_template_that_looks_further_or_remembers(name: str) -> None:
    assert find_loop(ENVIRONMENT.syntax_tree(UNKNOWN[name])) is None


@pytest.mark.parametrize(
    ("body", "refuses"),
    [
        (TURN, False),
        ("{{ '<' + message.role + '>' + message['content'] | trim }}", False),
        ("{{ message.role + message.content }}", True),
        ("{{ message.content | tojson }}", True),
        ("{{ raise_exception('never') }}", True),
        ("{{ message.content.split('x')[0] }}", True),
        ("{{ message['__class__'] }}", True),
        ("{% if message.role in message.content %}x{% endif %}", True),
    ],
)
def test_what_might_fail_on_a_message_is_known(body: str, refuses: bool) -> None:
    found = find_loop(ENVIRONMENT.syntax_tree(loop(body)))
    assert found is not None
    assert found.refuses is refuses


CONVERSATION = [
    {"role": role, "content": text}
    for role, text in [("system", "S"), ("user", "{{ x }}"), ("assistant", "A\n"), ("user", ""), ("user", "Z")]
]


@pytest.mark.parametrize("source", [CHATML, *ALIKE.values(), *NEAR.values()])
@pytest.mark.parametrize("opening", [True, False])
def test_the_parts_joined_are_the_prompt(source: str, opening: bool) -> None:
    template = ChatTemplate(source)
    pieces = template.pieces(CONVERSATION, add_generation_prompt=opening)
    assert pieces is not None
    assert len(pieces.texts) == len(CONVERSATION)
    assert "".join(pieces.texts) == template.render(CONVERSATION, add_generation_prompt=opening)


def test_a_variable_may_take_the_place_of_the_messages_so_nothing_is_known() -> None:
    assert ChatTemplate(CHATML).pieces(CONVERSATION, messages=[]) is None


def test_a_conversation_that_would_begin_with_a_refused_message_is_found() -> None:
    refusing = "{% if loop.first and message.role == 'assistant' %}{{ raise_exception('not you') }}{% endif %}"
    pieces = ChatTemplate(loop(refusing + TURN)).pieces(CONVERSATION)
    assert pieces is not None
    keeps_system = [message["role"] == "system" for message in CONVERSATION]
    pieces.check_beginnings(range(1, 4), keeps_system)
    pieces.check_beginnings([1], [False] * 5)
    with pytest.raises(InvalidRequest, match="not you"):
        pieces.check_beginnings(range(1, 4), [False] * 5)
