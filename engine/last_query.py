"""The one state that many templates (Qwen3's and their kin) keep: where the last query of a conversation stands.

```jinja
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and ... %}   what is asked here, is asked of this message alone
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
```

In the loop that writes the messages they then ask `loop.index0 > ns.last`: whether a message comes after it. As long as
that query is there the answer is the same, however many messages before it are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jinja2 import nodes


@dataclass(frozen=True, slots=True)
class LastQuery:
    """The search for the last query, two statements of a template one after the other.

    Attributes:
        index: where the first of them stands in the template's body.
        space, field: `ns` and `last` above.
    """

    index: int
    space: str
    field: str

    def is_asked(self, node: nodes.Node) -> bool:
        """`loop.index0 > ns.last`"""
        return isinstance(node, nodes.Compare) and node == nodes.Compare(
            nodes.Getattr(nodes.Name("loop", "load"), "index0", "load"), [nodes.Operand("gt", self.value())]
        )

    def value(self) -> nodes.Getattr:
        """`ns.last`"""
        return nodes.Getattr(nodes.Name(self.space, "load"), self.field, "load")


def find_last_query(body: Sequence[nodes.Node]) -> LastQuery | None:
    """The search in a template's body; None if there is none, or more than that is done in it.

    What is asked of a message must be looked at besides: that it changes nothing.
    """
    for index, (statement, loop) in enumerate(pairwise(body)):
        found = _space(statement)
        if found is not None and isinstance(loop, nodes.For) and _searches(loop, *found):
            return LastQuery(index, found[0], found[2])
    return None


def _last_index() -> nodes.Node:
    """`messages|length - 1`"""
    messages = nodes.Name("messages", "load")
    return nodes.Sub(nodes.Filter(messages, "length", [], [], None, None), nodes.Const(1))


def _space(node: nodes.Node) -> tuple[str, str, str] | None:
    """The names in `set ns = namespace(searching=true, last=messages|length - 1)`."""
    if not (
        isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name) and isinstance(node.node, nodes.Call)
    ):
        return None
    call = node.node
    if call.node != nodes.Name("namespace", "load") or call.args or call.dyn_args or call.dyn_kwargs:
        return None
    values = {keyword.key: keyword.value for keyword in call.kwargs}
    searching = [key for key, value in values.items() if value == nodes.Const(True)]
    last = [key for key, value in values.items() if value == _last_index()]
    if len(values) != 2 or len(searching) != 1 or len(last) != 1:
        return None
    return node.target.name, searching[0], last[0]


def _searches(loop: nodes.For, space: str, searching: str, last: str) -> bool:
    """A loop is the one above."""
    backwards = nodes.Slice(None, None, nodes.Neg(nodes.Const(1)))
    if loop.iter != nodes.Getitem(nodes.Name("messages", "load"), backwards, "load"):
        return False
    plain = not (loop.test or loop.else_ or loop.recursive)
    if not (plain and isinstance(loop.target, nodes.Name) and len(loop.body) == 2):
        return False
    place, test = loop.body
    index0 = nodes.Getattr(nodes.Name("loop", "load"), "index0", "load")
    if not (isinstance(place, nodes.Assign) and isinstance(place.target, nodes.Name)):
        return False
    if place.node != nodes.Sub(_last_index(), index0) or not isinstance(test, nodes.If) or test.elif_ or test.else_:
        return False
    found = [
        nodes.Assign(nodes.NSRef(space, searching), nodes.Const(False)),
        nodes.Assign(nodes.NSRef(space, last), nodes.Name(place.target.name, "load")),
    ]
    if test.body not in (found, found[::-1]):
        return False
    first, others = _first_of(test.test)
    names = {
        name.name for other in others for name in (other, *other.find_all(nodes.Node)) if isinstance(name, nodes.Name)
    }
    own = {space, place.target.name, "messages", "loop", "namespace"}
    is_search = first == nodes.Getattr(nodes.Name(space, "load"), searching, "load")
    return is_search and names == {loop.target.name} and loop.target.name not in own


def _first_of(node: nodes.Node) -> tuple[nodes.Node, list[nodes.Node]]:
    """What is asked first in `a and b and c`, and what then."""
    others: list[nodes.Node] = []
    while isinstance(node, nodes.And):
        others.append(node.right)
        node = node.left
    return node, others
