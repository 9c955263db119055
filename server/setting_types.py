"""How a setting is spelled outside, and the kinds of values that settings have."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from server import sampling_flags


@dataclass(frozen=True, slots=True)
class Flag:
    """How a setting is spelled outside: command-line names, names that switch it off, environment variables.

    Args:
        names: llama-server's spellings, or ours where it has none.
        env: variables in order of precedence, the first one set wins.
        metavar: what `--help` calls the value; empty for a switch.
        off: spellings that turn a switch off. Its variable then has a `LLAMA_ARG_NO_` twin, as llama-server's have.
        group: the heading in `--help`.
        many: it may be given several times, and all of them count.
        optional: its value may be left out; it is then empty.
    """

    names: tuple[str, ...]
    env: tuple[str, ...] = ()
    metavar: str = ""
    off: tuple[str, ...] = ()
    group: str = "Server"
    many: bool = False
    optional: bool = False


def optional(names: str, metavar: str, group: str = "Server") -> Flag:
    """A `Flag` whose value may be left out; names are written with spaces between them."""
    return Flag(tuple(names.split()), metavar=metavar, group=group, optional=True)


def flag(names: str, env: str = "", metavar: str = "", off: str = "", group: str = "Server") -> Flag:
    """A `Flag` whose names and variables are written with spaces between them."""
    return Flag(tuple(names.split()), tuple(env.split()), metavar, tuple(off.split()), group)


def as_switch(value: object) -> object:
    """llama-server's words for true and false; anything else is left for pydantic to refuse."""
    words = {"on": True, "enabled": True, "true": True, "1": True}
    words |= {"off": False, "disabled": False, "false": False, "0": False}
    return words.get(value, value) if isinstance(value, str) else value


def _commas(value: object) -> object:
    """A comma-separated row, quotes as in CSV, as llama-server's `--api-key` and `--alias` read it."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in next(csv.reader([value]), []) if part.strip())


def _sorted_commas(value: object) -> object:
    """The same as a set in order: of several aliases llama-server shows the first in alphabetical order."""
    parts = _commas(value)
    return tuple(sorted(set(parts))) if isinstance(parts, tuple) else parts


class Address(NamedTuple):
    """A host, or the path of a `*.sock`, and a port."""

    host: str
    port: int


def _address(value: object) -> object:
    """`HOST:PORT`, a host of colons in brackets."""
    if not isinstance(value, str):
        return value
    host, _, port = value.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host.replace(":", "/")  # no host has a slash
    if not host or "/" in host or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError("must be HOST:PORT")
    return Address(host, int(port))


def _origins(value: object) -> object:
    """A comma-separated row of origins."""
    names = _commas(value)
    for name in names if isinstance(names, tuple) else ():
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\s*]+", str(name)):
            raise ValueError(f"'{name}' is no origin, such as https://example.com; each is named as browsers send it")
    return names


def reason(error: Exception) -> str:
    """Why a file cannot be read, without its name."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


Switch = Annotated[bool, BeforeValidator(as_switch)]
NameSet = Annotated[tuple[str, ...], BeforeValidator(_sorted_commas)]
Names = Annotated[tuple[str, ...], BeforeValidator(_commas)]
Finite = Annotated[float, AfterValidator(sampling_flags.float32)]
Origins = Annotated[tuple[str, ...], BeforeValidator(_origins)]
HostAndPort = Annotated[Address, BeforeValidator(_address)]
Whole = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
