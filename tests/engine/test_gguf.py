"""The GGUF reader: what a file says, zero-copy; and a clear refusal of every file that lies."""

from __future__ import annotations

import gc
import os
import re
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidModelFile, TruncatedModelFile
from engine.gguf import GGMLType, GGUFFile, read_header
from testing.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    FORMATS,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    array_key,
    gguf,
    key,
    tensor,
    text,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def refused(path: Path, data: bytes, reason: str) -> None:
    path.write_bytes(data)
    with pytest.raises(InvalidModelFile, match=re.escape(reason)) as caught:
        GGUFFile.open(path)
    assert str(caught.value).startswith(f"{path}: ")


# --- reading ------------------------------------------------------------------------------------------------------


def test_values_of_every_type_are_read(path: Path) -> None:
    given_values: dict[str, tuple[int, Any]] = {
        "u8": (U8, 255),
        "i8": (I8, -1),
        "u16": (U16, 65535),
        "i16": (I16, -2),
        "u32": (U32, 2**32 - 1),
        "i32": (I32, -3),
        "f32": (F32, 0.5),
        "true": (BOOL, True),
        "false": (BOOL, False),
        "text": (STRING, "né 漢 \0"),
        "u64": (U64, 2**64 - 1),
        "i64": (I64, -4),
        "f64": (F64, 0.1),
    }
    path.write_bytes(gguf([key(name, kind, value) for name, (kind, value) in given_values.items()]))
    with GGUFFile.open(path) as file:
        assert file.metadata == {name: value for name, (_, value) in given_values.items()}
        assert {name: type(value) for name, value in file.metadata.items()} == {
            name: type(value) for name, (_, value) in given_values.items()
        }
    assert read_header(path).singles == {"f32"}


@pytest.mark.parametrize("kind", [U8, I8, U16, I16, U32, I32, F32, U64, I64, F64])
def test_arrays_of_numbers_are_numpy_arrays_of_their_type(path: Path, kind: int) -> None:
    path.write_bytes(gguf([array_key("a", kind, [0, 1, 7]), array_key("b", kind, [])]))
    with GGUFFile.open(path) as file:
        assert file.metadata["a"].dtype == np.dtype("<" + FORMATS[kind])
        assert file.metadata["a"].tolist() == [0, 1, 7]
        assert file.metadata["b"].tolist() == []


def test_arrays_of_booleans_are_numpy_arrays_of_booleans(path: Path) -> None:
    path.write_bytes(gguf([array_key("a", BOOL, [True, False])]))
    with GGUFFile.open(path) as file:
        assert file.metadata["a"].dtype == np.bool_
        assert file.metadata["a"].tolist() == [True, False]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.just("x" * 300))),
    after=st.integers(0, 255),
)
def test_arrays_of_texts_are_read_whatever_their_lengths(path: Path, values: list[str], after: int) -> None:
    path.write_bytes(gguf([array_key("a", STRING, values), key("b", U8, after)]))
    with GGUFFile.open(path) as file:
        assert file.metadata == {"a": values, "b": after}


def test_an_array_at_the_end_of_the_file_is_read(path: Path) -> None:
    path.write_bytes(gguf([array_key("a", STRING, ["ab", "c"])], alignment=1))
    with GGUFFile.open(path) as file:
        assert file.metadata == {"a": ["ab", "c"]}


def test_tensors_are_views_of_the_file(path: Path) -> None:
    rows = np.arange(8, dtype=np.float32)
    block = bytes(range(34))
    data = rows.tobytes() + block
    tensors = [tensor("a", [4, 2], GGMLType.F32, 0), tensor("b", [32], GGMLType.Q8_0, 32)]
    path.write_bytes(gguf([], tensors, data))
    with GGUFFile.open(path) as file:
        assert list(file.tensors) == ["a", "b"]
        a, b = file.tensors["a"], file.tensors["b"]
        assert (a.shape, a.type, a.nbytes, a.offset % 32) == ((4, 2), GGMLType.F32, 32, 0)
        assert (b.shape, b.type, b.nbytes, b.offset - a.offset) == ((32,), GGMLType.Q8_0, 34, 32)
        assert file.data("a").view(np.float32).tolist() == rows.tolist()
        assert file.data("b").tobytes() == block
        assert not file.data("a").flags.writeable
        with pytest.raises(KeyError):
            file.data("c")


