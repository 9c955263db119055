"""Which part of a prompt each message of a conversation makes, for templates of which that can be proved.

A chat template is a program: what it makes of a conversation's end says nothing, as such, of what it makes of the
whole. Most templates though write something, go through the messages once, and write something more; and what they
write of a message that is neither the first nor the last one hangs on that message alone, or on its neighbours too.
Such a message has the same part in the prompt of every conversation that ends alike. `find_loop` proves that of a
template's syntax tree, or does not; a `PieceTemplate` then writes the parts one by one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import jinja2
from jinja2 import nodes

from engine.errors import InvalidRequest
from engine.jinja_environment import TemplateEnvironment
from engine.last_query import LastQuery, find_last_query

_NODES: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Continue),
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.Operand),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Compare, nodes.And, nodes.Or, nodes.Not, nodes.CondExpr),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos, nodes.Concat),
    *(nodes.Filter, nodes.Test, nodes.Call),
)
"""What a template may be made of: nothing that keeps a state from one message to the next."""

_FILTERS: Final = frozenset(
    {
        *("capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "indent", "int", "items"),
        *("join", "last", "length", "list", "lower", "replace", "reverse", "round", "safe", "selectattr"),
        *("rejectattr", "string", "title", "tojson", "trim", "unique", "upper"),
    }
)
_FUNCTIONS: Final = frozenset({"raise_exception", "strftime_now", "range"})
_METHODS: Final = frozenset(
    {
        *("capitalize", "endswith", "get", "items", "keys", "lower", "lstrip", "replace", "rsplit", "rstrip"),
        *("split", "startswith", "strip", "title", "upper", "values"),
    }
)
_FIELDS: Final = frozenset({"role", "content", "reasoning_content", "name", "tool_call_id", "tool_calls"})


@dataclass(frozen=True, slots=True)
class MessageLoop:
    """The loop in which a template writes its messages.

    Attributes:
        index: where it stands in the template's body.
        near: what it writes of a message hangs on the messages beside it, too.
        refuses: it may fail where it has not: on a message that becomes the first one.
        query: it asks where the last query stands; see `engine/last_query.py`.
    """

    index: int
    near: bool
    refuses: bool
    query: LastQuery | None = None


def find_loop(template: nodes.Template) -> MessageLoop | None:
    """The loop through the messages, if it is proved that the part of each message but the first and the last hangs on
    nothing else, its neighbours perhaps, and the last query; what stands before the loop on nothing but the first
    message, and what stands behind it on none."""
    loops = [(index, node) for index, node in enumerate(template.body) if _goes_through_messages(node)]
    if len(loops) != 1:
        return None
    index, loop = loops[0]
    before, after = template.body[:index], template.body[index + 1 :]
    assert isinstance(loop, nodes.For)
    if loop.recursive or loop.test is not None or loop.else_ or not isinstance(loop.target, nodes.Name):
        return None
    query = find_last_query(before)
    search: list[nodes.Node] = []
    if query is not None:
        search = before[query.index : query.index + 2]
        del before[query.index : query.index + 2]
    if not all(map(_pure, _inside(before, loop.body, after))) or not all(map(_pure_search, _inside(search))):
        return None
    stored, own = (_names(part, "store") for part in (before, loop.body))
    if (stored | own) & {"messages", "loop", loop.target.name, "" if query is None else query.space}:
        return None
    if not all(_looks_at(node, in_loop=False) for node in before):
        return None
    if not all(_looks_at(node, in_loop=True, query=query) for node in loop.body):
        return None
    live = [node for statement in loop.body for node in _live(statement, query)]
    read = {node.name for node in live if isinstance(node, nodes.Name)} | _names(after, "load")
    if read & (stored | {"messages", "loop"}) or not _asks_alone(query, _inside(before, loop.body, after)):
        return None
    refuses = query is not None or not _safe(template)
    return MessageLoop(index, any(map(_is_neighbour, live)), refuses, query)


class PieceTemplate:
    """A template that writes the same as another one, and says where the part of each message begins.

    Args:
        tree: of the other template; changed.
        loop: what `find_loop` found in it.
        environment: to compile it.

    Attributes:
        near, refuses: as of `MessageLoop`.
    """

    def __init__(self, tree: nodes.Template, loop: MessageLoop, environment: TemplateEnvironment) -> None:
        self._marker = secrets.token_hex(16)  # which nobody can write into a message
        node = tree.body[loop.index]
        assert isinstance(node, nodes.For)
        node.body.insert(0, nodes.Output([nodes.TemplateData(self._marker)], lineno=node.lineno))
        self._has_query = loop.query is not None
        if loop.query is not None:
            told = [nodes.TemplateData(self._marker), loop.query.value(), nodes.TemplateData(self._marker)]
            tree.body.insert(loop.index, nodes.Output(told, lineno=node.lineno))
        tree.set_environment(environment)
        self._template: jinja2.Template = environment.from_string(tree)
        self.near, self.refuses = loop.near, loop.refuses

    def pieces(self, context: Mapping[str, Any]) -> tuple[list[str], int]:
        """The prompt of a conversation, cut before the part of each message but the first; and up to which message
        conversations may begin in which that of the others is the same.

        Args:
            context: the template's variables, `messages` among them.

        Raises:
            Exception: whatever a template may raise.
        """
        before, *parts = self._template.render(context).split(self._marker)
        latest = len(context["messages"]) - 1
        if self._has_query:
            latest = int(parts[0])
            before, *parts = before + parts[1], *parts[2:]
        return ([before + parts[0], *parts[1:]] if parts else [before]), latest

    def begin(self, context: Mapping[str, Any], n_messages: int) -> None:
        """Write the parts of the first messages and no more.

        Args:
            context: the template's variables, `messages` among them; there are more than `n_messages`.

        Raises:
            Exception: whatever a template may raise.
        """
        n_messages += 2 * self._has_query
        for text in self._template.generate(context):
            n_messages -= text == self._marker
            if n_messages < 0:
                return


@contextmanager
def refusals() -> Iterator[None]:
    """What a template raises is what it says of the conversation."""
    try:
        yield
    except Exception as error:  # a template is code: it may raise anything
        raise InvalidRequest(f"the chat template refuses this conversation: {error}") from None


@dataclass(frozen=True, slots=True)
class Pieces:
    """The prompt of a conversation in the parts that its messages make.

    Attributes:
        texts: each message's part; the first one with what stands before it, the last one with what stands behind.
        latest: the last message that a conversation may begin with so that the others have the same parts.
        template, contexts: what made them.
    """

    texts: list[str]
    latest: int
    template: PieceTemplate
    contexts: list[dict[str, Any]]

    @property
    def near(self) -> bool:
        """A part hangs on the messages beside its own, too."""
        return self.template.near

    def check_beginnings(self, ends: Iterable[int], is_kept: Sequence[bool]) -> None:
        """Make sure that the template takes the conversations that begin later.

        What it makes of the messages in their middle is known; here it writes their beginnings.

        Args:
            ends: the numbers of the messages they begin with, ascending; below that of the last one, up to `latest`.
            is_kept: which of the messages before stay.

        Raises:
            InvalidRequest: it refuses one.
        """
        messages = self.contexts[0]["messages"]
        rest = [messages[self.latest], messages[-1]]
        kept: list[Mapping[str, Any]] = []
        seen = 0
        for end in ends:
            kept += [messages[at] for at in range(seen, end) if is_kept[at]]
            seen = end
            begun = kept if self.near else kept[:1]
            left = [*begun, *messages[end : end + 2], *rest]
            with refusals():
                for context in self.contexts:
                    self.template.begin({**context, "messages": left}, len(begun) + 1)
            if kept and not self.near:
                return  # all that come later begin with the same message


# --- what there is -------------------------------------------------------------------------------------------------


def _pure(node: nodes.Node) -> bool:
    """A node leaves everything as it was, but for the names of its own block."""
    if type(node) not in _NODES:
        return False
    if isinstance(node, nodes.Filter):
        return node.name in _FILTERS
    if isinstance(node, nodes.Call):
        called = node.node
        if isinstance(called, nodes.Name):
            return called.name in _FUNCTIONS
        return isinstance(called, nodes.Getattr) and called.attr in _METHODS
    return True


def _names(statements: Sequence[nodes.Node], context: str) -> set[str]:
    """The names that statements read ("load") or write ("store")."""
    names = (name for statement in statements for name in statement.find_all(nodes.Name))
    return {name.name for name in names if name.ctx == context}


def _goes_through_messages(node: nodes.Node) -> bool:
    return isinstance(node, nodes.For) and _is_messages(node.iter)


def _inside(*parts: Sequence[nodes.Node]) -> Iterator[nodes.Node]:
    """All nodes of some statements."""
    for part in parts:
        for node in part:
            yield node
            yield from node.find_all(nodes.Node)


def _pure_search(node: nodes.Node) -> bool:
    """As `_pure`, in the search for the last query, whose shape is known."""
    if isinstance(node, nodes.NSRef):
        return True
    return _pure(node) or (isinstance(node, nodes.Call) and node.node == nodes.Name("namespace", "load"))


def _is_messages(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.Name) and node.name == "messages"


def _is_first(node: nodes.Node) -> bool:
    """`messages[0]`"""
    return isinstance(node, nodes.Getitem) and _is_messages(node.node) and node.arg == nodes.Const(0)


def _of_loop(node: nodes.Node, *names: str) -> bool:
    """`loop.name`"""
    return (
        isinstance(node, nodes.Getattr)
        and isinstance(node.node, nodes.Name)
        and node.node.name == "loop"
        and node.attr in names
    )


def _is_neighbour(node: nodes.Node) -> bool:
    """`messages[loop.index0 - 1]` or `messages[loop.index0 + 1]`"""
    return (
        isinstance(node, nodes.Getitem)
        and _is_messages(node.node)
        and isinstance(node.arg, nodes.Add | nodes.Sub)
        and _of_loop(node.arg.left, "index0")
        and node.arg.right == nodes.Const(1)
    )


def _looks_at(node: nodes.Node, *, in_loop: bool, query: LastQuery | None = None, own_loop: bool = False) -> bool:
    """Of the conversation a node sees the first message at most; in the loop, its place in it and its neighbours.

    Args:
        query: whether a message comes after it may be asked in the loop.
        own_loop: `loop` is another one, inside.
    """
    if _is_first(node) or (in_loop and not own_loop and (_is_neighbour(node) or _asks(node, query))):
        return True
    if _is_messages(node):
        return False
    if isinstance(node, nodes.Name) and node.name == "loop":
        return own_loop
    if not own_loop and _of_loop(node, "first", "last", "index0", "index"):
        return in_loop
    if isinstance(node, nodes.For):
        inner = (*node.body, *node.else_, *filter(None, (node.test,)))
        return _looks_at(node.iter, in_loop=in_loop, query=query, own_loop=own_loop) and all(
            _looks_at(child, in_loop=in_loop, query=query, own_loop=True) for child in inner
        )
    return all(_looks_at(child, in_loop=in_loop, query=query, own_loop=own_loop) for child in node.iter_child_nodes())


def _asks_alone(query: LastQuery | None, others: Iterable[nodes.Node]) -> bool:
    """Nothing else is done with what the search for the last query found."""
    if query is None:
        return True
    nodes_there = list(others)
    n_named = sum(isinstance(node, nodes.Name) and node.name == query.space for node in nodes_there)
    return n_named == sum(map(query.is_asked, nodes_there))


def _asks(node: nodes.Node, query: LastQuery | None) -> bool:
    return query is not None and query.is_asked(node)


# --- what is done for a message that is neither the first nor the last ----------------------------------------------


def _truth(node: nodes.Node) -> bool | None:
    """Whether a condition holds for such a message; None where that is not known beforehand."""
    if isinstance(node, nodes.Const):
        return bool(node.value)
    if _of_loop(node, "first", "last"):
        return False
    if isinstance(node, nodes.Not):
        inner = _truth(node.node)
        return None if inner is None else not inner
    if isinstance(node, nodes.Compare) and len(node.ops) == 1:
        return _compared(node.expr, node.ops[0])
    if isinstance(node, nodes.And | nodes.Or):
        decides = isinstance(node, nodes.Or)
        sides = (_truth(node.left), _truth(node.right))
        if decides in sides:
            return decides
        return None if None in sides else not decides
    return None


def _compared(place: nodes.Node, operand: nodes.Operand) -> bool | None:
    """Whether the place in the loop is the first one, asked in numbers."""
    starts = {("index0", 0), ("index", 1)}
    if not isinstance(operand.expr, nodes.Const):
        return None
    if not any(_of_loop(place, name) and operand.expr.value == number for name, number in starts):
        return None
    return {"eq": False, "ne": True, "gt": True, "lteq": False}.get(operand.op)


def _live(node: nodes.Node, query: LastQuery | None, *, own_loop: bool = False) -> Iterator[nodes.Node]:
    """The nodes that may be evaluated for such a message; of its place and its neighbours only what is not known."""
    if not own_loop and (_of_loop(node, "first", "last") or _compared_place(node) or _asks(node, query)):
        return
    yield node
    if not own_loop and _is_neighbour(node):
        return
    for child, inner in _reached(node, own_loop):
        if inner and isinstance(child, nodes.Name) and child.name == "loop":
            continue
        yield from _live(child, query, own_loop=inner)


def _compared_place(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Compare) and len(node.ops) == 1 and _compared(node.expr, node.ops[0]) is not None


def _reached(node: nodes.Node, own_loop: bool) -> Iterator[tuple[nodes.Node, bool]]:
    """A node's children that may be evaluated, each with whether `loop` is another one there."""
    known = None if own_loop else _truth_of_test(node)
    if isinstance(node, nodes.And | nodes.Or):
        yield node.left, own_loop
        left = None if own_loop else _truth(node.left)
        if left is None or left is isinstance(node, nodes.And):
            yield node.right, own_loop
    elif isinstance(node, nodes.If):
        yield node.test, own_loop
        chosen = (node.body if known is not False else []) + ([*node.elif_, *node.else_] if known is not True else [])
        yield from ((child, own_loop) for child in chosen)
    elif isinstance(node, nodes.CondExpr):
        yield node.test, own_loop
        sides = (node.expr1 if known is not False else None, node.expr2 if known is not True else None)
        yield from ((side, own_loop) for side in sides if side is not None)
    elif isinstance(node, nodes.For):
        yield node.iter, own_loop
        inner = (node.target, *node.body, *node.else_, *filter(None, (node.test,)))
        yield from ((child, True) for child in inner)
    else:
        yield from ((child, own_loop) for child in node.iter_child_nodes())


