"""A project's page at a package index: the files it offers, in JSON (PEP 691) or HTML (PEP 503), whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import orjson

_LONGEST_NAME: Final = 255  # characters of a file's name: no disk takes more, and what a wheel's says multiplies
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Link:
    """A file an index offers.

    Args:
        url: of it.
        sha256: 64 lower-case hexadecimal digits, if the index says them.
    """

    url: str
    sha256: str | None


def links_of(data: bytes, base: str, *, is_json: bool) -> dict[str, Link]:
    """File name -> link. What cannot be read counts as absent: a file, or the whole page.

    Args:
        base: the page's address.
    """
    if is_json:
        return dict(_in_json(data, base))
    anchors = _Anchors(base)
    try:
        anchors.feed(data.decode("utf-8", "replace"))
    except AssertionError:  # how Python's parser gives up on a marked section
        return {}
    return anchors.links


def split(url: str) -> SplitResult | None:
    """The parts of an address; None where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is none
    except ValueError:
        return None
    return parts


def _link(base: str, url: str, sha256: object) -> Link | None:
    try:
        joined = urljoin(base, url)
    except ValueError:
        return None
    if split(joined) is None:
        return None
    return Link(joined, sha256.lower() if isinstance(sha256, str) and _SHA256.fullmatch(sha256) else None)


def _in_json(data: bytes, base: str) -> Iterator[tuple[str, Link]]:
    """Each file of a page in JSON that can be read."""
    try:
        page: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    files = page.get("files") if isinstance(page, dict) else None
    for file in files if isinstance(files, list) else ():
        name, url = (file.get("filename"), file.get("url")) if isinstance(file, dict) else (None, None)
        if isinstance(name, str) and len(name) <= _LONGEST_NAME and isinstance(url, str):
            hashes = file.get("hashes")
            link = _link(base, url, hashes.get("sha256") if isinstance(hashes, dict) else None)
            if link is not None:
                yield name, link


class _Anchors(HTMLParser):
    """The links of a page in HTML, by the last part of their path."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: dict[str, Link] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if not href or tag not in ("base", "a"):
            return
        url, _, fragment = href.partition("#")
        kind, _, digest = fragment.partition("=")
        link = _link(self.base, url, digest if kind == "sha256" else None)
        if link is None:
            return
        if tag == "base":
            self.base = link.url
        elif len(name := unquote(urlsplit(link.url).path.rpartition("/")[2])) <= _LONGEST_NAME:
            self.links[name] = link
