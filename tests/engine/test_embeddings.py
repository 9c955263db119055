"""Which rows make an embedding, in which pieces a text is read, and what the cache holds afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.embeddings import embed
from engine.errors import Cancelled, ContextOverflow, InputOverflow, InputTooLarge, InvalidRequest
from engine.kernels import mean_rows
from engine.model import Model, ModelOptions
from engine.pooling import Pooling
from testing.gguf_writer import ModelFile

TEXT = [5, 9, 17, 3, 3, 40, 8, 21, 60, 2]


@pytest.fixture
def model(tiny: ModelFile, tmp_path: Path) -> Iterator[Model]:
    """A small Llama that evaluates at most twelve tokens at once."""
    model = Model.open(tiny.write(tmp_path / "model.gguf"), ModelOptions(n_threads=2, n_batch=24, n_ubatch=12))
    yield model
    model.close()


def test_without_pooling_there_is_a_row_a_token(model: Model) -> None:
    rows = embed(model, TEXT, Pooling.NONE, cached=[])
    assert rows.shape == (len(TEXT), model.n_embd)
    assert rows.tobytes() == model.rows(TEXT, 0).tobytes()


@pytest.mark.parametrize(("pooling", "row"), [(Pooling.CLS, 0), (Pooling.LAST, -1)])
def test_one_row_stands_for_the_text(model: Model, pooling: Pooling, row: int) -> None:
    rows = embed(model, TEXT, Pooling.NONE, cached=[])
    assert embed(model, TEXT, pooling, cached=[]).tobytes() == rows[row].tobytes()


def test_the_mean_is_over_all_rows(model: Model) -> None:
    rows = embed(model, TEXT, Pooling.NONE, cached=[])
    assert embed(model, TEXT, Pooling.MEAN, cached=[]).tobytes() == mean_rows("", rows).tobytes()


def test_without_a_classifier_a_rank_is_the_first_number_of_the_first_row(model: Model) -> None:
    rows = embed(model, TEXT, Pooling.NONE, cached=[])
    assert embed(model, TEXT, Pooling.RANK, cached=[]).tobytes() == rows[0, :1].tobytes()


def test_the_text_stays_in_the_cache_for_what_comes_next(model: Model) -> None:
    cached = [1, 2, 3]
    embed(model, TEXT, Pooling.MEAN, cached=cached)
    assert cached == TEXT
    model.evaluate([7], len(cached), output=True)
    after = model.logits.tobytes()
    model.evaluate(TEXT, 0, output=False)
    model.evaluate([7], len(TEXT), output=True)
    assert after == model.logits.tobytes()


def test_a_long_text_is_read_in_pieces_where_its_last_row_counts(model: Model) -> None:
    text = TEXT * 4
    for start in (0, 12, 24):
        model.evaluate(text[start : start + 12], start, output=False)
    expected = model.rows(text[36:], 36)[-1].tobytes()
    cached: list[int] = []
    assert embed(model, text, Pooling.LAST, cached=cached).tobytes() == expected
    assert cached == text


def test_what_is_cached_of_a_text_is_not_read_again_where_its_last_row_counts(model: Model) -> None:
    model.evaluate(TEXT, 0, output=False)
    expected = model.rows([7, 7], len(TEXT))[-1].tobytes()
    cached = [*TEXT, 50]
    assert embed(model, [*TEXT, 7, 7], Pooling.LAST, cached=cached, n_past=len(TEXT)).tobytes() == expected
    assert cached == [*TEXT, 7, 7]


@pytest.mark.parametrize("pooling", [Pooling.NONE, Pooling.MEAN, Pooling.CLS, Pooling.RANK])
def test_other_poolings_need_the_text_at_once(model: Model, pooling: Pooling) -> None:
    cached = [1, 2]
    with pytest.raises(InputTooLarge, match=r"input \(13 tokens\) is too large .* \(current batch size: 12\)"):
        embed(model, TEXT + TEXT[:3], pooling, cached=cached)
    assert cached == [1, 2]


def test_a_text_may_fill_the_context_but_for_the_last_rows_pooling(tiny: ModelFile, tmp_path: Path) -> None:
    model = Model.open(tiny.write(tmp_path / "model.gguf"), ModelOptions(n_ctx=256))
    text = [5] * 256
    assert embed(model, text, Pooling.CLS, cached=[]).shape == (model.n_embd,)
    with pytest.raises(ContextOverflow, match=r"request \(256 tokens\) exceeds"):
        embed(model, text, Pooling.LAST, cached=[])
    with pytest.raises(InputTooLarge, match=r"input \(257 tokens\) .* \(current batch size: 256\)"):
        embed(model, [*text, 5], Pooling.CLS, cached=[])
    model.close()


def test_a_text_may_not_use_the_cells_past_what_the_model_was_trained_for(tiny: ModelFile, tmp_path: Path) -> None:
    model = Model.open(tiny.write(tmp_path / "model.gguf"), ModelOptions(n_ubatch=2048))
    assert (model.n_ctx, model.n_ubatch) == (1000, 1024)
    with pytest.raises(
        InputOverflow, match=r"input \(1001 tokens\) is larger than the max context size \(1000 tokens\)"
    ):
        embed(model, [5] * 1001, Pooling.CLS, cached=[])
    model.close()


@pytest.mark.parametrize(("text", "reason"), [([], "cannot be empty"), ([64], "invalid tokens"), ([-1], "invalid")])
def test_a_text_that_is_none_is_refused(model: Model, text: list[int], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        embed(model, text, Pooling.MEAN, cached=[])


def test_a_reader_who_leaves_stops_it_before_the_next_piece(model: Model) -> None:
    answers = iter([False, True])
    cached: list[int] = []
    with pytest.raises(Cancelled):
        embed(model, TEXT * 4, Pooling.LAST, cached=cached, cancelled=lambda: next(answers))
    assert cached == (TEXT * 4)[:12]


def test_both_builds_of_the_kernels_embed_alike(tiny: ModelFile, tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "model.gguf")
    found = []
    for isa in ("", "portable"):
        model = Model.open(path, ModelOptions(n_threads=2, isa=isa))
        found.append([embed(model, TEXT * 7, pooling, cached=[]).tobytes() for pooling in Pooling])
        model.close()
    assert found[0] == found[1]
