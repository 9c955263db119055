"""The form of chat answers: the grammar they are held to, and how they are cut into reasoning and content.

Read from the top: `formats` makes the form of one request's answer, `reader` reads an answer piece by piece. Under
them, `template_analysis` (with `probing`, `markers`, `template_corrections`, `tool_analysis`) finds what a template
puts around the parts of an answer, `specialized` and `specialized_parsers` know the templates that need code of their
own, and `peg` (with `peg_json`, `peg_grammar`) has the expressions that parsers and grammars are made of. Tool calls
will be a third branch in `formats`, beside a wanted form and plain text; `tool_markers` has what they need.
"""
