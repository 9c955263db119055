"""Nodes -> grammar: which rules a schema has, in llama-server b11192's words (`common/json-schema-to-grammar.cpp`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import InvalidRequest
from engine.json_schema.excluded_strings import any_string_but
from engine.json_schema.integers import INT64_MAX, INT64_MIN, integer_range
from engine.json_schema.json_text import json_text
from engine.json_schema.limits import Budget, SchemaTooLarge, too_deep
from engine.json_schema.nodes import (
    AllOf,
    AnyOf,
    AnyValue,
    ArrayValue,
    BooleanValue,
    ConstValue,
    EnumValue,
    IntegerValue,
    Node,
    NullValue,
    NumberValue,
    ObjectValue,
    Reference,
    StringFormat,
    StringValue,
    TupleValue,
)
from engine.json_schema.parsing import parse_schema
from engine.json_schema.patterns import InvalidPattern, UnsupportedPattern, pattern_rule
from engine.json_schema.rules import NO_MAXIMUM, RESERVED, RuleTable, literal, repetition, rule_name
from engine.json_schema.warning_list import Warnings

_FAILED: Final = "JSON schema conversion failed:\n"
_OTHERS: Final = "*"  # stands for the properties that are not listed; one that is called so gets the same rules


@dataclass(frozen=True, slots=True)
class SchemaGrammar:
    """A schema's grammar.

    Attributes:
        text: GBNF, a rule a line. Bytes that are no UTF-8, which a strange pattern can give, are lone surrogates in it
            (`surrogateescape`).
        warnings: what the schema asks for and the grammar does not hold, as `PLACE: KEYWORD` or with a reason.
    """

    text: str
    warnings: tuple[str, ...]


def json_schema_to_grammar(schema: Any) -> SchemaGrammar:
    """The grammar of the JSON values that follow `schema`, the same text as llama-server's `json_schema_to_grammar`.

    The caller makes `{"type": "object"}` of an empty schema, as llama-server does; here it is any value.

    Args:
        schema: parsed JSON as orjson gives it.

    Raises:
        InvalidRequest: the reference refuses the schema; the text is what it says, beginning with `JSON schema
            conversion failed:` and a line end. It is a 400; `/completion` and `/v1/completions` put
            `Field 'json_schema': "json_schema": ` before it.
        SchemaTooLarge: it passes a limit of `engine.json_schema.limits`, which the reference does not have.
    """
    builder = GrammarBuilder()
    try:
        builder.add_schema("root", schema)
    except SchemaTooLarge:
        raise
    except InvalidRequest as error:
        raise _refusal(str(error)) from None
    return SchemaGrammar(builder.text(), builder.warnings)


class GrammarBuilder:
    """A grammar of rules and schemas (the reference's `build_grammar`): add them, then take the text.

    Args:
        dotall: whether `.` in a pattern is a line end, too.
    """

    def __init__(self, dotall: bool = False) -> None:
        self._budget = Budget()
        self._converter = _Converter(self._budget, dotall=dotall)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the schemas added so far ask for and the grammar does not hold."""
        return self._converter.warnings.texts()

    def add_rule(self, name: str, rule: str) -> str:
        """Adds a rule as it is; returns the name it stands under, another one when another rule has `name`.

        Raises:
            SchemaTooLarge: the grammar gets too long.
        """
        return self._converter.rules.add(name, rule)

    def add_schema(self, name: str, schema: Any) -> str:
        """Adds the rules of a schema, parsed JSON; returns the name of the outermost, `name` where that is free.

        Raises:
            InvalidRequest: the reference refuses the schema while it reads it (`JSON schema error at PATH: ...`). It
                is a 400; the chat endpoint puts `Unable to generate parser for this template. Automatic parser
                generation failed: ` before it and before what `text` raises.
            SchemaTooLarge: it passes a limit.
        """
        document = parse_schema(schema, self._budget, self._converter.warnings)
        return self.add_node(name, document.root)

    def add_node(self, name: str, node: Node) -> str:
        """As `add_schema`, for a schema that was read before (`parse_schema`), or for a part of it."""
        try:
            return self._converter.visit(node, "" if name == "root" else name)
        except RecursionError:
            raise too_deep() from None

    def text(self) -> str:
        """The grammar.

        Raises:
            InvalidRequest: a schema has patterns that are no regular expressions; the text, which names them all, is
                the reference's.
        """
        if self._converter.errors:
            raise _refusal("\n".join(self._converter.errors))
        return self._converter.rules.text()


class _Converter:
    """Visits nodes and adds their rules.

    Attributes:
        rules: those added so far.
        errors: patterns that are no regular expressions; the rest is visited all the same, to find them all.
        warnings: patterns that any string stands for.
    """

    def __init__(self, budget: Budget, *, dotall: bool) -> None:
        self.rules = RuleTable(budget)
        self.errors: list[str] = []
        self.warnings = Warnings()
        self._budget = budget
        self._dotall = dotall
        self._open_refs: set[str] = set()

    def visit(self, node: Node, name: str) -> str:
        """Adds the rules of a node. Returns the name of the one that stands for it: not always `name`, for the
        built-in rules keep their own.

        Args:
            node: what to add.
            name: where it stands, joined by hyphens; empty for the root.
        """
        self._budget.enter()
        self._budget.text(len(name))
        rule = _VISITORS[type(node)](self, node, name)
        self._budget.leave()
        return rule

    def _add(self, name: str, rule: str) -> str:
        return self.rules.add(_own_name(name), rule)

    def _primitive(self, kind: str, name: str) -> str:
        """A built-in rule, under its own name but for the root's."""
        return self.rules.add_primitive(kind, None if name else "root")

    def _any(self, node: AnyValue, name: str) -> str:
        return self._add(name, self.rules.add_primitive("value"))

    def _null(self, node: NullValue, name: str) -> str:
        return self._primitive("null", name)

    def _boolean(self, node: BooleanValue, name: str) -> str:
        return self._primitive("boolean", name)

    def _number(self, node: NumberValue, name: str) -> str:
        return self._primitive("number", name)

    def _integer(self, node: IntegerValue, name: str) -> str:
        if (node.minimum, node.maximum) == (INT64_MIN, INT64_MAX):
            return self._primitive("integer", name)
        try:
            rule = f"({integer_range(node.minimum, node.maximum)})"
            self._budget.text(len(rule))  # once more: it takes longer to make than other rules
            return self._add(name, rule)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    def _string(self, node: StringValue, name: str) -> str:
        if node.pattern:
            return self._pattern(node.pattern, _own_name(name))
        if node.format is StringFormat.UUID:
            return self._primitive("uuid", name)
        if node.format is not None:
            return self._add(name, self.rules.add_primitive(f"{node.format.value}-string"))
        if node.min_length > 0 or node.max_length is not None:
            chars = repetition(self.rules.add_primitive("char"), node.min_length, _most(node.max_length))
            return self._add(name, rf'"\"" {chars} "\""')
        return self._primitive("string", name)

    def _pattern(self, pattern: str, name: str) -> str:
        before = len(self.rules)
        try:
            return pattern_rule(pattern, name, self.rules, self._budget, dotall=self._dotall)
        except UnsupportedPattern as reason:
            self.rules.forget(before)
            self.warnings.add(f"pattern {pattern}", str(reason))
            return self.rules.add(name, self.rules.add_primitive("string"))
        except InvalidPattern as reason:
            self.rules.forget(before)
            self.errors.append(f"Invalid pattern {pattern}: {reason}")
            return ""

    def _const(self, node: ConstValue, name: str) -> str:
        return self._add(name, self._value(node.value))

    def _enum(self, node: EnumValue, name: str) -> str:
        return self._add(name, f"({' | '.join([self._value(value) for value in node.values])})")

    def _value(self, value: Any) -> str:
        return literal(json_text(value, self._budget))

    def _tuple(self, node: TupleValue, name: str) -> str:
        rules = []
        for index, item in enumerate(node.items):
            rules.append(self.visit(item, _under(name, f"tuple-{index}")))
        return self._add(name, f'"[" space {_COMMA.join(rules)} space "]"')

    def _array(self, node: ArrayValue, name: str) -> str:
        if isinstance(node.items, AnyValue) and node.min_items == 0 and node.max_items is None:
            return self._primitive("array", name)
        item = self.visit(node.items, _under(name, "item"))
        items = repetition(item, node.min_items, _most(node.max_items), '"," space')
        return self._add(name, f'"[" space {items} space "]"')

    def _any_of(self, node: AnyOf, name: str) -> str:
        rules = []
        for index, child in enumerate(node.children):
            rules.append(self.visit(child, f"{name}-{index}" if name else f"alternative-{index}"))
        return self._add(name, " | ".join(rules))

    def _all_of(self, node: AllOf, name: str) -> str:
        """Values that every schema lists, else an object with all the properties."""
        properties: list[tuple[str, Node]] = []
        required: set[str] = set()
        values: Counter[str] = Counter()
        for child in node.children:
            for part in child.children if isinstance(child, AnyOf) else (child,):
                part = self._without_references(part)
                if isinstance(part, ObjectValue):
                    properties += [(entry.name, entry.node) for entry in part.properties]
                    self._budget.nodes(len(part.properties))
                    if not isinstance(child, AnyOf):
                        required.update(entry.name for entry in part.properties)
                elif isinstance(part, EnumValue):
                    values.update(self._value(value) for value in part.values)
        common = sorted(value for value, count in values.items() if count == len(node.children))
        if common:
            return self._add(name, f"({' | '.join(common)})")
        return self._add(name, self._object_rule(properties, required, name, None))

    def _without_references(self, node: Node) -> Node:
        """What a reference, or a chain of them, leads to; a circle is refused when the budget ends."""
        while isinstance(node, Reference):
            self._budget.nodes(1)
            node = node.target
        return node

    def _object(self, node: ObjectValue, name: str) -> str:
        if not node.properties and isinstance(node.additional, AnyValue):
            return self._add(name, self.rules.add_primitive("object"))
        properties = [(entry.name, entry.node) for entry in node.properties]
        required = {entry.name for entry in node.properties if entry.required}
        return self._add(name, self._object_rule(properties, required, name, node.additional))

    def _object_rule(
        self, properties: Sequence[tuple[str, Node]], required: set[str], name: str, additional: Node | None
    ) -> str:
        """The text of an object's rule; adds those of its properties."""
        pairs: dict[str, str] = {}
        for key, node in properties:
            value = self.visit(node, _under(name, key))
            quoted = literal(json_text(key, self._budget))
            pairs[key] = self.rules.add(f"{_under(name, key)}-kv", f'{quoted} space ":" space {value}')
        optional = [key for key, _ in properties if key not in required]
        if additional is not None:
            pairs[_OTHERS] = self._others([key for key, _ in properties], name, additional)
            optional.append(_OTHERS)
        must = _COMMA.join(pairs[key] for key, _ in properties if key in required)
        if not must and not optional:
            return '"{" space "}"'
        if not optional:
            return f'"{{" space {must} space "}}"'
        may = " | ".join(self._optional(optional, pairs, name))
        may = f' "," space ( {may} )' if must else may
        return f'"{{" space {must} ({may} )? space "}}"'

    def _others(self, listed: Sequence[str], name: str, additional: Node) -> str:
        """The rule of a property that the schema does not list, name and value."""
        others = _under(name, "additional")
        if isinstance(additional, AnyValue):
            value = self.rules.add_primitive("value")
        else:
            value = self.visit(additional, f"{others}-value")
        if listed:
            char_rule = self.rules.add_primitive("char")
            key = self.rules.add(f"{others}-k", any_string_but(listed, char_rule, self._budget))
        else:
            key = self.rules.add_primitive("string")
        return self.rules.add(f"{others}-kv", f'{key} ":" space {value}')

    def _optional(self, keys: Sequence[str], pairs: dict[str, str], name: str) -> list[str]:
        """For each optional property the text in which it is the first one: itself, then a rule of those after it."""
        texts: list[str] = []
        rest = ""  # " RULE" of the properties after the one at hand
        for key in reversed(keys):
            pair = pairs[key]
            again = f'( "," space {pair} )'
            texts.append(f"{pair}{f' {again}*' if key == _OTHERS else ''}{rest}")
            if len(texts) < len(keys):
                before = keys[len(keys) - 1 - len(texts)]
                rule = f"{again}{'*' if key == _OTHERS else '?'}{rest}"
                rest = f" {self.rules.add(f'{_under(name, before)}-rest', rule)}"
        return texts[::-1]

    def _reference(self, node: Reference, name: str) -> str:
        target = rule_name(f"ref{node.ref[1:]}")
        if target not in self.rules and node.ref not in self._open_refs:
            self._open_refs.add(node.ref)
            target = self.visit(node.target, target)
            self._open_refs.remove(node.ref)
        return self._add(name, target)


def _refusal(what: str) -> InvalidRequest:
    """The reference's text, which a zero character in the schema cuts short."""
    return InvalidRequest(f"{_FAILED}{what}".partition("\0")[0])


_COMMA: Final = ' "," space '

_VISITORS: Final[dict[type[Any], Callable[[_Converter, Any, str], str]]] = {
    AnyValue: _Converter._any,
    NullValue: _Converter._null,
    BooleanValue: _Converter._boolean,
    NumberValue: _Converter._number,
    IntegerValue: _Converter._integer,
    StringValue: _Converter._string,
    ConstValue: _Converter._const,
    EnumValue: _Converter._enum,
    ArrayValue: _Converter._array,
    TupleValue: _Converter._tuple,
    ObjectValue: _Converter._object,
    AnyOf: _Converter._any_of,
    AllOf: _Converter._all_of,
    Reference: _Converter._reference,
}


def _own_name(name: str) -> str:
    """The name of a node's rule: never a built-in one's."""
    return f"{name}-" if name in RESERVED else name or "root"


def _under(name: str, part: str) -> str:
    return f"{name}-{part}" if name else part


def _most(count: int | None) -> int:
    return NO_MAXIMUM if count is None else count
