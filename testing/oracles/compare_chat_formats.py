"""Compare with the reference's chat code, live: `python -m testing.oracles.compare_chat_formats [FOLDER]`.

Every `*.jinja` of a folder (the source archive's `models/templates` unless another is named) and every template of
ours, each with all requests and answers of `chat_format_cases` and of `tool_cases`. What the reference's template
language refuses is not compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.chat_formats.specialized import specialized
from engine.chat_template import ChatTemplate
from testing.oracles import tool_cases
from testing.oracles.chat_driver import ask, source_archive
from testing.oracles.chat_format_cases import ANSWERS, FORMS, REFUSED, REQUESTS, Request, random_answers
from testing.oracles.chat_formats import BOS, EOS, ours, question, shaped
from testing.oracles.chat_templates import TEMPLATES
from testing.server_process import ServerError

_REQUESTS = (*REQUESTS, *FORMS, *REFUSED)
_ANSWERS = (*ANSWERS, *random_answers(1, 300))
_TOOL_ANSWERS = (*tool_cases.ANSWERS, *tool_cases.random_answers(1, 200))
_SUITES = ((_REQUESTS, _ANSWERS), (tool_cases.REQUESTS, _TOOL_ANSWERS))


def _is_known(source: str) -> bool:
    """Whether answers of a template are parsed at all."""
    kind = specialized(source)
    return kind is None or kind.parser is not None


def _shown(theirs: object, mine: object, answers: Sequence[str]) -> str:
    """The first difference of two values, of two lists of answers the first answer with one."""
    if isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine) == len(answers):
        answer, theirs, mine = next(
            (answer, one, other) for answer, one, other in zip(answers, theirs, mine, strict=True) if one != other
        )
        return f"{answer!r}: theirs {theirs!r}, ours {mine!r}"
    return f"theirs {theirs!r}, ours {mine!r}"


def differences(
    name: str, source: str, answered: dict[str, object], asked: Sequence[Request], answers: Sequence[str]
) -> list[str]:
    """What differs for one template, a line each."""
    if "error" in answered:
        return [f"{name}: the reference refuses it: {answered['error']}"]
    template = ChatTemplate(source, BOS, EOS)
    found = [] if template.thinks == answered["thinks"] else [f"{name}: thinks is {template.thinks}"]
    requests = answered["requests"]
    assert isinstance(requests, list)
    for request, answer in zip(asked, requests, strict=True):
        theirs, mine = shaped(answer, request), ours(template, request, answers)
        if "are not supported for" in str(mine.get("error")) or "While executing" in str(theirs.get("error")):
            continue
        found += [
            f"{name}: {request}: {key}: {_shown(theirs.get(key), mine.get(key), answers)}"
            for key in theirs.keys() | mine.keys()
            if theirs.get(key) != mine.get(key)
        ]
    return found


def _compared(templates: Mapping[str, str], requests: Sequence[Request], answers: Sequence[str]) -> list[str]:
    """What differs for all templates."""
    answered = ask(question(source, requests, answers) for source in templates.values())
    return [
        line
        for (name, source), one in zip(templates.items(), answered, strict=True)
        for line in differences(name, source, one, requests, answers)
    ]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.compare_chat_formats", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        folder = arguments.folder or source_archive() / "models" / "templates"
        files = {path.name: path.read_bytes().decode() for path in sorted(folder.glob("*.jinja"))}
        chosen = {**files, **TEMPLATES}
        analyzed = {name: source for name, source in chosen.items() if _is_known(source)}
        found = [line for suite in _SUITES for line in _compared(analyzed, *suite)]
    except ServerError as error:
        print(f"compare_chat_formats: {error}", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    skipped = sorted(chosen.keys() - analyzed.keys())
    print(f"{len(analyzed)} templates, {len(found)} differences; of kinds not parsed: {', '.join(skipped)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
