"""A model opened: its context, its logits, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import HEAD_SIZE, N_EMBD, N_HEAD_KV, N_LAYER, N_VOCAB, TOKENS, random_matrix
from tiny_model import N_CTX_TRAIN as N_CTX_TINY

from engine.errors import EngineError, InvalidModelFile, InvalidRequest, ModelFileLost, UnplayableModel
from engine.gguf import GGMLType, read_header
from engine.kernels import isa
from engine.model import Model, ModelOptions, check_header
from testing.gguf_writer import ModelFile, floats

N_CTX_TRAIN = 8192


@pytest.mark.parametrize(
    ("asked", "given"), [(0, N_CTX_TRAIN), (1, 256), (257, 512), (N_CTX_TRAIN, N_CTX_TRAIN), (10**8, N_CTX_TRAIN)]
)
def test_the_context_is_rounded_up_and_no_longer_than_the_model_was_trained_for(
    model_path: Path, asked: int, given: int
) -> None:
    model = Model.open(model_path, ModelOptions(n_ctx=asked, n_threads=1))
    assert (model.n_ctx, model.n_ctx_train) == (given, N_CTX_TRAIN)
    model.close()


OPEN_WITH_LITTLE_ROOM = """
import resource, sys
from engine.errors import EngineError
from engine.model import Model, ModelOptions
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    Model.open(sys.argv[1], ModelOptions(n_ctx=256, n_threads=100_000))
except EngineError as error:
    print(error)
