"""Ask the reference's chat code about our templates and write `records/chat_formats.json`:
`python -m testing.oracles.record_chat_formats`.

The record has, for each template of `chat_templates` and each request of `chat_format_cases`, the prompt, the part of
it that the answer's parser reads, the grammar, the preserved tokens, the stop strings, and each answer cut in two;
then, for one template, how every form of the form is read and what is refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testing.oracles.chat_driver import ask
from testing.oracles.chat_format_cases import ANSWERS, FORMS, REFUSED, REQUESTS, Request
from testing.oracles.chat_formats import question, shaped
from testing.oracles.chat_templates import TEMPLATES
from testing.oracles.record import RECORDS
from testing.oracles.reference_server import require
from testing.server_process import ServerError

RECORD = RECORDS / "chat_formats.json"
SWITCHED = TEMPLATES["reasoning in tags, switched by an empty one"]
"""The template for forms and refusals."""


class Lists:
    """What answers share, each value once.

    Attributes:
        values: by the name of the field.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {"grammar": [], "answers": []}

    def kept(self, answers: dict[str, Any], requests: Sequence[Request]) -> list[dict[str, Any]]:
        """Answers to requests; what is in the lists is named by its place there."""
        shown = [shaped(answer, request) for answer, request in zip(answers["requests"], requests, strict=True)]
        for one in shown:
            for name, values in self.values.items():
                if name in one:
                    if one[name] not in values:
                        values.append(one[name])
                    one[name] = values.index(one[name])
        return shown


def expected(recorded: dict[str, Any], lists: dict[str, list[Any]]) -> dict[str, Any]:
    """A recorded answer with what is in the lists put back."""
    return {name: lists[name][value] if name in lists else value for name, value in recorded.items()}


def write(path: Path, recorded: dict[str, Any]) -> None:
    """Write a record, its templates a line each."""
    templates = recorded.pop("templates")
    entries = ",\n".join(f"{_dump(name)}: {_dump(entry)}" for name, entry in templates.items())
    lines = [f"{_dump(key)}: {_dump(value)}" for key, value in recorded.items()]
    path.write_text("{" + ",\n".join([*lines, f'"templates": {{\n{entries}\n}}']) + "}\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes, {len(templates)} templates")


def record() -> dict[str, Any]:
    """The record; each grammar and each list of answers is kept once, and named by its place in a list of them.

    Raises:
        ServerError: no reference, or no compiler.
    """
    found = ask(
        [
            *(question(source, REQUESTS, ANSWERS) for source in TEMPLATES.values()),
            question(SWITCHED, FORMS, ()),
            question(SWITCHED, REFUSED, ()),
        ]
    )
    lists = Lists()

    *of_templates, of_forms, refused = found
    templates = {
        name: {"thinks": answers["thinks"], "requests": lists.kept(answers, REQUESTS)}
        for name, answers in zip(TEMPLATES, of_templates, strict=True)
    }
    return {
        "header": {"reference": require().identity(), "made_by": "testing.oracles.record_chat_formats"},
        "templates": templates,
        "forms": lists.kept(of_forms, FORMS),
        "refused": lists.kept(refused, REFUSED),
        "lists": lists.values,
    }


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def main() -> int:
    """The command."""
    try:
        recorded = record()
    except ServerError as error:
        print(f"record_chat_formats: {error}", file=sys.stderr)
        return 2
    write(RECORD, recorded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
