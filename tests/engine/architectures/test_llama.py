"""What a Llama's header and tensors must say, and which of them its forward pass takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import N_EMBD, N_FF, N_HEAD, N_VOCAB, ModelFile, random_matrix, tiny_llama

from engine.architectures.llama import LlamaConfig, forward
from engine.errors import UnplayableModel
from engine.gguf import GGMLType, GGUFFile
from engine.graph import Forward
from engine.hparams import Header
from engine.weights import Weights


def config(tiny: ModelFile, **keys: Any) -> LlamaConfig:
    """What the header says with these keys changed (None: taken away), `__` for a dot."""
    metadata = tiny.metadata | {"llama." + name.replace("__", "."): value for name, value in keys.items()}
    return LlamaConfig.from_header(Header({k: v for k, v in metadata.items() if v is not None}, "llama"))


@contextmanager
def opened(model: ModelFile, path: Path) -> Iterator[tuple[Weights, Forward]]:
    with GGUFFile.open(model.write(path / "model.gguf")) as file:
        weights = Weights(file)
        yield weights, forward(LlamaConfig.from_header(Header(file.metadata, "llama")), weights)


def test_the_sizes_are_the_headers(tiny: ModelFile) -> None:
    found = config(tiny, attention__layer_norm_rms_epsilon=0.25)
    assert found == LlamaConfig(
        n_vocab=64,
        n_ctx_train=1000,
        n_embd=64,
        n_layer=2,
        n_ff=96,
        n_head=2,
        n_head_kv=1,
        head_size=32,
        n_rot=32,
        norm_eps=0.25,
        rope_freq_base=10000.0,
        rope_freq_scale=1.0,
        rope_neox=False,
    )


def test_what_the_header_leaves_out_has_llama_cpps_default(tiny: ModelFile) -> None:
    found = config(tiny, attention__head_count_kv=None)
    assert found.n_head_kv == found.n_head == 2
    assert found.rope_freq_base == 10000.0
    assert found.rope_freq_scale == 1.0
    assert found.head_size == found.n_embd // found.n_head == 32
    assert found.n_rot == found.head_size


def test_what_the_header_states_beats_the_default(tiny: ModelFile) -> None:
    keys = {"rope__freq_base": 500000.0, "rope__scaling__factor": 8.0, "rope__dimension_count": 16, "vocab_size": 99}
    found = config(tiny, attention__key_length=64, **keys)
    assert (found.head_size, found.n_rot, found.n_vocab) == (64, 16, 99)
    assert (found.rope_freq_base, found.rope_freq_scale) == (500000.0, 0.125)


def test_rotary_dimensions_follow_a_stated_head_size(tiny: ModelFile) -> None:
    assert config(tiny, attention__key_length=64).n_rot == 64


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
        ("attention__sliding_window", 4096, "it has sliding-window attention"),
        ("attention__scale", 0.5, "it sets its own attention scale"),
    ],
)
def test_what_this_architecture_does_not_do_is_refused(tiny: ModelFile, name: str, value: Any, reason: str) -> None:
    with pytest.raises(UnplayableModel, match=f"is set: {reason}, which is not played"):
        config(tiny, **{name: value})
    assert config(tiny, **{name: type(value)(0)}) == config(tiny)


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
