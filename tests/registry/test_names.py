"""Names of models: Ollama's rules for reading, comparing and showing them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.names import InvalidModelName, ModelName

LONG = "8" * 80


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("mario", ("registry.ollama.ai", "library", "mario", "latest")),
        ("mario:v2", ("registry.ollama.ai", "library", "mario", "v2")),
        ("team/mario", ("registry.ollama.ai", "team", "mario", "latest")),
        ("hf.co/owner/name-GGUF:Q4_K_M", ("hf.co", "owner", "name-GGUF", "Q4_K_M")),
        ("localhost:5000/team/mario", ("localhost:5000", "team", "mario", "latest")),
        ("http://localhost:5000/team/mario:x", ("localhost:5000", "team", "mario", "x")),
        ("http:///team/mario", ("registry.ollama.ai", "team", "mario", "latest")),
        ("_a/_b/_c:_d", ("_a", "_b", "_c", "_d")),
        (f"{'3' * 350}/{LONG}/{LONG}:{LONG}", ("3" * 350, LONG, LONG, LONG)),
    ],
)
def test_a_name_is_read_with_ollamas_defaults(text: str, parts: tuple[str, ...]) -> None:
    name = ModelName.parse(text)
    assert (name.host, name.namespace, name.model, name.tag) == parts
    assert name.scheme == ("http" if text.startswith("http://") else "")


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "mm:", ":t", "/", "//", "/nn/mm", "//mm", "hh//", "a/b/c/d", "m@d", "@t", "^", "a b", "ä", "a\n"),
        *("-h/n/m:t", "h/-n/m:t", "h/n/-m:t", "h/n/m:-t", "host/name:space/model:tag", "a.b/m/x/y", "n.s/m", "../m"),
        *(f"{LONG}8", f"m:{LONG}8", f"{LONG}8/m", f"{'3' * 351}/n/m", ".", "..", "://n/m", "./model.gguf"),
    ],
)
def test_what_is_no_name_is_refused_in_ollamas_words(text: str) -> None:
    with pytest.raises(InvalidModelName, match=r"^invalid model name$"):
        ModelName.parse(text)


@pytest.mark.parametrize(
    ("text", "shown", "stem"),
    [
        ("mario", "mario:latest", "mario"),
        ("registry.ollama.ai/library/Mario:v2", "Mario:v2", "Mario%3Av2"),
        ("Registry.Ollama.AI/Library/mario", "mario:latest", "mario"),
        ("team/mario", "team/mario:latest", "team%2Fmario"),
        ("hf.co/library/mario:q", "hf.co/library/mario:q", "hf.co%2Flibrary%2Fmario%3Aq"),
    ],
)
def test_the_shortest_form_always_has_the_tag_and_a_file_has_it_encoded(text: str, shown: str, stem: str) -> None:
    name = ModelName.parse(text)
    assert (str(name), name.shown, name.file_stem) == (shown, shown, stem)


def test_letter_case_and_what_the_defaults_say_make_no_other_name() -> None:
    names = {ModelName.parse(text) for text in ("Mario", "mario:LATEST", "registry.ollama.ai/library/MARIO:latest")}
    assert names == {ModelName.parse("mario")}
    assert ModelName.parse("mario") != ModelName.parse("mario:v2")
    assert ModelName.parse("mario") != "mario"


def test_a_name_too_long_for_a_file_gets_a_stem_of_its_own() -> None:
    long, other = (ModelName.parse(f"{'h' * 350}/{LONG}/{LONG}:{tag}") for tag in ("a", "b"))
    assert len(long.file_stem) <= 200
    assert long.file_stem != other.file_stem


_PART = st.text("Az09_-", min_size=1, max_size=20).filter(lambda text: text[0] != "-")


@given(host=_PART, namespace=_PART, model=_PART, tag=_PART)
def test_whatever_is_shown_is_read_as_the_same_name(host: str, namespace: str, model: str, tag: str) -> None:
    for text in (f"{host}/{namespace}/{model}:{tag}", f"{namespace}/{model}:{tag}", f"{model}:{tag}", model):
        name = ModelName.parse(text)
        assert ModelName.parse(name.shown) == ModelName.parse(name.full) == name
