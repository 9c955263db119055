"""registry/index_page.py: an index's page is read as far as it can be, and what cannot be read hides nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.index_page import Link, links_of

BASE = "https://index.test/simple/a/"
GOOD = {"filename": "a-1.whl", "url": "../../files/a-1.whl", "hashes": {"sha256": "AB" * 32}}
READ = {"a-1.whl": Link("https://index.test/files/a-1.whl", "ab" * 32)}


def of_json(*files: Any) -> dict[str, Link]:
    return links_of(json.dumps({"files": files}).encode(), BASE, is_json=True)


def of_html(text: str) -> dict[str, Link]:
    return links_of(text.encode(), BASE, is_json=False)


def test_a_file_is_read_from_both_forms() -> None:
    assert of_json(GOOD) == READ
    assert of_html(f'<a href="../../files/a-1.whl#sha256={"AB" * 32}">a</a>') == READ
    assert of_html(f'<base href="/files/"><a href="a-1.whl#sha256={"AB" * 32}">a</a>') == READ


@pytest.mark.parametrize("sha256", ["", "zz", "../../x", "ab" * 31, "ab" * 33, "²" * 64, 5, None, []])
def test_a_digest_that_is_none_counts_as_not_stated(sha256: object) -> None:
    unsaid = {"a-1.whl": Link("https://index.test/files/a-1.whl", None)}
    assert of_json({**GOOD, "hashes": {"sha256": sha256}}) == unsaid
    assert of_html(f'<a href="../../files/a-1.whl#sha256={sha256}">a</a>') == unsaid
    assert of_json({**GOOD, "hashes": sha256}) == unsaid


@pytest.mark.parametrize(
    "file",
    [
        *({**GOOD, "filename": name} for name in (5, None, [], {}, f"a-1-{'.a' * 300}-any.whl")),
        *({**GOOD, "url": url} for url in (5, None, "http://[", "http://x:99999/", "http://x:y/")),
        *({}, [], 5, None, "x"),
    ],
)
def test_a_file_that_cannot_be_read_hides_no_other(file: object) -> None:
    assert of_json(file, GOOD) == READ


@pytest.mark.parametrize(
    "page", [b"", b"[]", b'"x"', b"5", b'{"files": 5}', b'{"files": {}}', b'{"files": [1', b"[" * 200_000, b"\xff\xfe"]
)
def test_a_page_that_is_none_has_no_files(page: bytes) -> None:
    assert links_of(page, BASE, is_json=True) == {}
    assert links_of(page, BASE, is_json=False) == {}


@pytest.mark.parametrize(
    "text",
    [
        f"<a href='{'a' * 256}'>",
        "<![x",
        "<a href='http://['>",
        "<a>",
        "<a href>",
        "<!--",
        "<a href='http://x:99999/a'>",
    ],
)
def test_html_that_is_odd_is_no_error(text: str) -> None:
    assert of_html(text) == {}
    assert of_html(f"<base href='http://['>{text}") == {}
