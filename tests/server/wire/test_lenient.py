"""Values of the wanted type, else a default."""

from __future__ import annotations

import pytest

from server.errors import BadRequest
from server.wire.lenient import dumped, has_texts, list_at, text_at, value_at


def test_what_is_missing_or_of_another_type_is_the_default() -> None:
    assert text_at({"a": "x"}, "a") == "x"
    assert [text_at(value, "a", "d") for value in ({"a": 5}, {}, None, "a", ["a"])] == ["d"] * 5
    assert (list_at({"a": [1]}, "a"), list_at({"a": "x"}, "a"), value_at({"a": 5}, "a")) == ([1], None, 5)
    assert has_texts({"a": "", "b": "x"}, "a", "b")
    assert not has_texts({"a": ""}, "a", "b")


def test_json_is_written_as_the_reference_writes_it() -> None:
    value = {"a": [1, 1.0, 1e20, -0.0, True, None], "é\n": {"": []}, "o": {}}
    assert dumped(value) == '{"a":[1,1.0,1e+20,-0.0,true,null],"é\\n":{"":[]},"o":{}}'


def test_what_is_nested_without_end_is_refused() -> None:
    deep: object = 1
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(BadRequest, match="nested too deep"):
        dumped(deep)
