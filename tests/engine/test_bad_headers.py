"""Headers of bad faith: each is played, refused in one line that names what is wrong, or waited for. Nothing else."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_model import tiny_llama

from engine.errors import InvalidModelFile, TruncatedModelFile, UnplayableModel
from engine.gguf import GGMLType, GGUFFile
from engine.model import Model, ModelOptions
from testing import gguf_writer as writer
from testing.gguf_writer import ModelFile, TensorData

REFUSALS = (InvalidModelFile, UnplayableModel)
OPTIONS = ModelOptions(n_ctx=256, n_threads=1)

ANY_FILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=150
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tiny.gguf"


def raw(model: ModelFile, keys: Mapping[str, bytes | None] = {}, tensors: Mapping[str, bytes | None] = {}) -> bytes:
    """The model's file with these keys and tensor infos as bytes in place of its own (None: left out), or added."""
    infos, data = {}, b""
    for name, part in model.tensors.items():
        data += b"\0" * (-len(data) % 32)
        infos[name] = writer.tensor(name, part.shape, part.type, len(data))
        data += part.data
    written = {name: writer.key_of(name, value) for name, value in model.metadata.items()}
    wanted = [[part for part in (own | dict(new)).values() if part] for own, new in ((written, keys), (infos, tensors))]
    return writer.gguf(*wanted, data)


def outcome(path: Path) -> str:
    """What becomes of a file: "played", or the one line it is refused with. Anything else fails the test."""
    try:
        model = Model.open(path, OPTIONS)
    except REFUSALS as error:
        line = str(error)
        assert line
        assert line.isprintable()
        assert len(line) < 3500
        return line
    model.evaluate([1, 2, 3], 0, output=True)
    assert model.logits.shape == (model.n_vocab,)
    model.tokenizer.encode("abc <|endoftext|> b")
    model.close()
    return "played"


# --- keys -----------------------------------------------------------------------------------------------------------

U32, I32, F32, F64, STRING, BOOL = writer.U32, writer.I32, writer.F32, writer.F64, writer.STRING, writer.BOOL
NO_COUNTS = [(U32, 0), (I32, -1), (U32, 2**31), (U32, 2**32 - 1), (writer.U64, 2**64 - 1), (F32, 2.0), (STRING, "2")]
COUNTS = ["block_count", "embedding_length", "feed_forward_length", "context_length"]
COUNTS += ["attention.head_count", "attention.head_count_kv", "attention.key_length"]


@pytest.mark.parametrize("value", NO_COUNTS, ids=repr)
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_that_is_none_is_refused_by_its_name(path: Path, name: str, value: tuple[int, Any]) -> None:
    path.write_bytes(raw(tiny_llama(), {f"llama.{name}": writer.key(f"llama.{name}", *value)}))
    assert outcome(path).startswith(f"llama.{name} is not a positive integer")


@pytest.mark.parametrize("value", [2**31 - 1, 1_000_003, 513])
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_far_too_large_is_refused_and_takes_no_memory(path: Path, name: str, value: int) -> None:
    model = tiny_llama()
    model.metadata[f"llama.{name}"] = value
    model.write(path)
    outcome(path)  # what is imported and cached on first use
    tracemalloc.start()
    try:
        said = outcome(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (said == "played") == (name == "context_length")
    assert peak < 4 << 20


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, -1e-9])
@pytest.mark.parametrize("name", ["attention.layer_norm_rms_epsilon", "rope.freq_base"])
@pytest.mark.parametrize("kind", [F32, F64])
def test_a_number_that_is_not_finite_or_below_zero_is_refused_by_its_name(
    path: Path, name: str, value: float, kind: int
) -> None:
    path.write_bytes(raw(tiny_llama(), {f"llama.{name}": writer.key(f"llama.{name}", kind, value)}))
    assert outcome(path).startswith(f"llama.{name} is ")


