"""server/json_bytes.py: what comes in is read without a pause, what goes out is UTF-8."""

from __future__ import annotations

import gc

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


def test_nothing_is_searched_for_garbage_while_json_is_read_and_it_is_again_behind() -> None:
    searched = list[str]()

    def note(phase: str, info: dict[str, int]) -> None:
        searched.append(phase)

    text = b"[" + b",".join([b"{}"] * 100_000) + b"]"
    gc.callbacks.append(note)
    try:
        assert len(json_loads(text)) == 100_000
    finally:
        gc.callbacks.remove(note)
    assert len(searched) <= 2  # at most once, when it may again
    assert gc.isenabled()
    with pytest.raises(orjson.JSONDecodeError):
        json_loads(b"[1")
    assert gc.isenabled()
    gc.disable()
    try:
        json_loads(b"[]")
        assert not gc.isenabled()
    finally:
        gc.enable()
