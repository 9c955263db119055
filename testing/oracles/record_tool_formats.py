"""Ask the reference's chat code about requests with tools and write `records/tool_formats.json`:
`python -m testing.oracles.record_tool_formats`.

The record has, for each template of ours that requests with tools are about and each request of `tool_cases`, the
prompt, the grammar and what triggers it, the preserved tokens, and each answer cut in reasoning, content and calls;
then, for one template, how odd tools, choices and calls are read or refused.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from testing.oracles.chat_driver import ask
from testing.oracles.chat_formats import question
from testing.oracles.chat_templates import TEMPLATES
from testing.oracles.record import RECORDS
from testing.oracles.record_chat_formats import Lists, write
from testing.oracles.reference_server import require
from testing.oracles.tool_cases import ANSWERS, ODD, REQUESTS, TEMPLATES_WITH_CALLS
from testing.server_process import ServerError

RECORD: Final = RECORDS / "tool_formats.json"
ODD_TEMPLATE: Final = TEMPLATES["calls as JSON in tags"]


def record() -> dict[str, Any]:
    """The record.

    Raises:
        ServerError: no reference, or no compiler.
    """
    questions = [question(TEMPLATES[name], REQUESTS, ANSWERS) for name in TEMPLATES_WITH_CALLS]
    *of_templates, odd = ask([*questions, question(ODD_TEMPLATE, ODD, ())])
    lists = Lists()
    of_each = zip(TEMPLATES_WITH_CALLS, of_templates, strict=True)
    return {
        "header": {"reference": require().identity(), "made_by": "testing.oracles.record_tool_formats"},
        "templates": {name: {"requests": lists.kept(answers, REQUESTS)} for name, answers in of_each},
        "odd": lists.kept(odd, ODD),
        "lists": lists.values,
    }


def main() -> int:
    """The command."""
    try:
        recorded = record()
    except ServerError as error:
        print(f"record_tool_formats: {error}", file=sys.stderr)
        return 2
    write(RECORD, recorded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
