"""registry/catalog.py: the names a model answers to."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from registry.catalog import Catalog, base_name, entry_of
from registry.errors import ModelFileChanged, ModelFileError, ModelNotFound
from registry.pins import sha256_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Tiny-1B-Chat.Q4_K_M.gguf"
    path.write_bytes(b"GGUF tiny")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "tiny-1b-chat.q4_k_m",
        "Tiny-1B-Chat.Q4_K_M",
        "tiny-1b-chat.q4_k_m:latest",
        "Tiny-1B-Chat.Q4_K_M.gguf",
        "tiny-1b-chat.q4_k_m.gguf:latest",
        "tiny-1b-chat",
        "TINY-1B-CHAT:LATEST",
        "house",
        "House:latest",
    ],
)
def test_a_model_answers_to_its_stem_file_name_base_and_aliases_in_any_case(file: Path, name: str) -> None:
    catalog = Catalog.of_file(file, aliases=["House"])
    assert catalog.resolve(name) is catalog.default


@pytest.mark.parametrize("name", [None, ""])
def test_no_name_means_the_default(file: Path, name: str | None) -> None:
    catalog = Catalog.of_file(file)
    assert catalog.resolve(name) is catalog.default


@pytest.mark.parametrize("name", ["tiny", "tiny-1b-chat.q8_0", "tiny-1b-chat:7b", " ", ":latest"])
def test_another_name_is_not_found_in_ollamas_words(file: Path, name: str) -> None:
    with pytest.raises(ModelNotFound, match=f"^model '{name}' not found$"):
        Catalog.of_file(file).resolve(name)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("bonsai-1.7b-q1_0", "bonsai-1.7b"),
        ("gen39-q2_0_g64", "gen39"),
        ("smollm2-135m-instruct.q4_1", "smollm2-135m-instruct"),
        ("m-iq2_xxs", "m"),
        ("m-bf16", "m"),
        ("m.f32", "m"),
        ("qwen3-0.6b", "qwen3-0.6b"),
        ("q4_1", "q4_1"),
    ],
)
def test_the_base_name_has_no_weight_type(name: str, base: str) -> None:
    assert base_name(name) == base


def test_a_models_own_name_beats_anothers_alias(tmp_path: Path) -> None:
    first, second = tmp_path / "m-f16.gguf", tmp_path / "m.gguf"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    catalog = Catalog([entry_of(first), entry_of(second)])
    assert catalog.default.path == first
    assert catalog.resolve("m").path == second


def test_the_entry_says_what_the_file_is(file: Path) -> None:
    os.utime(file, ns=(0, 1_700_000_000_000_000_000))
    entry = Catalog.of_file(file).default
    assert (entry.name, entry.path, entry.size) == ("tiny-1b-chat.q4_k_m", file, 9)
    assert entry.sha256 == hashlib.sha256(b"GGUF tiny").hexdigest()
    assert entry.modified_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_the_default_model_answers_to_its_short_names(model_path: Path) -> None:
    catalog = Catalog.of_file(model_path)
    for name in ("smollm2", "smollm2:135m", "SmolLM2:latest", "smollm2-135m-instruct"):
        assert catalog.resolve(name) is catalog.default


def test_a_file_that_changed_after_it_was_hashed_is_refused(file: Path) -> None:
    digest = sha256_file(file)
    file.write_bytes(b"GGUF other")
    with pytest.raises(ModelFileChanged):
        Catalog.of_file(file, digest=digest)


def test_a_check_sees_a_changed_and_a_missing_file(file: Path) -> None:
    entry = Catalog.of_file(file).default
    entry.check()
    entry.verify()
    file.write_bytes(b"GGUF tinY!")
    with pytest.raises(ModelFileChanged):
        entry.check()
    with pytest.raises(ModelFileChanged):
        entry.verify()
    file.unlink()
    with pytest.raises(ModelFileError):
        entry.check()


def test_a_touched_file_with_the_same_bytes_is_verified_by_its_bytes(file: Path) -> None:
    entry = Catalog.of_file(file).default
    os.utime(file, ns=(0, 0))
    with pytest.raises(ModelFileChanged):
        entry.check()
    entry.check(entry.verify())


def test_a_catalog_is_never_empty() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Catalog([])
