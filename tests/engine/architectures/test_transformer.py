"""What a decoder's header and tensors must say, and which of them its forward pass takes, in what order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import N_EMBD, N_FF, N_HEAD, N_VOCAB, random_matrix, tiny_llama

from engine.architectures.llama import forward
from engine.architectures.transformer import TransformerConfig
from engine.errors import UnplayableModel
from engine.gguf import GGMLType, GGUFFile
from engine.graph import Forward
from engine.hparams import Header, RopeScaling
from engine.weights import Weights
from testing.gguf_writer import ModelFile


def config(tiny: ModelFile, **keys: Any) -> TransformerConfig:
    """What the header says with these keys changed (None: taken away), `__` for a dot."""
    metadata = tiny.metadata | {"llama." + name.replace("__", "."): value for name, value in keys.items()}
    return TransformerConfig.from_header(Header({k: v for k, v in metadata.items() if v is not None}, "llama"))


@contextmanager
def opened(model: ModelFile, path: Path) -> Iterator[tuple[Weights, Forward]]:
    with GGUFFile.open(model.write(path / "model.gguf")) as file:
        weights = Weights(file)
        yield weights, forward(TransformerConfig.from_header(Header(file.metadata, "llama")), weights)


def test_the_sizes_are_the_headers(tiny: ModelFile) -> None:
    found = config(tiny, attention__layer_norm_rms_epsilon=0.25)
    assert found == TransformerConfig(
        n_vocab=64,
        n_ctx_train=1000,
        n_embd=64,
        n_layer=2,
        n_ff=96,
        n_head=2,
        n_head_kv=1,
        head_size=32,
        norm_eps=0.25,
        rope=RopeScaling(n_ctx_orig=1000),
    )


def test_what_the_header_leaves_out_has_llama_cpps_default(tiny: ModelFile) -> None:
    found = config(tiny, attention__head_count_kv=None)
    assert found.n_head_kv == found.n_head == 2
    assert found.head_size == found.n_embd // found.n_head == 32


def test_what_the_header_states_beats_the_default(tiny: ModelFile) -> None:
    keys = {"attention__key_length": 64, "attention__value_length": 64, "rope__dimension_count": 64}
    assert config(tiny, **keys).head_size == 64
    assert config(tiny, rope__freq_base=500000.0, rope__scaling__factor=8.0).rope == RopeScaling(
        500000.0, 0.125, False, 1000
    )


@pytest.mark.parametrize("name", ["attention.head_count", "attention.head_count_kv", "feed_forward_length"])
def test_what_may_differ_by_layer_must_not(tiny: ModelFile, name: str) -> None:
    value = tiny.metadata["llama." + name]
    key = name.replace(".", "__")
    assert config(tiny, **{key: np.array([value, value])}) == config(tiny)
    with pytest.raises(UnplayableModel, match=rf"^llama\.{name} is not the same for all layers"):
        config(tiny, **{key: np.array([value, 2 * value])})


@pytest.mark.parametrize(
    "name",
    [
        *("context_length", "embedding_length", "block_count", "feed_forward_length"),
        *("attention.head_count", "attention.layer_norm_rms_epsilon"),
    ],
)
def test_a_header_without_a_key_that_has_no_default_is_refused(tiny: ModelFile, name: str) -> None:
    with pytest.raises(UnplayableModel, match=rf"^llama\.{name} is not a"):
        config(tiny, **{name.replace(".", "__"): None})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("expert_count", 8, "it is a mixture of experts"),
        ("expert_used_count", 2, "it is a mixture of experts"),
        ("expert_group_count", 2, "it is a mixture of experts"),
        ("nextn_predict_layers", 1, "it predicts several tokens at once"),
    ],
)
def test_what_is_not_done_is_refused(tiny: ModelFile, name: str, value: Any, reason: str) -> None:
    with pytest.raises(UnplayableModel, match=f"^llama.{name} is set: {reason}, which is not played$"):
        config(tiny, **{name: value})
    assert config(tiny, **{name: type(value)(0)}) == config(tiny)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"attention__causal": False}, "attention.causal is False, not True"),
        ({"attention__value_length": 64}, "attention.value_length is 64, not 32"),
        ({"attention__key_length": 64}, "attention.value_length is 32, not 64"),
        ({"rope__dimension_count": 16}, "rope.dimension_count is 16, not 32"),
        ({"rope__scaling__type": "longrope"}, "rope.scaling.type is 'longrope'"),
    ],
)
def test_what_llama_cpp_refuses_too_is_refused(tiny: ModelFile, keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnplayableModel, match=f"^llama.{reason}"):
        config(tiny, **keys)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attention__sliding_window", 4096),
        ("attention__scale", 0.5),
        ("attention__clamp_kqv", 8.0),
        ("logit_scale", 2.0),
        ("embedding_scale", 12.0),
        ("residual_scale", 0.25),
        ("rope__scaling__yarn_log_multiplier", 0.5),
        ("rope__scaling__yarn_ext_factor", 0.5),
        ("rope__dimension_sections", [1, 2, 3, 4]),
        ("vocab_size", 99),
    ],
)
def test_what_llama_cpp_does_not_read_for_these_architectures_changes_nothing(
    tiny: ModelFile, name: str, value: Any
) -> None:
    assert config(tiny, **{name: value}) == config(tiny)


@pytest.mark.parametrize(
    ("value", "pooling"),
    [(None, "none"), (-1, "none"), (0, "none"), (1, "mean"), (2, "cls"), (3, "last"), (4, "rank")],
)
def test_the_file_says_how_rows_are_pooled(tiny: ModelFile, value: int | None, pooling: str) -> None:
    keys = {} if value is None else {"pooling_type": value}
    assert config(tiny, **keys).pooling == pooling


@pytest.mark.parametrize("value", [5, -2, "mean"])
def test_a_pooling_nobody_knows_is_refused(tiny: ModelFile, value: Any) -> None:
    with pytest.raises(UnplayableModel, match=r"pooling_type is not a number from 0 to 4"):
        config(tiny, pooling_type=value)


def test_a_classifier_has_a_score_a_label_or_one(tiny: ModelFile) -> None:
    assert config(tiny).n_labels == 1
    assert config(tiny, classifier__output_labels=["yes", "no"]).n_labels == 2
    with pytest.raises(UnplayableModel, match="output_labels is not an array of strings"):
        config(tiny, classifier__output_labels=7)


@pytest.mark.parametrize("name", list(tiny_llama().tensors))
def test_a_file_without_one_of_its_tensors_is_refused(tiny: ModelFile, tmp_path: Path, name: str) -> None:
    del tiny.tensors[name]
    with pytest.raises(UnplayableModel, match=f"^tensor {name} is missing$"), opened(tiny, tmp_path):
        pass


@pytest.mark.parametrize("name", [name for name in tiny_llama().tensors if "norm" not in name])
def test_a_matrix_of_another_shape_is_refused(tiny: ModelFile, tmp_path: Path, name: str) -> None:
    cols, rows = tiny.tensors[name].shape
    tiny.tensors[name] = random_matrix(GGMLType.F32, rows + 32, cols, np.random.default_rng(0))
    wanted = rf"^tensor {name} has shape \[{cols}, {rows + 32}\], not \[{cols}, {rows}\]$"
    with pytest.raises(UnplayableModel, match=wanted), opened(tiny, tmp_path):
        pass


def test_every_tensor_of_the_file_is_taken_once_and_the_embedding_twice_when_tied(
    tiny: ModelFile, tmp_path: Path
) -> None:
    with opened(tiny, tmp_path) as (weights, f):
        matrices = [id(value.weight) for value in f.values if value.weight is not None]
        norms = [value.norm for value in f.values if value.norm is not None]
        assert len(matrices) == len(set(matrices)) + 1
        assert len(set(matrices)) + len(norms) == len(tiny.tensors)
        embedding = weights.matrix("token_embd.weight", N_VOCAB, N_EMBD)
        assert f.values[0].weight is f.values[-1].weight is embedding


def test_a_file_with_an_output_matrix_uses_it(tiny: ModelFile, tmp_path: Path) -> None:
    tiny.tensors["output.weight"] = random_matrix(GGMLType.F16, N_VOCAB, N_EMBD, np.random.default_rng(0))
    with opened(tiny, tmp_path) as (weights, f):
        assert f.values[0].weight is weights.matrix("token_embd.weight", N_VOCAB, N_EMBD)
        assert f.values[-1].weight is weights.matrix("output.weight", N_VOCAB, N_EMBD)


def test_an_output_matrix_of_another_shape_is_refused(tiny: ModelFile, tmp_path: Path) -> None:
    tiny.tensors["output.weight"] = random_matrix(GGMLType.F16, N_VOCAB, N_FF, np.random.default_rng(0))
    with pytest.raises(UnplayableModel, match=r"^tensor output\.weight has shape"), opened(tiny, tmp_path):
        pass


def test_past_the_last_attention_only_the_last_row_goes_on(tiny: ModelFile, tmp_path: Path) -> None:
    with opened(tiny, tmp_path) as (_, f):
        ops = [value.op for value in f.values]
        assert ops.count("last_row") == 1
        at = ops.index("last_row")
        assert ops.index("attention") < len(ops) - 1 - ops[::-1].index("attention") < at
        assert [value.single for value in f.values] == [False] * at + [True] * (len(ops) - at)


def test_attention_is_scaled_by_the_head_size_in_single_precision(tiny: ModelFile, tmp_path: Path) -> None:
    with opened(tiny, tmp_path) as (_, f):
        attentions = [value for value in f.values if value.op == "attention"]
    assert [(value.layer, value.n_head) for value in attentions] == [(0, N_HEAD), (1, N_HEAD)]
    assert {value.scale for value in attentions} == {float(np.float32(1) / np.sqrt(np.float32(32)))}