"""


def test_more_threads_than_the_system_starts_are_an_error_and_no_crash(model_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_WITH_LITTLE_ROOM, str(model_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("100000 threads cannot be started: ")


# --- a small model ------------------------------------------------------------------------------------------------

PROMPT = [(7 * i + 3) % N_VOCAB for i in range(19)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tiny.gguf"


def logits(path: Path, **options: Any) -> list[bytes]:
    """The logits after a prompt and after each of three tokens that follow it."""
    model = Model.open(path, ModelOptions(**{"n_threads": 2, **options}))
    found = []
    for position, tokens in ((0, PROMPT), (19, [1]), (20, [63]), (21, [0])):
        model.evaluate(tokens, position, output=True)
        assert np.isfinite(model.logits).all()
        found.append(model.logits.tobytes())
    model.close()
    return found


def refused(file: ModelFile, path: Path, reason: str, **options: Any) -> None:
    with pytest.raises(UnplayableModel, match=reason):
        Model.open(file.write(path), ModelOptions(**options))


def untied(tiny: ModelFile, kind: GGMLType) -> ModelFile:
    tiny.tensors["output.weight"] = random_matrix(kind, N_VOCAB, N_EMBD, np.random.default_rng(1))
    return tiny


def test_plain_c_gives_the_logits_of_the_fast_path(tiny: ModelFile, path: Path) -> None:
    tiny.write(path)
    assert logits(path, isa="portable") == logits(path, isa=isa())


@pytest.mark.parametrize("kind", [GGMLType.F32, GGMLType.F16, GGMLType.BF16, GGMLType.Q4_1, GGMLType.Q8_0])
def test_plain_c_gives_the_logits_of_the_fast_path_with_an_output_matrix(
    tiny: ModelFile, path: Path, kind: GGMLType
) -> None:
    tied = logits(tiny.write(path))
    untied(tiny, kind).write(path)
    found = logits(path, isa="portable")
    assert found == logits(path, isa=isa())
    assert found != tied


def test_an_output_matrix_equal_to_the_embedding_is_a_tied_one(tiny: ModelFile, path: Path) -> None:
    tied = logits(tiny.write(path))
    tiny.tensors["output.weight"] = tiny.tensors["token_embd.weight"]
    assert logits(tiny.write(path)) == tied


def test_the_thread_count_changes_no_logit(tiny: ModelFile, path: Path) -> None:
    tiny.write(path)
    assert logits(path, n_threads=1) == logits(path, n_threads=3)


def test_stating_the_defaults_changes_no_logit(tiny: ModelFile, path: Path) -> None:
    left_out = logits(tiny.write(path))
    tiny.metadata |= {
        "llama.attention.key_length": HEAD_SIZE,
        "llama.rope.dimension_count": HEAD_SIZE,
        "llama.rope.freq_base": 10000.0,
        "llama.vocab_size": N_VOCAB,
        "llama.expert_count": 0,
    }
    assert logits(tiny.write(path)) == left_out


def test_rotary_factors_divide_the_angles(tiny: ModelFile, path: Path) -> None:
    plain = logits(tiny.write(path))
    tiny.tensors["rope_freqs.weight"] = floats([1.0] * (HEAD_SIZE // 2))
    assert logits(tiny.write(path)) == plain
    tiny.tensors["rope_freqs.weight"] = floats([2.0] * (HEAD_SIZE // 2))
    halved = logits(tiny.write(path))
    assert halved != plain
    del tiny.tensors["rope_freqs.weight"]
    tiny.metadata["llama.rope.scaling.factor"] = 2.0  # a power of two: the same bits
    assert logits(tiny.write(path)) == halved


def test_rotary_factors_that_are_not_one_a_pair_are_refused(tiny: ModelFile, path: Path) -> None:
    tiny.tensors["rope_freqs.weight"] = floats([1.0] * HEAD_SIZE)
    refused(tiny, path, r"^tensor rope_freqs\.weight has shape \[32\], not \[16\]$")


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 1000), (1, 256), (256, 256), (257, 512), (999, 1000), (1000, 1000), (10**8, 1000)]
)
def test_the_context_ends_where_training_did_though_its_cells_are_whole_256s(
    tiny: ModelFile, path: Path, asked: int, given: int
) -> None:
    model = Model.open(tiny.write(path), ModelOptions(n_ctx=asked, n_threads=1))
    assert (model.n_ctx, model.n_ctx_train) == (given, N_CTX_TINY)
    model.evaluate([1], given - 1, output=True)
    with pytest.raises(IndexError, match="context"):
        model.evaluate([1], -(-given // 256) * 256, output=True)
    model.close()


def test_a_model_says_what_its_file_holds(tiny: ModelFile, path: Path) -> None:
    model = Model.open(tiny.write(path))
    assert (model.n_vocab, model.n_embd, model.n_layer, model.architecture) == (64, 64, 2, "llama")
    assert model.size == sum(len(tensor.data) for tensor in tiny.tensors.values())
    assert model.n_params == 64 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64 + 2 * 64) + 64
    assert model.tokenizer.encode("abc b") == [TOKENS.index(text) for text in ("ab", "c", "Ġ", "b")]
    assert model.logits.shape == (64,)
    model.close()


@pytest.mark.parametrize("n_left", [0, 4096, 50_000])
def test_a_file_that_is_cut_while_it_is_in_use_ends_the_evaluation(tiny: ModelFile, path: Path, n_left: int) -> None:
    model = Model.open(tiny.write(path), ModelOptions(n_threads=2))
    model.evaluate(PROMPT, 0, output=True)
    os.truncate(path, n_left)
    for _ in range(2):
        with pytest.raises(ModelFileLost, match=r"tiny\.gguf' changed while it was in use$"):
            model.evaluate([1], len(PROMPT), output=True)
    with pytest.raises(ModelFileLost):
        model.check_intact()
    model.close()


@pytest.mark.parametrize("token", [-1, N_VOCAB, 2**31 - 1])
def test_a_token_outside_the_vocabulary_is_refused(tiny: ModelFile, path: Path, token: int) -> None:
    model = Model.open(tiny.write(path), ModelOptions(n_threads=1))
    with pytest.raises(InvalidRequest, match="a token is not in the vocabulary"):
        model.evaluate([1, token], 0, output=True)
    model.close()


@pytest.mark.parametrize("name", ["gemma3", "", 3, None])
def test_an_unknown_architecture_is_refused(tiny: ModelFile, path: Path, name: Any) -> None:
    del tiny.metadata["general.architecture"]
    if name is not None:
        tiny.metadata["general.architecture"] = name
    refused(tiny, path, rf"^general\.architecture is {name!r}, which is not played$")


@pytest.mark.parametrize("listed", [63, 65])
def test_a_vocabulary_of_another_size_than_the_embeddings_is_refused(tiny: ModelFile, path: Path, listed: int) -> None:
    tiny.metadata["tokenizer.ggml.tokens"] = [*TOKENS[:62], *"+-*"][:listed]
    tiny.metadata["tokenizer.ggml.token_type"] = [3] + [1] * (listed - 1)
    refused(tiny, path, rf"^tensor token_embd\.weight has shape \[64, 64\], not \[64, {listed}\]$")


def test_a_file_without_a_vocabulary_is_invalid(tiny: ModelFile, path: Path) -> None:
    del tiny.metadata["tokenizer.ggml.tokens"]
    with pytest.raises(InvalidModelFile, match=r"tokenizer\.ggml\.tokens is missing"):
        Model.open(tiny.write(path))


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"attention.key_length": 36, "attention.value_length": 36}, "attention heads have 36 dimensions"),
        ({"attention.key_length": 520, "attention.value_length": 520}, "attention heads have 520 dimensions"),
        ({"attention.head_count": 128}, "attention heads have 0 dimensions, which is not played"),
        ({"attention.head_count_kv": 3}, "2 heads do not share 3 key/value heads evenly"),
        ({"attention.head_count_kv": 4}, "2 heads do not share 4 key/value heads evenly"),
        ({"expert_count": 4}, r"llama\.expert_count is set"),
    ],
)
def test_sizes_that_are_not_played_are_refused(tiny: ModelFile, path: Path, keys: dict[str, int], reason: str) -> None:
    tiny.metadata |= {f"llama.{name}": value for name, value in keys.items()}
    refused(tiny, path, f"^{reason}")


@pytest.mark.parametrize("name", ["cache_type_k", "cache_type_v"])
@pytest.mark.parametrize("kind", ["q4_0", "f32", "F16", ""])
def test_another_cache_type_is_refused(tiny: ModelFile, path: Path, name: str, kind: str) -> None:
    refused(tiny, path, f"^the KV cache type '{kind}' is not played$", **{name: kind})


# --- the header alone -----------------------------------------------------------------------------------------------


def reasons(file: ModelFile, path: Path, **options: Any) -> tuple[str, ...]:
    """Everything that a file is refused for, by the check of its header; loading it refuses likewise."""
    file.write(path)
    with pytest.raises(UnplayableModel) as caught:
        check_header(read_header(path), ModelOptions(**options))
    with pytest.raises(UnplayableModel) as loading:
        Model.open(path, ModelOptions(**options))
    assert loading.value.reasons == caught.value.reasons
    assert str(loading.value) == str(caught.value)
    return caught.value.reasons


def test_the_header_says_what_a_model_is(tiny: ModelFile, path: Path) -> None:
    tiny.write(path)
    checked = check_header(read_header(path), ModelOptions())
    assert (checked.architecture.name, checked.config.n_layer, checked.tokenizer.n_vocab) == ("llama", 2, N_VOCAB)
    assert checked.template.source


def test_everything_wrong_with_a_header_is_found(tiny: ModelFile, path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("blk.0.attn_q.weight", "blk.1.attn_q.weight"):
        tiny.tensors[name] = random_matrix(GGMLType.MXFP4, 64, 64, rng)
    tiny.tensors["blk.1.attn_v.weight"] = random_matrix(GGMLType.F32, 64, 64, rng)
    tiny.tensors["blk.0.attn_q.scale"] = floats([0.0] * 64)
    del tiny.tensors["output_norm.weight"]
    tiny.metadata["tokenizer.ggml.pre"] = "nosuch"
    assert reasons(tiny, path, cache_type_k="q1_0") == (
        "tokenizer.ggml.pre is 'nosuch', a pre-tokenizer that is not played",
        "the KV cache type 'q1_0' is not played",
        "tensor blk.0.attn_q.weight is MXFP4, a type that is not played, and 1 more like it",
        "tensor blk.1.attn_v.weight has shape [64, 64], not [64, 32]",
        "tensor output_norm.weight is missing",
        "tensor blk.0.attn_q.scale is none that is played",
    )


def test_of_many_reasons_the_text_has_the_first_few(tiny: ModelFile, path: Path) -> None:
    for name in ("blk.0.attn_norm.weight", "blk.0.attn_k.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"):
        tiny.tensors[name] = floats([1.0] * len(name))
    assert len(reasons(tiny, path)) == 4
    with pytest.raises(UnplayableModel) as caught:
        Model.open(path)
    assert str(caught.value).startswith("tensor blk.0.attn_norm.weight has shape [22], not [64]; tensor ")
    assert str(caught.value).endswith("; and 1 more (bankml guard shows them)")


def test_the_types_of_an_unknown_architecture_are_judged_too(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["general.architecture"] = "gemma3"
    tiny.tensors["x"] = random_matrix(GGMLType.MXFP4, 32, 32, np.random.default_rng(0))
    assert reasons(tiny, path) == (
        "general.architecture is 'gemma3', which is not played",
        "tensor x is MXFP4, a type that is not played",
    )


def test_sizes_that_fit_no_kernel_leave_the_shapes_unjudged(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["llama.attention.head_count"] = 128
    assert reasons(tiny, path) == ("attention heads have 0 dimensions, which is not played",)


@pytest.mark.parametrize("n_layer", [513, 2**31 - 1])
def test_more_layers_than_the_reference_takes_are_refused_at_once(tiny: ModelFile, path: Path, n_layer: int) -> None:
    tiny.metadata["llama.block_count"] = n_layer
    assert reasons(tiny, path) == (f"the model has {n_layer} layers, more than 512",)


def test_layers_that_cannot_all_have_tensors_are_one_reason(tiny: ModelFile, path: Path) -> None:
    tiny.metadata["llama.block_count"] = 512
    assert reasons(tiny, path) == (f"the model has 512 layers, but {len(tiny.tensors)} tensors",)


@pytest.mark.parametrize("name", ["a\nb", "x" * 100_000, "\x1b[31m", "\0"])
def test_a_reason_is_one_printable_line_whatever_the_file_says(tiny: ModelFile, path: Path, name: str) -> None:
    tiny.metadata["general.architecture"] = name
    (reason,) = reasons(tiny, path)
    assert reason.isprintable()
    assert len(reason) < 1000


@pytest.mark.parametrize("name", ["cache_type_k", "cache_type_v"])
def test_a_head_that_is_no_multiple_of_a_cache_types_block_is_refused(tiny: ModelFile, path: Path, name: str) -> None:
    tiny.metadata |= {f"llama.attention.{part}_length": 48 for part in ("key", "value")}
    reason = f"a {name[-1].upper()} cache of q8_0 holds blocks of 32, and attention heads have 48 dimensions"
    kept = reasons(tiny, path)  # the tensors are for heads of 32
    assert reasons(tiny, path, **{name: "q8_0"}) == (reason, *kept)


@pytest.mark.parametrize("types", [("q8_0", "q8_0"), ("q8_0", "f16"), ("f16", "q8_0")])
def test_a_quantized_cache_gives_the_same_logits_on_both_code_paths_and_any_number_of_threads(
    tiny: ModelFile, path: Path, types: tuple[str, str]
) -> None:
    options = {"cache_type_k": types[0], "cache_type_v": types[1]}
    whole = logits(tiny.write(path))
    found = logits(path, isa="portable", **options)
    assert found == logits(path, isa=isa(), **options) == logits(path, n_threads=3, **options)
    assert all(a != b for a, b in zip(found, whole, strict=True))


def test_a_quantized_cache_takes_34_bytes_where_half_precision_takes_64(tiny: ModelFile, path: Path) -> None:
    tiny.write(path)
    sizes = []
    for k, v in (("f16", "f16"), ("q8_0", "f16"), ("f16", "q8_0"), ("q8_0", "q8_0")):
        model = Model.open(path, ModelOptions(n_ctx=256, cache_type_k=k, cache_type_v=v))
        sizes.append(model.cache_bytes)
        model.close()
    cells = 256 * N_LAYER * N_HEAD_KV * HEAD_SIZE // 32
    assert sizes == [cells * 128, cells * 98, cells * 98, cells * 68]


def test_every_refusal_is_an_engine_error_and_the_next_model_opens(tiny: ModelFile, path: Path) -> None:
    norm = tiny.tensors.pop("output_norm.weight")
    with pytest.raises(EngineError, match=r"tensor output_norm\.weight is missing"):
        Model.open(tiny.write(path))
    tiny.tensors["output_norm.weight"] = norm
    assert len(logits(tiny.write(path))) == 4
