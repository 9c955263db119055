"""Random JSON schemas, the same for the same seed: mostly well-formed ones, with every keyword, and some wrong.

Each generator draws from a few values that were chosen for what they reach: names that collide when they become rules,
characters that mean something in a grammar, bounds at both ends of their range.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

_NAMES = (
    *("a", "b", "ab", "abc", "abd", "a b", "a-b", "a_b", "A", "name", "id", "x1", "x10", "", "*", "-", "kv", "a-kv"),
    *("é", "è", "日本", "日", "😀", 'q"q', "b\\s", "n\nl", "]", "^", "[", "root", "string", "value", "space", "char"),
    *("number", "integer", "object", "array", "null", "boolean", "uuid", "date", "date-time", "dot", "rest"),
    *(
        "additional",
        "a-rest",
        "alternative-0",
        "item",
        "tuple-0",
        "ref",
        "ref-defs-a",
        "$ref",
        "type",
        "0",
        "é-kv",
        "\u0000",
        "\x7f",
    ),
)
_DEFINITIONS = ("a", "b", "node", "é", "a-b", "a b", "root", "string")
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_FORMATS = ("date", "time", "date-time", "uuid", "uuid1", "uuid5", "uuid6", "email", "uri", "regex", "")
_COUNTS = (0, 1, 2, 3, 5, 10, 100, 2000, 2**31 - 1, 2**31, 2**32, 2**32 + 3, 2**63, 2**64 - 1, -1, 1.0, "1", None)
_BOUNDS = (
    *(0, 1, -1, 5, 9, 10, 11, 15, 19, 20, 99, 100, 101, 123, 199, 200, 299, 300, 1000, 12345, 99999, -5, -10, -99),
    *(-100, -123, -12345, 10**15, 10**16 - 1, 10**17 + 1, 10**18, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1),
    *(-(2**63), 1 - 2**63, 0.5, 1.5, -1.5, 2.0, -0.0, 1e6, 1e18, 9.3e18, -9.3e18, 1e300, -1e300, "1", None, True),
)
_SCALARS = (
    *(None, True, False, 0, 1, -1, 7, 2**53, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 0.1, 1.0, 1.5, 1e15, 1e16, 1e-4),
    *(1e-5, 1.1e22, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 123456789.125, 1 / 3, 9007199254740993.0),
    *("", "a", "b", "red", 'q"', "\\", "\n", "\r\t\b\f", "\u0000", "\x1f\x7f", "é", "日本", "😀", "]", "-", "/"),
)
_PATTERN_PARTS = (
    *("a", "b", "abc", "ab", "0", "é", "日", " ", '"', "/", "-", ",", "'", "\t", "\n", ".", "..", "|", "*", "+", "?"),
    *("^", "$", "(", ")", "(?:", "(a|b)", "(?=a)", "[a-z]", "[^a-z]", "[0-9]", "[é]", "[]", "[", "]", "{", "}", "{2}"),
    *("{2,}", "{,3}", "{1,3}", "{0}", "{0,1}", "{0,0}", "{3,1}", "{-1}", "{a}", "{1,2,3}", "{ 2}", "{99999999999}"),
    *("{2147483647}", "{}", "\\d", "\\w", "\\s", "\\n", "\\t", "\\r", "\\\\", "\\.", "\\*", "\\-", "\\]", "\\[", '\\"'),
    *(
        "\\(",
        "\\/",
        "\\é",
        "\\b",
        "\\x41",
        "\\x4",
        "\\u0041",
        "\\u00",
        "\\U0001F600",
        "[\\d]",
        "[\\n]",
        "[\\x41-\\x5a]",
    ),
    *("[\\]]", "[a\\", "\\^", "[\\^]", "(ab)", "(a)", "(b|c)", "[ab]", "[ab]{2}", "a{2}", "(a){2}", ".{1,2}"),
)
_IGNORED = {
    "title": "T",
    "description": "d",
    "default": 1,
    "minProperties": 1,
    "maxProperties": 2,
    "uniqueItems": True,
    "multipleOf": 2,
    "not": {"type": "null"},
    "if": {},
    "patternProperties": {"^a": {}},
    "propertyNames": {"pattern": "^a"},
    "contains": {},
    "$id": "x",
    "nullable": True,
    "examples": [1],
}


def random_schemas(seed: int, count: int) -> dict[str, list[bytes]]:
    """`count` random schemas of each kind, as JSON."""
    fuzz = SchemaFuzz(seed)
    kinds = {"documents": fuzz.schema, "patterns": fuzz.patterns, "ranges": fuzz.ranges, "numbers": fuzz.numbers}
    return {kind: [orjson.dumps(make()) for _ in range(count)] for kind, make in kinds.items()}


def digest_of(texts: Iterable[bytes]) -> str:
    """A sha256 of texts, their borders included."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


