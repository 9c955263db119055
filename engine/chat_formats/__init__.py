"""The form of chat answers: the grammar they are held to, and how they are cut into reasoning, content and calls.

Read from the top: `formats` makes the form of one request's answer, `reader` reads an answer piece by piece. Under
them, `template_analysis` (with `probing`, `markers`, `template_corrections`, `tool_analysis`) finds what a template
puts around the parts of an answer; `tool_calls` (with `json_calls` and `tagged_calls`) makes the expressions of calls
from it, of the `tools` of a request. `specialized`, `specialized_parsers` and `specialized_calls` know the templates
that need code of their own. `peg` (with `peg_builder`, `peg_json`, `peg_grammar`) has the expressions that parsers and
grammars are made of, and `mapping` puts the parts that they report together into a message.
"""