KEYS: list[tuple[str, int, Any, str]] = [
    ("llama.rope.freq_base", F32, 0.0, "llama.rope.freq_base is 0.0, not positive"),
    ("llama.rope.freq_base", F64, 1e-300, "llama.rope.freq_base is 1e-300, not positive"),
    ("llama.rope.freq_base", F64, 1e300, "llama.rope.freq_base is not a number"),
    ("llama.attention.layer_norm_rms_epsilon", F32, 0.0, "played"),
    ("llama.attention.layer_norm_rms_epsilon", F64, 1e39, "llama.attention.layer_norm_rms_epsilon is not a number"),
    ("llama.rope.scaling.factor", F32, 1e-45, "llama.rope.scaling.factor is 1.4"),
    ("llama.rope.scaling.factor", F64, 1e-300, "played"),  # 0 in single precision: not stated
    ("llama.rope.scale_linear", F32, 1e-39, "llama.rope.scale_linear is "),
    ("llama.rope.scaling.factor", F32, math.nan, "llama.rope.scaling.factor is not a number"),
    ("llama.rope.scaling.type", STRING, "longrope", "llama.rope.scaling.type is 'longrope', which is not played"),
    ("llama.rope.dimension_count", U32, 64, "llama.rope.dimension_count is 64, not 32: "),
    ("llama.rope.dimension_count", U32, 0, "llama.rope.dimension_count is 0, not 32: "),
    ("llama.attention.value_length", U32, 64, "llama.attention.value_length is 64, not 32: "),
    ("llama.attention.key_length", U32, 33, "llama.attention.value_length is 32, not 33: "),
    ("llama.attention.causal", BOOL, False, "llama.attention.causal is False, not True: "),
    ("llama.attention.head_count", U32, 3, "attention heads have 21 dimensions, which is not played"),
    ("llama.attention.head_count_kv", U32, 3, "2 heads do not share 3 key/value heads evenly"),
    (
        "llama.attention.head_count_kv",
        U32,
        2,
        "tensor blk.0.attn_k.weight has shape [64, 32], not [64, 64], and 3 more",
    ),
    ("llama.block_count", U32, 1, "tensor blk.1.attn_q.weight is none that is played, and 8 more like it"),
    ("llama.block_count", U32, 3, "tensor blk.2.attn_norm.weight is missing, and 8 more like it"),
    ("llama.embedding_length", U32, 96, "tensor token_embd.weight has shape [64, 64], not [96, 64]"),
    ("llama.feed_forward_length", U32, 64, "tensor blk.0.ffn_gate.weight has shape [64, 96], not [64, 64], and 3 more"),
    ("llama.context_length", U32, 1, "played"),
    ("llama.expert_count", U32, 8, "llama.expert_count is set: it is a mixture of experts, which is not played"),
    ("general.alignment", U32, 0, "the alignment 0 is not a power of two"),
    ("general.alignment", U32, 48, "the alignment 48 is not a power of two"),
    ("general.alignment", U32, 16, "the alignment 16 is less than 32"),
    ("general.alignment", writer.U64, 2**63, "the alignment 9223372036854775808 is too large"),
    ("general.alignment", I32, -32, "the alignment -32 is not a power of two"),
    ("general.architecture", U32, 3, "general.architecture is 3, which is not played"),
    ("general.name", STRING, "Ternary Bonsai 2 27B", "'Ternary Bonsai 2 27B' is a Bonsai 2: "),
    ("general.basename", STRING, "x-PRISM-FORK-REQUIRED", "'x-PRISM-FORK-REQUIRED' is a Bonsai 2: "),
    ("general.name", STRING, "Bonsai-27B", "played"),
    ("general.name", U32, 7, "played"),
    ("split.count", writer.U16, 3, "split.count is 3: a model in several files, which is not played"),
    ("split.count", writer.U16, 1, "played"),
    ("tokenizer.ggml.model", STRING, "bert", "tokenizer.ggml.model is 'bert'"),
    ("tokenizer.ggml.model", U32, 0, "tokenizer.ggml.model is 0"),
    ("tokenizer.ggml.pre", STRING, "nosuch", "tokenizer.ggml.pre is 'nosuch'"),
    ("tokenizer.ggml.tokens", STRING, "a", "tokenizer.ggml.tokens is missing or no array of strings"),
    ("tokenizer.ggml.merges", U32, 0, "tokenizer.ggml.merges is missing or no array of strings"),
    ("tokenizer.ggml.token_type", U32, 0, "tokenizer.ggml.token_type is no array of int32"),
    ("tokenizer.ggml.bos_token_id", STRING, "0", "tokenizer.ggml.bos_token_id is no integer"),
    ("tokenizer.ggml.add_bos_token", U32, 1, "tokenizer.ggml.add_bos_token is no boolean"),
    ("tokenizer.chat_template", U32, 1, "tokenizer.chat_template is no text"),
    ("tokenizer.chat_template", STRING, "{% if %}", ""),
]


