"""server/json_bytes.py: what comes in is read without a pause, what goes out is UTF-8."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from server.json_bytes import json_bytes, json_loads


def test_a_file_name_that_is_no_unicode_is_shown_all_the_same() -> None:
    name = b"\xff.gguf".decode("utf-8", "surrogateescape")
    assert (
        json_bytes({"file": name, "n": [1, 2.5, None, "\u00e9"]})
        == '{"file":"\ufffd.gguf","n":[1,2.5,null,"\u00e9"]}'.encode()
    )


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        json_bytes({"a": object()})


@pytest.fixture
def searching() -> Iterator[None]:
    """The search for garbage is on; a `serve` that refused to start left it off in this process, perhaps."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("is_on", [True, False])
def test_nothing_is_searched_for_garbage_while_json_is_read(monkeypatch: pytest.MonkeyPatch, is_on: bool) -> None:
    searches = list[bool]()

    def loads(raw: bytes) -> object:
        searches.append(gc.isenabled())
        if raw == b"[]":
            json_loads(b"[1]")  # as another thread may meanwhile
            searches.append(gc.isenabled())
        return raw

    monkeypatch.setattr("server.json_bytes.orjson.loads", loads)
    if not is_on:
        gc.disable()
    try:
        json_loads(b"[]")
        assert gc.isenabled() == is_on
    finally:
        gc.enable()
    assert searches == [False, False, False]


@pytest.mark.usefixtures("searching")
def test_what_cannot_be_read_leaves_the_search_for_garbage_on() -> None:
    with pytest.raises(orjson.JSONDecodeError):
        json_loads(b"[1")
    assert gc.isenabled()


@pytest.mark.usefixtures("searching")
def test_threads_that_read_at_once_leave_the_search_for_garbage_on() -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(json_loads, [b"[1,2]"] * 20_000))
    assert gc.isenabled()
