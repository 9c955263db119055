"""Answers that follow a grammar or a schema, greedy and seeded, ended and cut: what is asked of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from testing.oracles.cases import Case

JSON: Final = r"""root ::= object
object ::= "{" ws (pair ("," ws pair)*)? "}"
pair ::= string ":" ws value
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
value ::= object | array | string | number | ("true" | "false" | "null") ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
number ::= "-"? ([0] | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,5})? ws
ws ::= | " " | "\n" [ \t]{0,20}"""
PERSON: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "height": {"type": "number"},
        "tags": {"type": "array", "items": {"enum": ["tall", "small", "fast"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age"],
}
_SCHEMAS: Final[Mapping[str, Any]] = {
    "person": PERSON,
    "any": {},
    "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 2},
    "tuple": {"prefixItems": [{"type": "boolean"}, {"type": "null"}, {"const": "x"}]},
    "choice": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 3}]},
    "date": {"type": "object", "properties": {"on": {"type": "string", "format": "date"}}, "required": ["on"]},
    "tree": {
        "$defs": {
            "node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}
        },
        "$ref": "#/$defs/node",
    },
    "pattern": {"type": "string", "pattern": "^[A-Z][a-z]+ [A-Z][a-z]+$"},
}
_ASK = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_PERSON = _ASK.format("Describe a person as JSON.")
_FRUITS = _ASK.format("Write a list of five fruits.")
_COLOUR = _ASK.format("Is the sky blue? Answer yes or no.")
_SUM = _ASK.format("What is 12 + 30?")
_TRIGGER = {"grammar": 'root ::= "is" " " [a-z ]+ "."', "grammar_lazy": True}


def _schema(name: str, **options: Any) -> dict[str, Any]:
    return {"json_schema": _SCHEMAS[name], **options}


def _json(**options: Any) -> dict[str, Any]:
    return {"grammar": JSON, **options}


_OPTIONS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    # name: prompt, options; the temperature is 0 unless it or a seed is named
    "yes-or-no": (_COLOUR, {"grammar": 'root ::= "yes" | "no"'}),
    "yes-or-no-seeded": (_COLOUR, {"grammar": 'root ::= "Yes" | "No" | "Perhaps"', "seed": 5, "temperature": 3.0}),
    "list": (_FRUITS, {"grammar": 'root ::= ("- " [a-z]+ "\\n"){3,5}'}),
    "list-seeded": (_FRUITS, {"grammar": 'root ::= ([0-9] ". " [A-Za-z ]+ "\\n")+', "seed": 1}),
    "number": (_SUM, {"grammar": "root ::= [0-9]{1,6}"}),
    "number-cut": (_SUM, {"grammar": 'root ::= [0-9]+ "." [0-9]+', "n_predict": 3}),
    "arithmetic": (_SUM, {"grammar": 'root ::= t ([-+*/] t)*\nt ::= [0-9]+ | "(" root ")"', "seed": 2}),
    "anything": (_PERSON, {"grammar": "root ::= .*", "seed": 3}),
    "no-letters": (_PERSON, {"grammar": "root ::= [^a-zA-Z]+", "seed": 4, "temperature": 1.2}),
    "characters": ("Write Chinese: ", {"grammar": "root ::= [\u4e00-\u9fff]{4,8} [\u3002\uff01]"}),
    "characters-seeded": ("Smile: ", {"grammar": "root ::= [\U0001f300-\U0001f6ff]+", "seed": 6, "n_predict": 9}),
    "accents": ("En fran\u00e7ais: ", {"grammar": 'root ::= ([a-z\u00e0-\u00ff]+ " "?)+ "."', "seed": 7}),
    "tokens": (_PERSON, {"grammar": 'root ::= "a" <[1]> !<[28]> [a-z]+', "seed": 8}),
    "special-shown": (
        _PERSON,
        {"grammar": 'root ::= [a-z]+ <|im_start|> "b"+', "preserved_tokens": ["<|im_start|>"], "n_predict": 12},
    ),
    "special-hidden": (_PERSON, {"grammar": 'root ::= [a-z]+ <|im_start|> "b"+', "n_predict": 12}),
    "json": (_PERSON, _json()),
    "json-seeded": (_PERSON, _json(seed=9)),
    "json-hot": (_PERSON, _json(seed=10, temperature=1.8)),
    "json-cut": (_PERSON, _json(n_predict=7)),
    "json-whole-row": (_PERSON, _json(seed=11, top_k=0, top_p=1.0, min_p=0.0)),
    "json-penalties": (_PERSON, _json(seed=12, repeat_penalty=1.4, presence_penalty=0.5)),
    "json-dry": (_PERSON, _json(seed=13, dry_multiplier=0.8, dry_allowed_length=1)),
    "json-typical": (_PERSON, _json(seed=14, typical_p=0.6)),
    "json-top-n-sigma": (_PERSON, _json(seed=15, top_n_sigma=1.0, temperature=1.5)),
    "json-xtc": (_PERSON, _json(seed=16, xtc_probability=0.7, xtc_threshold=0.05)),
    "json-dynamic-temperature": (_PERSON, _json(seed=17, dynatemp_range=0.7)),
    "json-mirostat": (_PERSON, _json(seed=18, mirostat=1)),
    "json-mirostat-2": (_PERSON, _json(seed=19, mirostat=2, mirostat_tau=3.0)),
    "json-adaptive-p": (_PERSON, _json(seed=20, samplers="ma", adaptive_target=0.5)),
    "json-order": (_PERSON, _json(seed=21, samplers=["temperature", "top_p", "top_k"], temperature=1.5)),
    "json-bias": (_PERSON, _json(seed=22, logit_bias=[['"', -2.0], [40, False]])),
    "json-stop": (_PERSON, _json(stop=["}"])),
    "json-probabilities": (_PERSON, _json(seed=23, n_probs=4, n_predict=16)),
    "schema-person": (_PERSON, _schema("person")),
    "schema-person-seeded": (_PERSON, _schema("person", seed=24, temperature=1.2)),
    "schema-person-cut": (_PERSON, _schema("person", n_predict=11)),
    "schema-any": (_PERSON, _schema("any", seed=25)),
    "schema-numbers": (_SUM, _schema("numbers", seed=26)),
    "schema-tuple": (_SUM, _schema("tuple")),
    "schema-choice": (_SUM, _schema("choice", seed=27, temperature=1.5)),
    "schema-date": (_SUM, _schema("date", seed=28)),
    "schema-tree": (_SUM, _schema("tree", seed=29)),
    "schema-pattern": (_PERSON, _schema("pattern", seed=30)),
    "schema-prefilled": (_PERSON + "{", _schema("person", generation_prompt="{", seed=31)),
    "lazy-word": (_COLOUR, {**_TRIGGER, "grammar_triggers": [{"type": 1, "value": "is blue"}]}),
    "lazy-pattern": (_COLOUR, {**_TRIGGER, "grammar_triggers": [{"type": 2, "value": "sky (is)"}]}),
    "lazy-never": (_COLOUR, {**_TRIGGER, "grammar_triggers": [{"type": 3, "value": "nothing"}], "seed": 32}),
}


def _case(name: str, prompt: str, options: Mapping[str, Any]) -> Case:
    greedy = {} if "seed" in options else {"temperature": 0}
    return Case(f"constrained-{name}", None, prompt, {"n_predict": 48, **greedy, **options})


CONSTRAINED: Final = tuple(_case(name, *asked) for name, asked in _OPTIONS.items())
"""Through /completion."""