def _truth_of_test(node: nodes.Node) -> bool | None:
    return _truth(node.test) if isinstance(node, nodes.If | nodes.CondExpr) else None


# --- what cannot fail ----------------------------------------------------------------------------------------------


def _safe(node: nodes.Node) -> bool:
    """A node fails for no conversation."""
    if isinstance(node, nodes.For):
        return _goes_through_messages(node) and all(map(_safe, node.body))
    if isinstance(node, nodes.Getattr):
        return _of_loop(node, "first", "last", "index0", "index") or (node.attr in _FIELDS and _safe(node.node))
    if isinstance(node, nodes.Getitem):
        if _is_first(node) or _is_neighbour(node):
            return True
        return isinstance(node.arg, nodes.Const) and node.arg.value in _FIELDS and _safe(node.node)
    if isinstance(node, nodes.Operand):
        return node.op in ("eq", "ne") and _safe(node.expr)
    if isinstance(node, nodes.Add) and not (_is_text(node.left) or _is_text(node.right)):
        return False
    if isinstance(node, nodes.Test):
        return node.name in ("defined", "undefined", "none", "string") and _safe(node.node)
    if isinstance(node, nodes.Filter):
        return node.name in ("trim", "string") and not node.args and node.node is not None and _safe(node.node)
    plain = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.Name, nodes.Const, nodes.Compare)
    logic = (nodes.And, nodes.Or, nodes.Not, nodes.CondExpr, nodes.Add, nodes.Concat, nodes.Assign)
    return isinstance(node, (*plain, *logic)) and all(map(_safe, node.iter_child_nodes()))


def _is_text(node: nodes.Node) -> bool:
    """An expression is a text whatever its parts are: what is joined with one is read as one."""
    if isinstance(node, nodes.Const):
        return isinstance(node.value, str)
    return isinstance(node, nodes.Add) and (_is_text(node.left) or _is_text(node.right))
