"""Jinja2's sandbox with the behaviour of the template engine that llama-server b11192 has of its own (`common/jinja`).

Chat templates are written for Jinja2, so Jinja2 renders them. Where llama-server's engine answers differently on what
templates really do, this follows llama-server, for its prompt decides its tokens:

- nothing is printed for none, undefined and mappings; the items of a list are printed one after the other;
- `+` and `~` with a text take none and undefined for the empty text, and anything else as its text;
- an attribute of something undefined is undefined;
- `default` replaces none too; filters that choose give lists; `safe` does nothing;
- texts are stripped of ASCII white space only, and change case in ASCII only;
- `tojson` writes floats with six digits, keeps non-ASCII as it is and escapes nothing for HTML;
- white space between the first character of the template and a block goes, and that character with it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Final, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.template_capabilities import is_string

_SPACES: Final = " \t\n\v\f\r"
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def prepare_source(source: str) -> str:
    """A template's source as llama-server reads and shows it: unix line ends, one line end at the end dropped."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if source.endswith("\n") else text


def text_of(value: Any) -> str:
    """A value as it is printed."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        digits = f"{value:.6f}".rstrip("0")
        return digits + "0" if digits.endswith(".") else digits
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, list | tuple):
        return "".join(map(text_of, value))
    if value is None or isinstance(value, jinja2.Undefined | Mapping):
        return ""
    return str(value)


def as_string(value: Any) -> str:
    """A value as a text, which shows the structure that printing does not; a traced value does not notice."""
    if value is None:
        return "None"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_repr(key)}: {_repr(item)}" for key, item in dict.items(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_repr, list.__iter__(value))) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_repr, value)) + ")"
    return text_of(value)


def _repr(value: Any) -> str:
    if isinstance(value, str):
        return to_json(value) if "'" in value else f"'{value}'"
    return as_string(value)


def _string(value: Any) -> str:
    """The `string` filter, by which a traced value was read."""
    repr(value)
    return as_string(value)


def _operand(value: Any) -> str:
    """A value beside a text that it is joined with."""
    return "" if value is None else as_string(value)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Sequence[str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The `tojson` filter.

    Raises:
        jinja2.TemplateError: `sort_keys` is set, which llama-server refuses, or the value is undefined.
    """
    if sort_keys:
        raise jinja2.TemplateError("tojson sort_keys=true not implemented")
    if isinstance(value, jinja2.Undefined):
        raise jinja2.TemplateError("Unknown (built-in) filter 'tojson' for type Undefined")
    item, key = (*(separators or ()), None, None)[:2]
    item = item if item is not None else ", " if indent is None else ","
    text = _json(value, 0, indent, item, ": " if key is None else key)
    return "".join(char if char < "\x80" else _escaped(char) for char in text) if ensure_ascii else text


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


_JSON_ESCAPES: Final = str.maketrans(
    {chr(code): f"\\u{code:04x}" for code in range(0x20)}
    | {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)


def _json(value: Any, level: int, indent: int | None, item: str, key: str) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_JSON_ESCAPES)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        parts = [
            f"{_json(str(k), 0, None, item, key)}{key}{_json(v, level + 1, indent, item, key)}"
            for k, v in value.items()
        ]
        return _bracketed("{}", parts, level, indent, item)
    if isinstance(value, list | tuple):
        values = list.__iter__(value) if isinstance(value, list) else iter(value)  # unseen by a traced list
        return _bracketed("[]", [_json(v, level + 1, indent, item, key) for v in values], level, indent, item)
    return "null"


def _bracketed(brackets: str, parts: list[str], level: int, indent: int | None, item: str) -> str:
    if not parts or indent is None:
        return brackets[0] + item.join(parts) + brackets[1]
    start = "\n" + " " * (indent * (level + 1))
    return brackets[0] + start + (item + start).join(parts) + "\n" + " " * (indent * level) + brackets[1]


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(f"Jinja Exception: {message}")


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    missing = not value if boolean else value is None or isinstance(value, jinja2.Undefined)
    return default_value if missing else value


def _title(text: str) -> str:
    return re.sub(f"[^{_SPACES}]+", lambda word: _capitalize(word[0]), text)


