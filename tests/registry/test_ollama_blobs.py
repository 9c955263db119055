"""registry/ollama_blobs.py: what a layer adds, byte for byte as Ollama writes it."""

from __future__ import annotations

from typing import Any

import pytest

from registry.derived import Layer, Message
from registry.ollama_blobs import go_json, messages_blob, params_blob


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.00001, "0.00001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (2**60, "1152921504606847000"),
        (True, "true"),
        (None, "null"),
        ('<&>\u2028é"\n\x01', '"\\u003c\\u0026\\u003e\\u2028é\\"\\n\\u0001"'),
        ({"b": [1, {}], "a": ()}, '{"b":[1,{}],"a":[]}'),
    ],
)
def test_json_is_written_as_go_writes_it(value: Any, text: str) -> None:
    assert go_json(value).decode() == f"{text}\n"


def test_parameters_stand_in_the_order_of_their_names_stop_among_them() -> None:
    layer = Layer("0" * 64, parameters={"use_mmap": True, "seed": -1, "temperature": 1.0}, stop=("<|a|>", "b"))
    assert params_blob(layer) == b'{"seed":-1,"stop":["\\u003c|a|\\u003e","b"],"temperature":1,"use_mmap":true}\n'


def test_messages_are_roles_and_contents() -> None:
    layer = Layer("0" * 64, messages=(Message("user", "hi"), Message("assistant", "yo")))
    assert messages_blob(layer) == b'[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]\n'


def test_a_layer_that_adds_nothing_has_no_blobs() -> None:
    assert (params_blob(Layer("0" * 64)), messages_blob(Layer("0" * 64))) == (b"", b"")
