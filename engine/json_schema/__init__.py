"""JSON schemas as grammars (GBNF): the text llama-server b11192 builds, byte for byte.

`parsing` reads a schema into `nodes`, `grammar` writes their `rules`; `patterns`, `integers` and `excluded_strings`
make the rules that are more than a list, `json_text` the values. `dropped` knows what the reference drops in silence.
"""

from engine.json_schema.grammar import GrammarBuilder, SchemaGrammar, json_schema_to_grammar
from engine.json_schema.limits import SchemaTooLarge
from engine.json_schema.nodes import SchemaDocument
from engine.json_schema.parsing import parse_schema
from engine.json_schema.rules import literal

__all__ = [
    "GrammarBuilder",
    "SchemaDocument",
    "SchemaGrammar",
    "SchemaTooLarge",
    "json_schema_to_grammar",
    "literal",
    "parse_schema",
]