def test_a_view_outlives_the_file_object(path: Path) -> None:
    path.write_bytes(gguf([], [tensor("a", [4], GGMLType.I8, 0)], b"abcd"))
    file = GGUFFile.open(path)
    view = file.data("a")
    file.close()
    file.close()
    assert view.tobytes() == b"abcd"


def test_the_alignment_of_the_file_counts(path: Path) -> None:
    keys = [key("general.alignment", U32, 64)]
    tensors = [tensor("a", [1], GGMLType.I8, 0), tensor("b", [1], GGMLType.I8, 64)]
    path.write_bytes(gguf(keys, tensors, b"a" + bytes(63) + b"b", alignment=64))
    with GGUFFile.open(path) as file:
        assert file.header.alignment == 64
        assert file.data("b").tobytes() == b"b"


def test_the_real_model_is_read(model_path: Path) -> None:
    with GGUFFile.open(model_path) as file:
        assert file.metadata["general.architecture"] == "llama"
        assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152
        assert file.metadata["tokenizer.ggml.tokens"][:3] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
        assert file.metadata["tokenizer.ggml.merges"][0] == "Ġ t"
        assert file.metadata["tokenizer.ggml.token_type"].shape == (49152,)
        assert len(file.tensors) == 272
        last = list(file.tensors.values())[-1]
        assert last.offset + last.nbytes <= file.size == model_path.stat().st_size
        embedding = file.tensors["token_embd.weight"]
        assert (embedding.shape, embedding.type) == ((576, 49152), GGMLType.Q8_0)
        assert embedding.nbytes == 576 * 49152 // 32 * 34


def test_every_type_has_a_block() -> None:
    for kind in GGMLType:
        assert kind.block_size in (1, 32, 64, 128, 256)
        assert kind.block_bytes > 0


# --- refusals -----------------------------------------------------------------------------------------------------

GOOD = gguf(
    [key("a", U32, 1), array_key("b", STRING, ["x", "yz"] * 8), array_key("c", F32, [1.0, 2.0])],
    [tensor("t", [32, 2], GGMLType.Q4_1, 0), tensor("u", [4], GGMLType.F32, 64)],
    bytes(80),
)


def test_a_file_cut_at_any_byte_is_refused_and_says_how_many_it_needs(path: Path) -> None:
    for length in range(1, len(GOOD)):
        path.write_bytes(GOOD[:length])
        with pytest.raises(TruncatedModelFile) as caught:
            GGUFFile.open(path)
        assert length < caught.value.needed <= len(GOOD)
    path.write_bytes(GOOD)
    GGUFFile.open(path).close()


def test_the_header_of_a_file_is_read_though_its_weights_are_missing(path: Path) -> None:
    path.write_bytes(GOOD)
    whole = read_header(path)
    assert (whole.size, whole.needed) == (len(GOOD), len(GOOD))
    path.write_bytes(GOOD[:-80])
    header = read_header(path)
    assert (header.size, header.needed) == (len(GOOD) - 80, len(GOOD))
    assert header.metadata["a"] == whole.metadata["a"]
    assert header.tensors == whole.tensors
    with pytest.raises(TruncatedModelFile, match=r"^the tensor 't' ends at byte \d+ of \d+: the file is cut short$"):
        header.check_whole()
    path.write_bytes(GOOD[:-81])
    with pytest.raises(TruncatedModelFile) as caught:  # the padding before the weights
        GGUFFile.open(path)
    assert caught.value.needed == len(GOOD)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(at=st.integers(0, len(GOOD) - 81), value=st.binary(min_size=1, max_size=8))
