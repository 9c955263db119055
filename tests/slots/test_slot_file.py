"""The slot on disk: what is written comes back, and nothing else is taken for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.generation import GenerationRequest, generate
from engine.model import Model, ModelOptions
from engine.sampling import SamplingParams
from slots.slot import Slot, SlotOptions
from slots.slot_file import MAGIC, SlotFileRefused, SlotFolder, is_valid_name

SHA256 = "ab" * 32
PROMPT = [1, 500, 900, 42, 7, 1000]
NAME = "a.bin"


def options(n_ctx: int = 256, cache_type: str = "f16") -> ModelOptions:
    return ModelOptions(n_ctx=n_ctx, n_threads=1, cache_type_k=cache_type, cache_type_v=cache_type)


@pytest.fixture(scope="module", params=["f16", "q8_0"])
def model(model_path: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    model = Model.open(model_path, options(cache_type=request.param))
    yield model
    model.close()


@pytest.fixture
def folder(tmp_path: Path) -> SlotFolder:
    return SlotFolder(tmp_path / "slots")


def answer(model: Model, slot: Slot, prompt: list[int]) -> list[int]:
    n_past = slot.reuse(prompt)
    request = GenerationRequest(prompt, SamplingParams(temperature=0), n_predict=4)
    return [step.token or 0 for step in generate(model, request, tokens=slot.tokens, n_past=n_past)]


@pytest.fixture
def slot(model: Model) -> Slot:
    slot = SlotOptions().slot_of(model)
    answer(model, slot, PROMPT)
    return slot


def damaged(folder: SlotFolder, data: bytes) -> None:
    (folder.path / NAME).write_bytes(data)


def test_a_saved_slot_comes_back_and_answers_alike(model: Model, folder: SlotFolder, slot: Slot) -> None:
    tokens = list(slot.tokens)
    n_bytes = folder.save(NAME, model, SHA256, slot)
    assert n_bytes == (folder.path / NAME).stat().st_size
    follow_up = [*tokens, 77, 78]
    expected = answer(model, slot, follow_up)
    answer(model, slot, [9] * 20)
    assert folder.restore(NAME, model, SHA256, slot) == n_bytes
    assert slot.tokens == tokens
    assert slot.reuse(follow_up) == len(tokens)
    assert answer(model, slot, follow_up) == expected


def test_an_empty_slot_is_saved_and_comes_back_empty(model: Model, folder: SlotFolder, slot: Slot) -> None:
    folder.save(NAME, model, SHA256, Slot())
    folder.restore(NAME, model, SHA256, slot)
    assert slot.tokens == []


def test_a_file_that_is_there_is_replaced_whole(model: Model, folder: SlotFolder, slot: Slot) -> None:
    damaged(folder, MAGIC + b"x" * 10_000_000)
    folder.save(NAME, model, SHA256, slot)
    folder.restore(NAME, model, SHA256, slot)
    assert os.listdir(folder.path) == [NAME]


def test_what_is_no_slot_file_is_not_replaced(model: Model, folder: SlotFolder, slot: Slot) -> None:
    damaged(folder, b"somebody's text")
    with pytest.raises(SlotFileRefused, match="not a slot file"):
        folder.save(NAME, model, SHA256, slot)
    assert (folder.path / NAME).read_bytes() == b"somebody's text"


@pytest.mark.parametrize("at", [0, 14, 15, 50, 64, 80, 500, -200, -60, -40, -1])
def test_a_flipped_bit_is_found_anywhere(model: Model, folder: SlotFolder, slot: Slot, at: int) -> None:
    folder.save(NAME, model, SHA256, slot)
    data = bytearray((folder.path / NAME).read_bytes())
    data[at] ^= 129
    damaged(folder, bytes(data))
    with pytest.raises(SlotFileRefused):
        folder.restore(NAME, model, SHA256, slot)
    assert slot.tokens == []


@pytest.mark.parametrize("n", [0, 1, 14, 15, 60, 90, 1000, -1])
def test_a_file_cut_at_any_length_is_refused(model: Model, folder: SlotFolder, slot: Slot, n: int) -> None:
    folder.save(NAME, model, SHA256, slot)
    damaged(folder, (folder.path / NAME).read_bytes()[:n])
    with pytest.raises(SlotFileRefused):
        folder.restore(NAME, model, SHA256, slot)
    assert slot.tokens == []


def test_bytes_after_the_end_are_refused(model: Model, folder: SlotFolder, slot: Slot) -> None:
    folder.save(NAME, model, SHA256, slot)
    damaged(folder, (folder.path / NAME).read_bytes() + b"\0")
    with pytest.raises(SlotFileRefused, match="longer or shorter"):
        folder.restore(NAME, model, SHA256, slot)


def test_a_count_of_tokens_past_the_context_is_refused_before_memory_is_taken(
    model: Model, folder: SlotFolder, slot: Slot
) -> None:
    folder.save(NAME, model, SHA256, slot)
    data = bytearray((folder.path / NAME).read_bytes())
    at = 15 + 32 + 4 * 4 + 16
    data[at : at + 4] = b"\xff" * 4
    damaged(folder, bytes(data))
    with pytest.raises(SlotFileRefused, match="more tokens than the context"):
        folder.restore(NAME, model, SHA256, slot)


def test_tokens_outside_the_vocabulary_are_refused(model: Model, folder: SlotFolder, slot: Slot) -> None:
    slot.tokens[0] = model.n_vocab
    folder.save(NAME, model, SHA256, slot)
    with pytest.raises(SlotFileRefused, match="vocabulary"):
        folder.restore(NAME, model, SHA256, slot)


def test_a_file_of_another_model_is_refused(model: Model, folder: SlotFolder, slot: Slot) -> None:
    folder.save(NAME, model, SHA256, slot)
    with pytest.raises(SlotFileRefused, match="another model"):
        folder.restore(NAME, model, "cd" * 32, slot)
    assert slot.tokens == []


@pytest.mark.parametrize(
    ("other", "reason"), [(options(512), "context of 256"), (options(256, "q8_0"), "cache types are f16/f16")]
)
def test_a_file_of_another_context_or_cache_is_refused(
    model_path: Path, folder: SlotFolder, other: ModelOptions, reason: str
) -> None:
    for model_options, saves in ((options(), True), (other, False)):
        model = Model.open(model_path, model_options)
        slot = SlotOptions().slot_of(model)
        if saves:
            folder.save(NAME, model, SHA256, slot)
        else:
            with pytest.raises(SlotFileRefused, match=reason):
                folder.restore(NAME, model, SHA256, slot)
        model.close()


def test_no_link_is_followed_and_no_pipe_waited_for(
    model: Model, folder: SlotFolder, slot: Slot, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.bin"
    SlotFolder(tmp_path).save(outside.name, model, SHA256, slot)
    saved = hashlib.sha256(outside.read_bytes()).digest()
    (folder.path / "link").symlink_to(outside)
    os.mkfifo(folder.path / "pipe")
    (folder.path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(SlotFileRefused):
            folder.restore(name, model, SHA256, slot)
        with pytest.raises(SlotFileRefused):
            folder.save(name, model, SHA256, slot)
    assert hashlib.sha256(outside.read_bytes()).digest() == saved


def test_a_file_that_is_not_there_empties_the_slot(model: Model, folder: SlotFolder, slot: Slot) -> None:
    with pytest.raises(SlotFileRefused, match="No such file"):
        folder.restore("missing.bin", model, SHA256, slot)
    assert slot.tokens == []


def test_the_folder_is_made_and_what_a_killed_save_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    SlotFolder(path)
    (path / ".slot-x1.part").write_bytes(b"half")
    running, folder = f".slot-{os.getpid()}-x.part", ".slot-y.part"
    (path / running).write_bytes(b"another server's")
    (path / folder).mkdir()
    (path / "kept.bin").write_bytes(b"whole")
    SlotFolder(path)
    assert sorted(os.listdir(path)) == sorted([running, folder, "kept.bin"])


@pytest.mark.parametrize("name", ["a", "a.bin", "ü b", "x" * 255, "-", ".a", "~", "a\u00a0"])
def test_a_plain_name_is_valid(name: str) -> None:
    assert is_valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 256, "ü" * 128, ".", "..", "a..b", "a.", " a", "a ", "a/b", "/a", "a\\b", "a:b", "a*", "a?"),
        *('"', "<", ">", "|", "a\0", "a\n", "\x7f", "\x85", "\uff0e", "\u2215", "\u2216", "\ufffd", "\ufeff"),
        *("\ud800", "../a", ".slot-1-x.part"),
    ],
)
def test_a_name_that_could_be_more_than_a_name_is_not(name: str) -> None:
    assert not is_valid_name(name)