def _capitalize(text: str) -> str:
    return text[:1].translate(_UPPER) + text[1:].translate(_LOWER)


# Text methods, and filters of the same name, as C knows them.
_TEXT_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "strip": lambda text, chars=_SPACES: text.strip(chars),
    "lstrip": lambda text, chars=_SPACES: text.lstrip(chars),
    "rstrip": lambda text, chars=_SPACES: text.rstrip(chars),
    "upper": lambda text: text.translate(_UPPER),
    "lower": lambda text: text.translate(_LOWER),
    "title": _title,
    "capitalize": _capitalize,
    "split": lambda text, separator=" ", maxsplit=-1: text.split(separator, maxsplit),
    "rsplit": lambda text, separator=" ", maxsplit=-1: text.rsplit(separator, maxsplit),
}


_LOOP: Final = frozenset({"first", "last", "index", "index0"})

# Jinja2 hands the local variables along with calls.
_SCOPES: Final = ("_loop_vars", "_block_vars")


def _text_filter(name: str) -> Callable[..., Any]:
    method = _TEXT_METHODS[name]
    return lambda value, *args, **kwargs: method(as_string(value), *args, **kwargs)


def _listed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that gives a list where Jinja2's gives a generator, which is always true and has no length."""

    @wraps(function)
    def listed(*args: Any, **kwargs: Any) -> list[Any]:
        return list(function(*args, **kwargs))

    return listed


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple | str | jinja2.Undefined)


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; when rendering it is nothing."""

    tags = {"generation"}  # noqa: RUF012 - Jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Generator(CodeGenerator):
    """Compiles `~` into a call of the environment's own concatenation, and computes nothing beforehand."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja2's name
        self.write("environment.concatenate((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The environment in which chat templates are compiled and rendered."""

    code_generator_class = _Generator
    intercepted_binops = frozenset({"+"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.ChainableUndefined,
            finalize=text_of,
            optimized=False,
            extensions=[loopcontrols, _Generation],
            cache_size=0,
        )
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now, "tojson": to_json}
        self.filters |= {"tojson": to_json, "default": _default, "d": _default, "trim": _text_filter("strip")}
        self.filters |= {name: _text_filter(name) for name in ("upper", "lower", "title", "capitalize")}
        self.filters |= {name: _listed(self.filters[name]) for name in ("map", "select", "reject")}
        self.filters |= {name: _listed(self.filters[name]) for name in ("selectattr", "rejectattr")}
        self.filters |= {"safe": as_string, "string": _string}
        self.tests |= {
            "string": is_string,
            "iterable": _is_sequence,
            "sequence": _is_sequence,
            "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        }

    def variables_of(self, source: str) -> frozenset[str]:
        """The variables that a source reads from outside."""
        return frozenset(meta.find_undeclared_variables(self.parse(source)))

    def from_source(self, source: str) -> jinja2.Template:
        """Compile a prepared source.

        Raises:
            jinja2.TemplateSyntaxError: it is no template.
        """
        return self.from_string(self.syntax_tree(source))

    def syntax_tree(self, source: str) -> nodes.Template:
        """What `from_source` compiles.

        Raises:
            jinja2.TemplateSyntaxError: it is no template.
        """
        return self.parse(re.sub(r"\A(?s:.)[^\S\n]*(?=\{[%#])", "", source))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Lists may grow: what a template reaches was made for this one rendering."""
        return (isinstance(obj, list) and attr in ("append", "pop")) or super().is_safe_attribute(obj, attr, value)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute`; the sandbox has nothing against those of `loop`, which every message asks for."""
        if type(obj) is LoopContext and attribute in _LOOP:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def concatenate(self, parts: Sequence[Any]) -> str:
        """What `~` makes of its operands."""
        return "".join(map(_operand, parts))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """What `+` makes of its operands."""
        if type(left) is str and type(right) is str:
            return left + right
        if isinstance(left, str) or isinstance(right, str):
            return _operand(left) + _operand(right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call in a template; methods of texts are those of llama-server."""
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name in _TEXT_METHODS:
            own = {key: value for key, value in kwargs.items() if key not in _SCOPES}
            return _TEXT_METHODS[name](owner, *args, **own)
        return super().call(context, obj, *args, **kwargs)