def test_a_damaged_header_is_read_or_refused_and_nothing_else(path: Path, at: int, value: bytes) -> None:
    path.write_bytes(GOOD[:at] + value + GOOD[at + len(value) :])
    with suppress(InvalidModelFile):
        GGUFFile.open(path).close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (gguf(magic=b"GGML"), "not a GGUF file (it starts with b'GGML')"),
        (b"PK\x03\x04 a zip", "not a GGUF file"),
        (gguf(version=1), "GGUF version 1 is not supported (only 3 is)"),
        (gguf(version=2), "GGUF version 2 is not supported (only 3 is)"),
        (gguf(version=4), "GGUF version 4 is not supported (only 3 is)"),
        (gguf(version=0), "GGUF version 0 is not supported"),
        (gguf(version=3 << 24), "big-endian"),
        (gguf(n_keys=2**63), "keys are more than"),
        (gguf(n_tensors=2**63), "tensors are more than"),
        (gguf(n_keys=5, alignment=1), "cut short: a key at byte 24"),
        (gguf([key("", U8, 1)]), "a key is empty"),
        (gguf([key("a", U8, 1), key("a", U8, 2)]), "the key 'a' stands twice"),
        (gguf([key(b"\xff", U8, 1)]), "a key at byte 32 is not UTF-8"),
        (gguf([key("a", STRING, b"\xff")]), "the value of 'a' at byte 45 is not UTF-8"),
        (gguf([text("a") + struct.pack("<I", 13)]), "the value of 'a' has the unknown type 13"),
        (gguf([text("a") + struct.pack("<IQ", STRING, 2**20)]), "cut short: the value of 'a'"),
        (
            gguf([text("a") + struct.pack("<IQ", STRING, 2**26)]),
            "the value of 'a' claims 67108864 bytes at byte 45: more",
        ),
        (gguf([text("a") + struct.pack("<IQ", STRING, 2**64 - 1)]), "the value of 'a' claims"),
        (gguf([text("a") + struct.pack("<IIQ", ARRAY, ARRAY, 1)]), "the value of 'a' is an array of arrays"),
        (gguf([text("a") + struct.pack("<IIQ", ARRAY, 99, 1)]), "the value of 'a' has the unknown type 99"),
        (gguf([array_key("a", U64, [], 2**20)]), "cut short: the value of 'a'"),
        (gguf([array_key("a", U64, [], 2**62)]), "the value of 'a' claims 36893488147419103232 bytes"),
        (gguf([array_key("a", STRING, ["b"], 2**20)]), "cut short: the value of 'a'"),
        (gguf([array_key("a", STRING, ["b"], 2**20 + 1)]), "the value of 'a' claims 1048577 strings; more than"),
        (gguf([array_key("a", STRING, ["b"], 2**62)]), "the value of 'a' claims 4611686018427387904 strings"),
        (
            gguf([array_key("a", STRING, ["b"] * 9), array_key("b", STRING, [], 2**20 - 8)]),
            "'b' claims 1048568 strings",
        ),
        (gguf([array_key("a", STRING, ["b", b"c" * 2**26])]), "the value of 'a' claims"),
        (
            gguf([text("a") + struct.pack("<IIQQ", ARRAY, STRING, 1, 2**64 - 1)]),
            "the value of 'a' claims 18446744073709551615 bytes at byte 57",
        ),
        (gguf([array_key("a", STRING, ["b", "c"], 3)], alignment=1), "cut short"),
        (gguf([array_key("a", STRING, [b"b", b"\xc3"])]), "the value of 'a' is not UTF-8"),
        (gguf([array_key("a", STRING, [b"\xc3", b"\xa9"])]), "the value of 'a' is not UTF-8"),
        (gguf([key("general.alignment", U32, 0)]), "the alignment 0 is not a power of two"),
        (gguf([key("general.alignment", U32, 48)]), "the alignment 48 is not a power of two"),
        (gguf([key("general.alignment", STRING, "32")]), "the alignment '32' is not a power of two"),
        (gguf([key("general.alignment", U64, 2**40)]), "the alignment 1099511627776 is too large"),
        (gguf([], [tensor("t" * 64, [1], 0, 0)], bytes(4)), "the name of tensor 0 is longer than 63 bytes"),
        (gguf([], [tensor("t", [1], 0, 0)] * 2, bytes(64)), "the tensor 't' stands twice"),
        (gguf([], [tensor("t", [1] * 5, 0, 0)], bytes(4)), "the tensor 't' has 5 dimensions"),
        (gguf([], [tensor("t", [1], 4, 0)], bytes(4)), "the tensor 't' has the unknown type 4"),
        (gguf([], [tensor("t", [1], 43, 0)], bytes(4)), "the tensor 't' has the unknown type 43"),
        (
            gguf([], [tensor("t", [33], GGMLType.Q8_0, 0)], bytes(99)),
            "rows of 33 elements, no multiple of Q8_0's block",
        ),
        (gguf([], [tensor("t", [], GGMLType.Q8_0, 0)], bytes(99)), "rows of 1 elements"),
        (gguf([], [tensor("t", [2**63], 0, 0)]), "impossible shape"),
        (gguf([], [tensor("t", [2**40, 2**40], 0, 0)]), "impossible shape"),
        (gguf([], [tensor("t", [0, 2**63], 0, 0)]), "impossible shape"),
        (gguf([], [tensor("t", [4], 0, 32)], bytes(64)), "the tensor 't' has the offset 32, expected 0"),
        (gguf([], [tensor("t", [4], 0, 0), tensor("u", [4], 0, 16)], bytes(64)), "the offset 16, expected 32"),
        (gguf([], [tensor("t", [9], 0, 0)], bytes(32)), "ends at byte 100 of 96: the file is cut short"),
        (gguf([], [tensor("t", [2**61], GGMLType.I8, 0)]), "the file is cut short"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_lies_is_refused_with_its_lie(path: Path, data: bytes, reason: str) -> None:
    refused(path, data, reason)


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelFile, match="No such file or directory"):
        GGUFFile.open(tmp_path / "absent.gguf")
    with pytest.raises(InvalidModelFile, match="not a regular file"):
        GGUFFile.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidModelFile, match="not a regular file"):
        GGUFFile.open(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidModelFile, match=r"empty: not a GGUF file \(it is empty\)"):
        GGUFFile.open(tmp_path / "empty")
    with pytest.raises(InvalidModelFile, match="null"):
        GGUFFile.open("a\0b")


@pytest.mark.parametrize("data", [GOOD, GOOD[:-1], GOOD[:100], b"GGUF"])
def test_a_file_that_was_read_is_closed_before_python_looks_for_circles(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/proc/self/fd")
        for _ in range(3):
            with suppress(InvalidModelFile):
                read_header(path)
        assert os.listdir("/proc/self/fd") == before
    finally:
        gc.enable()


def test_a_header_s_claims_do_not_take_memory(path: Path) -> None:
    claims = [
        gguf([array_key("a", STRING, [], 2**24)]),
        gguf([array_key("a", F64, [], 2**40)]),
        gguf([text("a") + struct.pack("<IQ", STRING, 2**40)]),
        gguf([array_key("a", STRING, [], 2**20)]),
        gguf([array_key("a", F64, [], 2**22)]),
        gguf(n_keys=2**12),
        gguf(n_tensors=2**13),
    ]
    for claim in claims:
        path.write_bytes(claim)
        tracemalloc.start()
        try:
            with pytest.raises(InvalidModelFile):
                GGUFFile.open(path)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