@pytest.mark.parametrize(("name", "kind", "value", "said"), KEYS)
def test_a_key_out_of_order_is_refused_by_its_name(path: Path, name: str, kind: int, value: Any, said: str) -> None:
    path.write_bytes(raw(tiny_llama(), {name: writer.key(name, kind, value)}))
    assert outcome(path).removeprefix(f"{path}: ").startswith(said)


@pytest.mark.parametrize("name", ["tokenizer.ggml.model", "tokenizer.ggml.pre", "general.architecture"])
@pytest.mark.parametrize("values", [[], [1], [1, 2], ["a", "b"]])
def test_an_array_where_a_text_should_be_is_refused_by_its_name(path: Path, name: str, values: list[Any]) -> None:
    model = tiny_llama()
    model.metadata[name] = values
    assert outcome(model.write(path)).startswith(f"{name} is ")


@pytest.mark.parametrize("name", [*COUNTS[:2], "attention.layer_norm_rms_epsilon", "rope.scaling.factor"])
def test_an_array_where_a_number_should_be_is_refused_by_its_name(path: Path, name: str) -> None:
    model = tiny_llama()
    model.metadata[f"llama.{name}"] = [1] * 100
    assert outcome(model.write(path)).startswith(f"llama.{name} is not a ")


# --- tensors --------------------------------------------------------------------------------------------------------

Q, DIMS = "blk.0.attn_q.weight", (64, 64)
SHAPE = f"tensor {Q} has shape "
TENSORS: list[tuple[str, Any, int, str]] = [
    ("a dimension of 0", (64, 0), GGMLType.Q4_1, "the tensor 'blk.0.attn_k.weight' has the offset "),
    ("a row of 0", (0, 64), GGMLType.Q4_1, "the tensor 'blk.0.attn_k.weight' has the offset "),
    ("2^63 rows", (64, 2**63), GGMLType.Q4_1, f"the tensor '{Q}' has the impossible shape (64, 9223372036854775808)"),
    ("2^64 - 1 columns", (2**64 - 1, 1), GGMLType.F32, f"the tensor '{Q}' has the impossible shape "),
    ("2^62 by 4", (2**61, 4), GGMLType.F32, f"the tensor '{Q}' has the impossible shape "),
    ("4 GiB by 4 GiB", (2**32, 2**32), GGMLType.F32, f"the tensor '{Q}' has the impossible shape "),
    ("a row of no whole blocks", (33, 64), GGMLType.Q4_1, f"the tensor '{Q}' has rows of 33 elements, "),
    ("five dimensions", (64, 64, 1, 1, 1), GGMLType.Q4_1, f"the tensor '{Q}' has 5 dimensions, more than 4"),
    ("two dimensions of 1 more", (64, 64, 1, 1), GGMLType.Q4_1, "played"),
    ("one dimension", (4096,), GGMLType.Q4_1, f"{SHAPE}[4096], not [64, 64]"),
    ("the rows as columns", (32, 128), GGMLType.Q4_1, f"{SHAPE}[32, 128], not [64, 64]"),
    ("a type that is no more", (64, 64), 4, f"the tensor '{Q}' has the unknown type 4"),
    ("a type of the future", (64, 64), 43, f"the tensor '{Q}' has the unknown type 43"),
    ("a type of a fork", (64, 64), 142, f"the tensor '{Q}' has the unknown type 142: PQ2_0 of PrismML's fork"),
    ("the largest type", (64, 64), 2**32 - 1, f"the tensor '{Q}' has the unknown type 4294967295"),
    ("a wider type", (64, 64), GGMLType.F32, "the tensor 'blk.0.attn_k.weight' has the offset "),
]


@pytest.mark.parametrize(("shape", "kind", "said"), [case[1:] for case in TENSORS], ids=[case[0] for case in TENSORS])
def test_a_tensor_out_of_order_is_refused_by_its_name(path: Path, shape: tuple[int, ...], kind: int, said: str) -> None:
    model = tiny_llama()
    offset = len(model.tensors["token_embd.weight"].data)
    path.write_bytes(raw(model, tensors={Q: writer.tensor(Q, shape, kind, offset)}))
    assert outcome(path).removeprefix(f"{path}: ").startswith(said)


@pytest.mark.parametrize("offset", [0, 1, 32, 2**63, 2**64 - 32])
def test_a_tensor_at_another_place_is_refused_by_its_name(path: Path, offset: int) -> None:
    path.write_bytes(raw(tiny_llama(), tensors={Q: writer.tensor(Q, DIMS, GGMLType.Q4_1, offset)}))
    assert outcome(path).startswith(f"{path}: the tensor '{Q}' has the offset {offset}, expected ")


