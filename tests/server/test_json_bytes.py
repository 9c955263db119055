"""server/json_bytes.py: what goes out is UTF-8."""

from __future__ import annotations

import pytest

from server.json_bytes import json_bytes


def test_a_file_name_that_is_no_unicode_is_shown_all_the_same() -> None:
    name = b"\xff.gguf".decode("utf-8", "surrogateescape")
    assert (
        json_bytes({"file": name, "n": [1, 2.5, None, "\u00e9"]})
        == '{"file":"\ufffd.gguf","n":[1,2.5,null,"\u00e9"]}'.encode()
    )


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        json_bytes({"a": object()})
