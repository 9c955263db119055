"""What the values of a schema may be."""

from __future__ import annotations

from engine.json_schema.nodes import AllOf, AnyOf, AnyValue, ConstValue, EnumValue, Node, Reference, StringValue


def may_be_string(node: Node) -> bool:
    """Whether a string may follow a schema, by llama-server b11192's rule; a schema that only names itself may not."""
    return _may_be_string(node, ())


def _may_be_string(node: Node, open_: tuple[int, ...]) -> bool:
    match node:
        case StringValue():
            return True
        case ConstValue():
            return isinstance(node.value, str)
        case EnumValue():
            return any(isinstance(value, str) for value in node.values)
        case Reference():
            target = node.target
            return id(target) not in open_ and _may_be_string(target, (*open_, id(target)))
        case AnyOf():
            return any(_may_be_string(child, open_) for child in node.children)
        case AllOf():
            held = [child for child in node.children if not isinstance(child, AnyValue)]
            return bool(held) and all(_may_be_string(child, open_) for child in held)
    return False
