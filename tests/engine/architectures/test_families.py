"""What each family adds to the decoder they share, and that its files are read so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import UnplayableModel
from engine.gguf import GGUFFile, read_header
from engine.graph import Forward, plan
from engine.hparams import Header
from engine.model import _ARCHITECTURES, Model, ModelOptions, check_header
from engine.weights import Weights
from testing.gguf_writer import ModelFile, TensorData
from testing.oracles.small_models import BY_NAME


def model(name: str) -> ModelFile:
    return BY_NAME[name].file()


def opened(file: ModelFile, path: Path) -> Forward:
    with GGUFFile.open(file.write(path / "model.gguf")) as opened:
        family = _ARCHITECTURES[opened.metadata["general.architecture"]]
        return family.forward(family.read_config(Header(opened.metadata, family.name)), Weights(opened))


def logits(file: ModelFile, path: Path) -> bytes:
    model = Model.open(file.write(path / "model.gguf"), ModelOptions(n_threads=1))
    model.evaluate([5, 6, 7], 0, output=True)
    found = model.logits.tobytes()
    model.close()
    return found


def refused(file: ModelFile, path: Path, reason: str) -> None:
    with pytest.raises(UnplayableModel, match=reason):
        check_header(read_header(file.write(path / "model.gguf")), ModelOptions())


def biased(f: Forward) -> int:
    return sum(value.bias is not None for value in f.values)


def zeros(tensor: TensorData) -> TensorData:
    return TensorData(tensor.type, tensor.shape, bytes(len(tensor.data)))


@pytest.mark.parametrize(
    ("name", "n"), [("llama-f32", 0), ("llama-biases", 14), ("qwen2-f16", 6), ("qwen2-q4_1-untied", 7)]
)
def test_the_biases_of_the_file_are_taken(tmp_path: Path, name: str, n: int) -> None:
    file = model(name)
    assert sum(tensor.endswith(".bias") for tensor in file.tensors) == n
    assert biased(opened(file, tmp_path)) == n


@pytest.mark.parametrize("name", ["llama-biases", "qwen2-q4_1-untied", "qwen3-q4_1-biases"])
def test_a_bias_counts_and_one_of_zeros_is_none(tmp_path: Path, name: str) -> None:
    file = model(name)
    names = [tensor for tensor in file.tensors if tensor.endswith(".bias")]
    with_biases = logits(file, tmp_path)
    file.tensors |= {tensor: zeros(file.tensors[tensor]) for tensor in names}
    without = logits(file, tmp_path)
    for tensor in names:
        del file.tensors[tensor]
    assert logits(file, tmp_path) == without != with_biases


@pytest.mark.parametrize(
    ("name", "bias", "like"),
    [
        ("llama-f32", "output.bias", "output_norm.weight"),
        ("llama-f32", "blk.0.attn_norm.bias", "output_norm.weight"),
        ("qwen2-f16", "blk.0.attn_output.bias", "output_norm.weight"),
        ("qwen2-f16", "rope_freqs.weight", "output_norm.weight"),
        ("qwen3-f32", "blk.1.ffn_down.bias", "output_norm.weight"),
        ("qwen3-f32", "rope_freqs.weight", "output_norm.weight"),
        ("llama-f32", "blk.0.attn_q_norm.weight", "output_norm.weight"),
    ],
)
def test_a_tensor_that_llama_cpp_does_not_know_in_a_family_is_refused(
    tmp_path: Path, name: str, bias: str, like: str
) -> None:
    file = model(name)
    file.tensors[bias] = file.tensors[like]
    refused(file, tmp_path, f"^tensor {bias} is none that is played$")


def test_a_bias_of_another_length_is_refused(tmp_path: Path) -> None:
    file = model("qwen2-f16")
    file.tensors["blk.1.attn_k.bias"] = file.tensors["output_norm.weight"]
    refused(file, tmp_path, r"^tensor blk\.1\.attn_k\.bias has shape \[128\], not \[64\]$")


def test_a_qwen2_whose_heads_do_not_fill_its_rows_is_refused(tmp_path: Path) -> None:
    file = model("qwen2-f16")
    file.metadata |= {"qwen2.attention.key_length": 32, "qwen2.attention.value_length": 32}
    refused(file, tmp_path, "^2 heads of 32 do not make rows of 128$")


@pytest.mark.parametrize("name", ["attn_q_norm", "attn_k_norm"])
def test_a_qwen3_without_its_head_norms_is_refused(tmp_path: Path, name: str) -> None:
    file = model("qwen3-f32")
    del file.tensors[f"blk.0.{name}.weight"]
    refused(file, tmp_path, rf"^tensor blk\.0\.{name}\.weight is missing$")


def test_a_qwen3_norms_queries_and_keys_by_the_head_before_they_turn(tmp_path: Path) -> None:
    attention = [step for step in plan(opened(model("qwen3-q8_0"), tmp_path)) if step.op == "attention"]
    assert len(attention) == 2
    for step in attention:
        for norm in (step.q_norm, step.k_norm):
            assert norm is not None
            assert norm.norm is not None
            assert norm.norm.size == 128
            assert norm.scale == float(np.float32(2.0**-17))


def test_families_that_share_a_file_s_tensors_turn_other_pairs(tmp_path: Path) -> None:
    file = model("llama-f32")
    as_llama = logits(file, tmp_path)
    file.metadata = {name.replace("llama.", "qwen2."): value for name, value in file.metadata.items()}
    file.metadata["general.architecture"] = "qwen2"
    assert logits(file, tmp_path) != as_llama
