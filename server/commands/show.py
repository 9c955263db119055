"""What `bankml show` prints of an `/api/show` answer: sections of indented rows, as Ollama's. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from server.commands.tables import table, width
from server.wire.golang import human_number, show_value

_LONG: Final = frozenset({"System", "License"})
"""Sections of prose, whose lines are wrapped at 100 columns."""
_ARRAY_WIDTH: Final = 10
"""Columns that the items of a metadata array may take."""


def sections(shown: Mapping[str, Any], *, verbose: bool = False) -> str:
    """All sections of a model, each with an empty line after it.

    Args:
        shown: the answer's object.
        verbose: with the metadata and the tensors.
    """
    info: Mapping[str, Any] | None = shown.get("model_info")
    parts = [_section("Model", _model(shown, info))]
    if capabilities := shown.get("capabilities"):
        parts.append(_section("Capabilities", [[str(name)] for name in capabilities]))
    if projector := shown.get("projector_info"):
        parts.append(_section("Projector", _projector(projector)))
    if parameters := shown.get("parameters"):
        rows = [line.split() for line in lines_of(parameters) if line]
        parts.append(_section("Parameters", rows))
    if info is not None and verbose:
        parts.append(_section("Metadata", [[name, _metadata(info[name])] for name in sorted(info)]))
    if verbose and (tensors := shown.get("tensors")):
        rows = [[each["name"], each["type"], f"[{' '.join(map(str, each['shape']))}]"] for each in tensors]
        parts.append(_section("Tensors", rows))
    if system := shown.get("system"):
        parts.append(_section("System", _head(system)))
    if text := shown.get("license"):
        parts.append(_section("License", _head(text)))
    return "".join(parts)


def lines_of(text: str) -> list[str]:
    """The lines of a text as Go's scanner reads them."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _section(heading: str, rows: Sequence[Sequence[str]]) -> str:
    body = table([["", *row] for row in rows], limit=100 if heading in _LONG else 30)
    return f"  {heading}\n{body}\n"


def _model(shown: Mapping[str, Any], info: Mapping[str, Any] | None) -> list[list[str]]:
    details: Mapping[str, Any] = shown.get("details") or {}
    size = str(details.get("parameter_size") or "")
    rows: list[list[str]] = []
    if info is None:
        rows += [["architecture", str(details.get("family") or "")], ["parameters", size]]
    else:
        architecture = info.get("general.architecture")
        architecture = architecture if isinstance(architecture, str) else ""
        if architecture:
            rows.append(["architecture", architecture])
        count = info.get("general.parameter_count")
        if not size and _is_number(count):
            size = human_number(int(count))
        if size:
            rows.append(["parameters", size])
        rows += _lengths(info, architecture, ("context_length", "context length"))
        rows += _lengths(info, architecture, ("embedding_length", "embedding length"))
    rows.append(["quantization", str(details.get("quantization_level") or "")])
    if requires := shown.get("requires"):
        rows.append(["requires", str(requires)])
    return rows


def _projector(info: Mapping[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = []
    architecture = info.get("general.architecture")
    if isinstance(architecture, str) and architecture:
        rows.append(["architecture", architecture])
    if _is_number(count := info.get("general.parameter_count")):
        rows.append(["parameters", human_number(int(count))])
    for key, label in (("embedding_length", "embedding length"), ("projection_dim", "dimensions")):
        found = [row for kind in ("vision", "audio") for row in _lengths(info, f"{architecture}.{kind}", (key, label))]
        rows += found[:1]
    return rows


def _lengths(info: Mapping[str, Any], prefix: str, named: tuple[str, str]) -> list[list[str]]:
    """The row of a length of the model, none when its metadata lacks it."""
    value = info.get(f"{prefix}.{named[0]}")
    if not _is_number(value):
        return []
    return [[named[1], str(int(value)) if float(value).is_integer() else repr(float(value))]]


def _is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number of JSON."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _metadata(value: object) -> str:
    """A metadata value on one line; of an array as many items as fit a narrow column, and how many more there are."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    if not isinstance(value, list):
        return show_value(value)
    total, fitting = 1, 0  # the bracket
    for item in value:
        size = width(show_value(item)) + (2 if fitting else 0)
        if fitting and total + size > _ARRAY_WIDTH:
            break
        total += size
        fitting += 1
    if fitting == len(value):
        return show_value(value)
    return f"{show_value(value[:fitting]).removesuffix(']')} ...+{len(value) - fitting} more]"


def _head(text: str, n: int = 2) -> list[list[str]]:
    """The first lines of a text that say something, and three dots when there are more."""
    lines = [line for line in map(str.strip, lines_of(text)) if line]
    return [[line] for line in lines[:n]] + ([["..."]] if len(lines) > n else [])