class SchemaFuzz:
    """Schemas from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._depth = 0

    def schema(self) -> Any:
        """A whole document, with definitions when it may refer to them."""
        schema = self._schema()
        if isinstance(schema, dict) and self._chance(0.9):
            self._depth = 2  # small ones
            schema["$defs"] = {name: self._schema() for name in self._some(_DEFINITIONS, 6, len(_DEFINITIONS))}
            self._depth = 0
        return schema

    def patterns(self) -> Any:
        """A schema of three patterns: more would nearly always have one that is refused."""
        return {"anyOf": [{"pattern": self.pattern()} for _ in range(3)]}

    def ranges(self) -> Any:
        """A schema of twenty ranges of integers."""
        return {"anyOf": [self._integer() for _ in range(20)]}

    def numbers(self) -> Any:
        """A schema of a hundred numbers."""
        return {"enum": [self.number() for _ in range(100)]}

    def pattern(self) -> str:
        """A pattern of any parts, nearly always anchored."""
        parts = self._random.choices(_PATTERN_PARTS, k=self._random.randrange(7))
        start, end = self._pick((("^", "$"),) * 20 + (("", "$"), ("^", ""), ("", "")))
        return f"{start}{''.join(parts)}{end}"

    def number(self) -> float:
        """A finite float of any size, in digits as they come or from any bits."""
        if self._random.random() < 0.5:
            digits = self._random.randrange(10 ** self._random.randrange(1, 18))
            return float(f"{digits}e{self._random.randrange(-30, 30)}")
        return self._random.uniform(-10, 10) * 10.0 ** self._random.randrange(-300, 300)

    def _pick(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

    def _some(self, values: Sequence[Any], least: int, most: int) -> list[Any]:
        return self._random.sample(values, self._random.randint(least, most))

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _schema(self) -> Any:
        if self._chance(0.01):
            return self._pick((True, False, None, 1, "x", []))
        kinds: tuple[Callable[[], dict[str, Any]], ...] = (self._string, self._integer, self._const, self._enum)
        kinds += (self._plain, self._ref)
        if self._depth < 4:
            kinds += (self._object,) * 5 + (self._array, self._tuple, self._any_of, self._all_of, self._types)
        self._depth += 1
        schema = dict(self._pick(kinds)())
        self._depth -= 1
        if self._chance(0.2):
            for word in self._some(tuple(_IGNORED), 1, 3):
                schema[word] = _IGNORED[word]
        if self._chance(0.03):
            schema.pop("type", None)
        if self._chance(0.02):
            schema["type"] = self._pick((None, "", "strin", 5, [], ["string", 5], {}, "any", True))
        return schema

    def _value(self) -> Any:
        draw = self._random.random()
        if draw < 0.06:
            return [self._value() for _ in range(self._random.randrange(3))]
        if draw < 0.12:
            return {name: self._value() for name in self._some(_NAMES, 0, 3)}
        return self.number() if draw < 0.3 else self._pick(_SCALARS)

    def _plain(self) -> dict[str, Any]:
        return {"type": self._pick(_TYPES)} if self._chance(0.7) else {}

    def _counted(self, schema: dict[str, Any], least: str, most: str) -> dict[str, Any]:
        usual = self._chance(0.9)
        for key in (least, most):
            if self._chance(0.4):
                schema[key] = self._pick(_COUNTS[:7] if usual else _COUNTS)
        return schema

    def _string(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._pick(({"type": "string"}, {}))
        draw = self._random.random()
        if draw < 0.4:
            schema["pattern"] = self.pattern()
        elif draw < 0.6:
            schema["format"] = self._pick(_FORMATS) if self._chance(0.97) else 5
        return self._counted(schema, "minLength", "maxLength")

    def _integer(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": self._pick(("integer", "integer", "integer", "number"))}
        for key in self._some(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), 0, 3):
            draw = self._random.random()
            if draw < 0.4:
                digits = self._random.randrange(1, 19)
                schema[key] = self._random.randrange(-(10**digits), 10**digits)
            else:
                schema[key] = self._pick(_BOUNDS)
        return schema

    def _const(self) -> dict[str, Any]:
        return {"const": self._value()}

    def _enum(self) -> dict[str, Any]:
        values: Any = [self._value() for _ in range(self._random.randrange(1, 5))]
        schema = {"enum": values if self._chance(0.97) else self._pick(([], 5, None, {}))}
        return {"type": self._pick(_TYPES), **schema} if self._chance(0.3) else schema

    def _object(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"} if self._chance(0.85) else {}
        names = self._some(_NAMES, 0, 5)
        if self._chance(0.85):
            schema["properties"] = {name: self._schema() for name in names} if self._chance(0.99) else []
        if self._chance(0.6):
            schema["required"] = [name for name in names if self._chance(0.6)] + ["zz"] * self._chance(0.1)
        if self._chance(0.5):
            draw = self._random.random()
            schema["additionalProperties"] = self._pick((True, False)) if draw < 0.7 else self._schema()
        if self._chance(0.05):
            schema["allOf"] = [self._schema()]
        return schema

    def _array(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"} if self._chance(0.9) else {}
        if self._chance(0.8):
            schema["items"] = self._schema()
        return self._counted(schema, "minItems", "maxItems")

    def _tuple(self) -> dict[str, Any]:
        key = self._pick(("items", "prefixItems"))
        schema: dict[str, Any] = {key: [self._schema() for _ in range(self._random.randrange(4))]}
        if self._chance(0.2):
            schema["items"] = self._schema()
        return {"type": "array", **self._counted(schema, "minItems", "maxItems")} if self._chance(0.8) else schema

    def _any_of(self) -> dict[str, Any]:
        schemas = [self._schema() for _ in range(self._random.randrange(1, 4))]
        key = self._pick(("anyOf", "oneOf"))
        schema = {key: schemas if self._chance(0.98) else self._pick(([], {}, None))}
        return {**self._object(), **schema} if self._chance(0.1) else schema

    def _all_of(self) -> dict[str, Any]:
        makers = (self._object, self._object, self._ref, self._any_of, self._enum, self._string, self._all_of)
        self._depth += 1
        schemas = [self._pick(makers)() for _ in range(self._random.randrange(1, 4))]
        self._depth -= 1
        schema: dict[str, Any] = {"allOf": schemas if self._chance(0.98) else self._pick(([], "x"))}
        return {"type": self._pick(("object", "string", "array", "integer")), **schema} if self._chance(0.4) else schema

    def _ref(self) -> dict[str, Any]:
        if self._chance(0.03):
            wrong = ("#", "", "#/", "a.json", "https://example.com/a#/b", "#a", 5, "#/$defs", "#/$defs/a/x", "#/type/0")
            return {"$ref": self._pick(wrong)}
        schema: dict[str, Any] = {"$ref": f"#/$defs/{self._pick(_DEFINITIONS)}"}
        if self._chance(0.02):
            schema["$ref"] = self._pick(("#/properties/a", "#/anyOf/0", "#/allOf/ 1x", "#/items"))
        return {**self._plain(), **schema} if self._chance(0.2) else schema

    def _types(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._pick((self._object, self._array, self._string, self._integer))()
        schema["type"] = self._some(_TYPES, 1, 4)
        return schema