def test_a_tensor_that_stands_twice_is_refused(path: Path) -> None:
    model = tiny_llama()
    again = writer.tensor(Q, DIMS, GGMLType.Q4_1, 0)
    path.write_bytes(raw(model, tensors={"again": again}))
    assert outcome(path) == f"{path}: the tensor '{Q}' stands twice"


def test_a_q2_0_file_of_the_older_kind_is_told_from_a_damaged_one(path: Path) -> None:
    first, second = (writer.tensor(name, [128], GGMLType.Q2_0, offset) for name, offset in (("a", 0), ("b", 34)))
    path.write_bytes(writer.gguf([], [first, second], bytes(68)))
    assert "groups of 64, not PrismML's older ones of 128" in outcome(path)


def test_more_tensors_than_an_architecture_has_are_refused_however_many(path: Path) -> None:
    model = tiny_llama()
    for i in range(5000):
        model.tensors[f"extra.{i}"] = TensorData(GGMLType.I8, (1,), b"\0")
    assert outcome(model.write(path)) == "tensor extra.0 is none that is played, and 4999 more like it"


# --- anything -------------------------------------------------------------------------------------------------------

SCALARS = {
    **{kind: st.integers(0, 2 ** (8 * n) - 1) for kind, n in ((0, 1), (2, 2), (4, 4), (10, 8))},
    **{kind: st.integers(-(2 ** (8 * n - 1)), 2 ** (8 * n - 1) - 1) for kind, n in ((1, 1), (3, 2), (5, 4), (11, 8))},
    F32: st.floats(width=32),
    F64: st.floats(),
    BOOL: st.booleans(),
    STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
}
SMALL = {kind: st.sampled_from([0, 1, 2, 16, 32, 64, 96]) for kind in (0, 2, 4, 5, 10)}


def one_of_a_kind(kind: int) -> st.SearchStrategy[bytes]:
    values = SCALARS[kind] | SMALL.get(kind, st.nothing())
    alone = values.map(lambda value: writer.key("", kind, value))
    several = st.lists(values, max_size=4).map(lambda values: writer.array_key("", kind, values))
    return (alone | several).map(lambda data: data[8:])  # without the empty name


VALUES = st.sampled_from(sorted(SCALARS)).flatmap(one_of_a_kind)
KEPT = tiny_llama()
KEPT.metadata |= {
    "general.alignment": 32,
    "llama.rope.freq_base": 10000.0,
    "llama.rope.scaling.factor": 2.0,
    "llama.rope.scaling.type": "linear",
    "llama.attention.key_length": 32,
    "llama.attention.value_length": 32,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.suppress_tokens": [1],
    "tokenizer.chat_template": "{{ messages[0].content }}",
}
WHOLE = raw(KEPT)


@ANY_FILE
@given(changes=st.dictionaries(st.sampled_from(sorted(KEPT.metadata)), VALUES | st.none(), min_size=1, max_size=3))
def test_any_value_of_any_key_is_played_or_refused(path: Path, changes: dict[str, bytes | None]) -> None:
    keys = {name: value and writer.text(name) + value for name, value in changes.items()}
    path.write_bytes(raw(KEPT, keys))
    outcome(path)


@pytest.fixture(scope="module")
def n_header(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Bytes before the first weight of `WHOLE`."""
    path = tmp_path_factory.mktemp("whole") / "whole.gguf"
    path.write_bytes(WHOLE)
    with GGUFFile.open(path) as file:
        return min(info.offset for info in file.tensors.values())


@ANY_FILE
@given(
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=3),
    end=st.none() | st.floats(0, 1),
)
def test_a_header_with_any_bytes_changed_is_played_or_refused(
    path: Path, n_header: int, cuts: list[tuple[float, int, bytes]], end: float | None
) -> None:
    data = bytearray(WHOLE)
    for where, n_gone, new in cuts:
        at = int(where * n_header)
        data[at : at + n_gone] = new
    path.write_bytes(data if end is None else data[: int(end * len(data))])
    outcome(path)


def test_every_beginning_of_a_header_is_told_from_a_whole_one(path: Path, n_header: int) -> None:
    for length in range(1, n_header, 7):
        path.write_bytes(WHOLE[:length])
        with pytest.raises(TruncatedModelFile):
            Model.open(path, OPTIONS)
